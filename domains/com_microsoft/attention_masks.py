"""Masks of onnxruntime's attention operators, as numbers that are added to the scores."""

from __future__ import annotations

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import known_equal, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.attention import causal, lowest
from onnx2torch_mlir.families.broadcast import spread

Sizes = tuple[Dim, Dim, Dim]
"""Batch, steps, and keys, those of the past among them."""


def key_mask(g: ProgramBuilder, mask: Value, sizes: Sizes, filter_value: float, *, starts: bool) -> Value | None:
    """[B, 1, S or 1, T] that is ``filter_value`` where ``mask`` hides a key, else 0; None where nothing can be hidden.

    ``mask`` is [B, T] or [B, S, T] with 1 for what counts, or 1-D: the keys of each batch end there, and of 3 B + 2 numbers
    the first B count. With ``starts`` a mask of 2 B also says where they start, and [B, 1] or [1, 1] says nothing.
    Source: com.microsoft Attention, MultiHeadAttention.

    Raises:
        Refusal: O2M-C003 for 4-D masks, which the kernel on the CPU does not take; O2M-C006 for sizes that do not fit.
    """
    batch, steps, total = sizes
    if mask.rank == 1:
        hidden = _outside(g, mask, batch, total, starts=starts)
    elif mask.rank == 2:
        if starts and mask.shape[1] == 1 and total != 1:
            return None
        g.require_equal(mask.shape[0], batch, "batch sizes of the mask and the input")
        g.require_equal(mask.shape[1], total, "keys, and sizes of the mask")
        hidden = g.reshape(g.binary("le", mask, 0), [batch, 1, 1, total])
    elif mask.rank == 3:
        for own, other in zip(mask.shape, sizes, strict=True):
            g.require_equal(own, other, "batch, steps and keys, and sizes of the mask")
        hidden = g.reshape(g.binary("le", mask, 0), [batch, 1, steps, total])
    else:
        raise refuse("O2M-C003", f"a mask of rank {mask.rank}, which onnxruntime's CPU kernel refuses", case="mask")
    return g.where(hidden, filter_value, 0.0)


def _outside(g: ProgramBuilder, mask: Value, batch: Dim, total: Dim, *, starts: bool) -> Value:
    """[B, 1, 1, T]: whether a key lies behind the end or before the start of its batch."""
    count = mask.shape[0]
    more = to_dim(batch * 2)
    allowed = [batch, to_dim(batch * 3 + 2), *([more] if starts else [])]
    if not any(known_equal(count, size) for size in allowed):
        g.require(sympy.Or(*(sympy.Eq(count, size) for size in allowed)), f"a mask of {count} for {batch} batches")
    mask = g.cast(mask, torch.int64)
    place = g.reshape(g.arange(0, total), [1, 1, 1, total])
    outside = g.binary("ge", place, g.reshape(g.slice(mask, 0, 0, batch), [batch, 1, 1, 1]))
    if not starts or known_equal(count, batch):
        return outside
    last = g.size_value(to_dim(count - 1))
    start = g.call("aten.index_select.default", mask, 0, g.minimum(g.arange(batch, more), last))
    start = g.where(g.binary("eq", g.size_value(count), g.size_value(more)), start, 0)
    return g.binary("logical_or", outside, g.binary("lt", place, g.reshape(start, [batch, 1, 1, 1])))


def causal_mask(g: ProgramBuilder, steps: Dim, total: Dim, past: Dim) -> Value | None:
    """[S, T]: whether a step must not see a key. The last step sees all of them, however many there are."""
    if steps == 1:
        return None
    seen = causal(g, steps, total, past)
    is_last = g.unsqueeze(g.binary("ge", g.arange(0, steps), g.size_value(to_dim(steps - 1))), 1)
    return g.unary("logical_not", g.binary("logical_or", seen, is_last))


def combined(
    g: ProgramBuilder, mask: Value | None, hidden: Value | None, bias: Value | None, dtype: torch.dtype
) -> Value | None:
    """What is added to the scores: the mask, the lowest number where ``hidden``, and the bias."""
    if hidden is not None:
        mask = g.where(hidden, lowest(dtype), g.full([1, 1, 1, 1], 0.0, dtype) if mask is None else mask)
    return mask if bias is None else bias if mask is None else g.add(mask, bias)


def attention_bias(g: ProgramBuilder, bias: Value, heads: Dim, sizes: Sizes) -> Value:
    """``bias`` [B or 1, heads or 1, S, T], with its sizes asserted and broadcast where only the run can tell.

    Raises:
        Refusal: O2M-C005 for another rank, O2M-C006 for sizes that do not fit.
    """
    if bias.rank != 4:
        raise refuse("O2M-C005", f"an attention_bias of rank {bias.rank}, not 4", case="attention_bias")
    batch, steps, total = sizes
    for axis, size in ((2, steps), (3, total)):
        g.require_equal(bias.shape[axis], size, "steps and keys, and sizes of attention_bias")
    return g.cast(spread(g, spread(g, bias, 0, batch), 1, heads), torch.float32)
