"""BifurcationDetector: which predicted tokens are taken over, and where the text goes on."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def bifurcation_detector(
    g: ProgramBuilder,
    source: Value,
    current: Value,
    start: Value,
    predicted: Value | None = None,
    *,
    max_ngram_size: int = 3,
    min_ngram_size: int = 1,
) -> tuple[Value, Value]:
    """``current`` and what of ``predicted`` agrees with ``source`` from ``start`` on, and one token more; the next start.

    That is the end of the only place in ``source`` where the last n tokens stand, for the largest n that one of them has;
    -1 where there is none or several. Source: com.microsoft BifurcationDetector, ``bifurcation_detector.h``.

    Raises:
        Refusal: O2M-C005 for sizes of n-grams that are no range.
    """
    if not 0 < min_ngram_size <= max_ngram_size:
        raise refuse("O2M-C005", f"n-grams of {min_ngram_size} to {max_ngram_size} tokens", case="min_ngram_size")
    tokens = current if predicted is None else g.cat([current, _agreed(g, source, start, predicted)], 0)
    found = _continuation(g, source, tokens, min_ngram_size, max_ngram_size)
    return tokens, g.reshape(found, start.shape)


def _agreed(g: ProgramBuilder, source: Value, start: Value, predicted: Value) -> Value:
    """The beginning of ``predicted`` that is equal to ``source`` from ``start`` on, and one token more."""
    first = g.item(g.reshape(start, []))
    rest = g.as_size(to_dim(source.shape[0] - first))
    message = "predicted tokens and the rest of the source, which is one shorter"
    g.require_equal(predicted.shape[0], to_dim(rest + 1), message)
    compared = g.slice(predicted, 0, 0, rest)
    same = g.cast(g.binary("eq", compared, g.slice(source, 0, first, to_dim(first + rest))), torch.int64)
    count = g.sum(g.call("aten.cumprod.default", same, 0), [0])
    return g.slice(predicted, 0, 0, g.item(g.add(count, 1)))


def _continuation(g: ProgramBuilder, source: Value, tokens: Value, least: int, most: int) -> Value:
    """The next start, 0-d."""
    size, length = (g.size_value(item.shape[0]) for item in (source, tokens))
    total = source.shape[0]
    ahead = g.pad(source, [0], [most])
    behind = g.pad(tokens, [most], [0])
    last = g.slice(behind, 0, tokens.shape[0], to_dim(tokens.shape[0] + most))
    places = g.arange(0, to_dim(total + 1))
    result, going = g.scalar(-1, torch.int64), g.scalar(True, torch.bool)
    for count in range(least, most + 1):
        matches = g.binary("le", places, g.sub(size, count))
        for offset in range(count):
            part = g.slice(ahead, 0, offset, to_dim(offset + total + 1))
            equal = g.binary("eq", part, g.select(last, 0, most - count + offset))
            matches = g.call("aten.logical_and.default", matches, equal)
        first = g.amin(g.where(matches, places, g.size_value(to_dim(total + 1))), [0])
        others = g.amax(g.where(matches, places, -1), [0])
        known = g.binary("ge", length, count)
        here = g.call("aten.logical_and.default", g.binary("le", first, size), known)
        going = g.call("aten.logical_and.default", going, here)
        end = g.add(first, count)
        single = g.where(g.binary("gt", others, first), -1, end)
        result = g.where(going, single, result)
        going = g.call("aten.logical_and.default", going, g.binary("lt", end, size))
    return result
