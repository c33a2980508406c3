"""Layer normalizations that onnxruntime fuses with what comes before them: a sum, or embeddings."""

from __future__ import annotations

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.gathering import gather
from onnx2torch_mlir.families.normalization import compute_dtype, layer_normalization, simplified_layer_normalization


def skip_layer_normalization(
    g: ProgramBuilder,
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value | None = None,
    bias: Value | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Value, ...]:
    """The last axis of ``x`` + ``skip`` + ``bias`` normalized; mean, 1 / deviation, and the sum.

    ``x`` is [batch, sequence, hidden] or [tokens, hidden], and ``skip`` broadcasts to it. Narrow floats are summed in
    float32. Source: com.microsoft SkipLayerNormalization.
    """
    total = _sum(g, x, skip, bias)
    result, mean, inverse = layer_normalization(g, total, gamma, beta, epsilon=epsilon)
    return g.cast(result, x.dtype), mean, inverse, g.cast(total, x.dtype)


def skip_simplified_layer_normalization(
    g: ProgramBuilder,
    x: Value,
    skip: Value,
    gamma: Value,
    bias: Value | None = None,
    *,
    epsilon: float = 1e-12,
    wanted: tuple[bool, ...],
) -> tuple[Value | None, ...]:
    """The same by the root of the mean square; there is no mean.

    Source: com.microsoft SkipSimplifiedLayerNormalization.

    Raises:
        Refusal: O2M-C003 where the mean is asked for.
    """
    if wanted[1:2] == (True,):
        raise refuse("O2M-C003", "the mean, which a normalization by the mean square does not have", case="mean")
    total = _sum(g, x, skip, bias)
    result, inverse = simplified_layer_normalization(g, total, g.cast(gamma, total.dtype), epsilon=epsilon)
    return g.cast(result, x.dtype), None, inverse, g.cast(total, x.dtype)


def _sum(g: ProgramBuilder, x: Value, skip: Value, bias: Value | None) -> Value:
    dtype = compute_dtype(x)
    if skip.rank > x.rank:
        raise refuse("O2M-C006", f"skip of rank {skip.rank} is added to rank {x.rank}", case="skip")
    total = g.add(g.cast(x, dtype), g.cast(skip, dtype))
    return total if bias is None else g.add(total, g.cast(bias, dtype))


def embed_layer_normalization(
    g: ProgramBuilder,
    input_ids: Value,
    segment_ids: Value | None,
    word_embedding: Value,
    position_embedding: Value,
    segment_embedding: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None = None,
    position_ids: Value | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int | None = None,
) -> tuple[Value, ...]:
    """The embeddings of words, positions and segments summed and normalized; the lengths that the mask tells; the sum.

    ``input_ids`` is [batch, sequence]; positions are counted where ``position_ids`` (of batch 1 or all) are not given.
    Without a mask the lengths are 0. Source: com.microsoft EmbedLayerNormalization; ``mask_index_type`` is a hint of
    the type inference.
    """
    batch, length = input_ids.shape
    total = gather(g, word_embedding, input_ids)
    if position_ids is None:
        positions = first_positions(g, position_embedding, length)
    else:
        positions = gather(g, position_embedding, position_ids)
    total = g.add(total, positions)
    if segment_ids is not None and segment_embedding is not None:
        total = g.add(total, gather(g, segment_embedding, segment_ids))
    result = layer_normalization(g, total, gamma, beta, epsilon=epsilon)[0]
    return result, lengths_of(g, mask, batch), total


def first_positions(g: ProgramBuilder, table: Value, length: Dim) -> Value:
    """The first ``length`` rows of ``table``, which has to have as many."""
    _require_positions(g, length, table.shape[0])
    return g.slice(table, 0, 0, length)


def lengths_of(g: ProgramBuilder, mask: Value | None, batch: Dim) -> Value:
    """How many ones a row of ``mask`` [batch, sequence] has, in int32; without a mask 0."""
    if mask is None:
        return g.full([batch], 0, torch.int32)
    return g.sum(g.cast(g.binary("eq", mask, 1), torch.int32), [1], dtype=torch.int32)


def _require_positions(g: ProgramBuilder, length: Dim, known: Dim) -> None:
    fits = sympy.Le(sympy.sympify(length), sympy.sympify(known))
    g.require(fits, f"a sequence of {g.table.describe(length)} has more positions than the {g.table.describe(known)} embedded")
