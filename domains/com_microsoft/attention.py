"""Attention: the projections are part of the operator, and the past is one tensor."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import exact_div, floor_div, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.key_value_cache import after_past
from onnx2torch_mlir.domains.com_microsoft.multi_head import Extra, attend
from onnx2torch_mlir.families.attention import split_heads


def attention(
    g: ProgramBuilder,
    input: Value,
    weights: Value,
    bias: Value | None = None,
    mask_index: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    past_sequence_length: Value | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] = (),
    scale: float | None = None,
    unidirectional: int = 0,
    wanted: tuple[bool, ...],
) -> tuple[Value, Value | None]:
    """[B, S, size of the values], and keys and values with their past [2, B, heads, P + S, H].

    ``input`` [B, S, D] times ``weights`` [D, sizes of queries + keys + values] gives queries, keys and values. Computed in
    float32. Source: com.microsoft Attention.

    Raises:
        Refusal: O2M-C003 for what onnxruntime's CPU kernel refuses, O2M-C005 for ranks, O2M-C006 for sizes that do not fit.
    """
    if do_rotary:
        raise refuse("O2M-C003", "rotary positions, which onnxruntime's CPU kernel refuses", case="do_rotary=1")
    if input.rank != 3 or weights.rank != 2 or (bias is not None and bias.rank != 1):
        raise refuse(
            "O2M-C005", f"input of rank {input.rank}, weights of rank {weights.rank}, or bias not of rank 1", case="input"
        )
    if past is not None and attention_bias is not None:
        raise refuse("O2M-C003", "a past and an attention_bias, which onnxruntime refuses together", case="past")
    projected = g.matmul(g.cast(input, torch.float32), g.cast(weights, torch.float32))
    if bias is not None:
        g.require_equal(bias.shape[0], weights.shape[1], "sizes of bias and weights")
        projected = g.add(projected, g.cast(bias, torch.float32))
    extra = Extra(mask_index, attention_bias, unidirectional == 1, mask_filter_value, starts=True)
    cache = Past(past, bool(past_present_share_buffer), wanted[1:2] == (True,))
    output, present = self_attention(g, projected, qkv_hidden_sizes, num_heads, cache, scale or None, extra)
    return g.cast(output, input.dtype), None if present is None else g.cast(present, input.dtype)


class Past:
    """The past of an operator that has it in one tensor, and whether its present is asked for.

    Raises:
        Refusal: O2M-C003 for a buffer that past and present share, and a past whose present is not asked for.
    """

    def __init__(self, value: Value | None, shared: bool, wanted: bool) -> None:
        if shared and value is not None:
            raise refuse(
                "O2M-C003", "a shared buffer, which onnxruntime's CPU kernel refuses", case="past_present_share_buffer"
            )
        if value is not None and not wanted:
            raise refuse("O2M-C003", "a past without a present, which onnxruntime refuses", case="past")
        self.value, self.wanted = value, wanted


def self_attention(
    g: ProgramBuilder,
    projected: Value,
    sizes: Sequence[int],
    heads: int,
    past: Past,
    scale: float | None,
    extra: Extra,
) -> tuple[Value, Value | None]:
    """The attention of ``projected`` [B, S, queries + keys + values] to itself and its past, and its present."""
    parts = [split_heads(g, item, heads) for item in _parts(g, projected, sizes)]
    query, keys = parts[0], parts[1:]
    length: Dim = 0
    if past.value is not None:
        if past.value.rank != 5:
            raise refuse("O2M-C005", f"a past of rank {past.value.rank}, not 5", case="past")
        g.require_equal(past.value.shape[0], 2, "keys and values of the past")
        length = past.value.shape[3]
        wide = g.cast(past.value, torch.float32)
        keys = [after_past(g, g.select(wide, 0, index), item) for index, item in enumerate(keys)]
    present = None
    if past.wanted:
        g.require_equal(keys[0].shape[3], keys[1].shape[3], "sizes of keys and values, which are one tensor")
        present = g.cat([g.unsqueeze(item, 0) for item in keys], 0)
    output, _ = attend(g, query, keys[0], keys[1], length, scale, extra)
    return output, present


def _parts(g: ProgramBuilder, projected: Value, sizes: Sequence[int]) -> list[Value]:
    """Queries, keys and values: of ``sizes``, or of a third each."""
    whole = projected.shape[2]
    if sizes and (len(sizes) != 3 or sizes[0] != sizes[1]):
        raise refuse("O2M-C005", f"hidden sizes {list(sizes)}", case="qkv_hidden_sizes")
    third = exact_div(whole, 3)
    bounds: list[Dim] = [0]
    for size in sizes or [floor_div(whole, 3) if third is None else third] * 3:
        bounds.append(to_dim(bounds[-1] + size))
    g.require_equal(bounds[-1], whole, "hidden sizes of queries, keys and values, and of the weights")
    return [g.slice(projected, 2, start, end) for start, end in itertools.pairwise(bounds)]
