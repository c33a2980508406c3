"""What generation of text does between two runs of a model."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import maximum, to_dim
from onnx2torch_mlir.core.subprograms import scan
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def ngram_repeat_block(g: ProgramBuilder, input_ids: Value, scores: Value, *, ngram_size: int) -> Value:
    """``scores`` [B, V] with -inf for every token that would repeat ``ngram_size`` tokens of ``input_ids`` [B, S].

    Source: com.microsoft NGramRepeatBlock.

    Raises:
        Refusal: O2M-C005 for a size below 1 or other ranks.
    """
    if ngram_size < 1 or input_ids.rank != 2 or scores.rank != 2:
        raise refuse("O2M-C005", f"n-grams of {ngram_size} tokens in ids of rank {input_ids.rank}", case="ngram_size")
    batch, steps = input_ids.shape
    g.require_equal(scores.shape[0], batch, "batch sizes of input_ids and scores")
    ids = g.cast(input_ids, torch.int64)
    count = g.simplify(maximum(to_dim(steps - ngram_size + 1), 0))
    count = g.opaque_size(count)
    matches: Value | None = None
    start = g.arange(0, count)
    for place in range(ngram_size - 1):
        # The last tokens; those before the first one, of a text that is too short, are never compared.
        last = g.maximum(g.size_value(to_dim(steps - ngram_size + 1 + place)), 0)
        given = g.call("aten.index_select.default", ids, 1, g.add(start, place))
        same = g.binary("eq", given, g.call("aten.index_select.default", ids, 1, g.expand(g.unsqueeze(last, 0), [count])))
        matches = same if matches is None else g.binary("logical_and", matches, same)
    banned = g.call("aten.index_select.default", ids, 1, g.add(start, ngram_size - 1))
    row = g.unsqueeze(g.arange(0, batch), 1)
    counts = g.full([batch, count], 1, torch.int64) if matches is None else g.cast(matches, torch.int64)
    hits = g.full([batch, scores.shape[1]], 0, torch.int64)
    hits = g.call("aten.index_put.default", hits, [g.expand(row, [batch, count]), banned], counts, True)
    return g.where(g.binary("gt", hits, 0), float("-inf"), scores)


def dynamic_time_warping(g: ProgramBuilder, input: Value) -> Value:
    """The cheapest path [2, n] through costs [M, N] (or [1, M, N]) from the first to the last of both axes.

    A step to both neighbours is taken only where it is cheaper than each other one, and one along the columns in doubt.
    Source: com.microsoft DynamicTimeWarping.

    Raises:
        Refusal: O2M-C005 for another rank, O2M-C006 for several matrices.
    """
    if input.rank not in (2, 3):
        raise refuse("O2M-C005", f"costs of rank {input.rank}, not 2 or 3", case="input")
    if input.rank == 3:
        g.require_equal(input.shape[0], 1, "matrices of costs")
        input = g.select(input, 0, 0)
    rows, columns = input.shape
    far = float("inf")
    start = g.cat([g.full([1], 0.0, input.dtype), g.full([rows], far, input.dtype)], 0)

    def column(b: ProgramBuilder, items: list[Value]) -> list[Value]:
        before, own = items

        def cell(inner: ProgramBuilder, parts: list[Value]) -> list[Value]:
            above, both, left, cost = parts
            is_both = inner.binary("logical_and", inner.binary("lt", both, above), inner.binary("lt", both, left))
            is_above = inner.binary("logical_and", inner.binary("lt", above, both), inner.binary("lt", above, left))
            total = inner.add(inner.where(is_both, both, inner.where(is_above, above, left)), cost)
            step = inner.where(is_both, 0, inner.where(is_above, inner.scalar(1, torch.int64), 2))
            return [total, total, step]

        sequences = [b.slice(before, 0, 0, rows), b.slice(before, 0, 1, to_dim(rows + 1)), own]
        first = b.scalar(far, input.dtype)
        _, (totals, steps) = scan(b, cell, [first], sequences, rows)
        return [b.cat([b.full([1], far, input.dtype), totals], 0), steps]

    _, (steps,) = scan(g, column, [start], [g.permute(input, [1, 0])], columns)
    longest = to_dim(rows + columns)
    flat = g.reshape(steps, [to_dim(rows * columns)])

    def back(b: ProgramBuilder, items: list[Value]) -> list[Value]:
        row, place, _ = items
        inside = b.binary("logical_and", b.binary("ge", row, 0), b.binary("ge", place, 0))
        index = b.maximum(b.add(b.mul(place, b.size_value(rows)), row), 0)
        step = b.reshape(b.call("aten.index_select.default", flat, 0, b.reshape(index, [1])), [])
        next_row = b.where(b.binary("eq", step, 2), row, b.sub(row, 1))
        next_place = b.where(b.binary("eq", step, 1), place, b.sub(place, 1))
        return [b.where(inside, next_row, row), b.where(inside, next_place, place), row, place, inside]

    ends = [g.size_value(to_dim(size - 1)) for size in (rows, columns)]
    _, (path_rows, path_columns, inside) = scan(g, back, ends, [g.arange(0, longest)], longest)
    length = g.item(g.sum(g.cast(inside, torch.int64), [0]))
    paths = [g.call("aten.flip.default", g.slice(item, 0, 0, length), [0]) for item in (path_rows, path_columns)]
    return g.cast(g.cat([g.unsqueeze(item, 0) for item in paths], 0), torch.int32)
