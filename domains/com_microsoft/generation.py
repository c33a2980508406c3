"""What generation of text does between two runs of a model."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import maximum, to_dim
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
