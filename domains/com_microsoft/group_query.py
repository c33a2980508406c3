"""GroupQueryAttention: causal attention over a cache, whose batches are filled to different lengths."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import floor_div, maximum, to_dim
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.attention_masks import attention_bias as fitting
from onnx2torch_mlir.domains.com_microsoft.cache_layouts import CacheLayout, Whole, Windowed
from onnx2torch_mlir.domains.com_microsoft.key_value_cache import Lengths
from onnx2torch_mlir.domains.com_microsoft.quantized_cache import Code
from onnx2torch_mlir.domains.com_microsoft.rotary import check_tables
from onnx2torch_mlir.families.attention import (
    in_groups,
    lowest,
    merge_heads,
    of_heads,
    scores,
    softmax_beside,
    split_heads,
    weighed,
)
from onnx2torch_mlir.families.rotary import rotated, rows_at


def group_query_attention(
    g: ProgramBuilder,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    seqlens_k: Value,
    total_sequence_length: Size,
    cos_cache: Value | None = None,
    sin_cache: Value | None = None,
    position_ids: Value | None = None,
    attention_bias: Value | None = None,
    head_sink: Value | None = None,
    k_scale: Value | None = None,
    v_scale: Value | None = None,
    *,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
    wanted: tuple[bool, ...],
) -> tuple[Value | None, ...]:
    """[B, S, num_heads * H], keys and values [B, kv_num_heads, P, H] of all steps, and the scores (1) or weights (2).

    Keys and values come packed behind the queries if there is no ``key``; there are none (S = 0) where the past has all.
    Batch b has ``seqlens_k[b]`` + 1 steps by the end of this call. In a first call, whose S steps are all that
    ``total_sequence_length`` counts, they stand at the start of the batch, later ones behind the past. P is the larger of
    ``total_sequence_length`` and the steps that the past has room for; places not filled are 0. With
    ``sliding_window_cache`` P is what the past has, which may be as few as ``local_window_size``, and holds the latest
    steps (`Windowed`). Computed in float32; scales of keys and values say what a cache of 8 or 4 bits stands for.
    Source: com.microsoft GroupQueryAttention.

    Raises:
        Refusal: O2M-C003 for what onnxruntime's CPU kernel refuses, O2M-C005 for ranks, O2M-C006 for sizes that do not fit.
    """
    if not causal and local_window_size != -1:
        raise refuse("O2M-C003", "a window of keys without a causal mask", case="local_window_size")
    if num_heads % kv_num_heads:
        raise refuse("O2M-C005", f"{num_heads} heads of queries for {kv_num_heads} of keys", case="num_heads")
    dtype = query.dtype
    query, key, value = unpacked(g, query, key, value, num_heads, kv_num_heads)
    if (past_key is None) != (past_value is None) or (past_key is not None and past_key.rank != 4):
        raise refuse("O2M-C005", "past_key and past_value come together, and are of rank 4", case="past_key")
    if past_key is not None and not all(wanted[1:3] + (False,) * (3 - len(wanted))):
        raise refuse("O2M-C003", "a past without a present, which onnxruntime's CPU kernel never reads", case="past_key")
    batch, steps = query.shape[0], query.shape[2]
    total = g.as_size(total_sequence_length)
    if past_key is None:
        g.require_equal(total, steps, "total_sequence_length without a past, and steps")
        total = steps
    lengths = Lengths.of(g, seqlens_k, batch, steps, total)
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise refuse("O2M-C005", "do_rotary needs cos_cache and sin_cache", case="do_rotary")
        places = _positions(g, position_ids, lengths)
        query, key = turned(g, [query, key], places, (cos_cache, sin_cache), bool(rotary_interleaved))
    layout: CacheLayout
    if sliding_window_cache:
        if past_key is None or local_window_size <= 0 or qk_output or key.shape[2] == 0:
            reason = "a cache of a window without a past, local_window_size or new keys, or with output_qk"
            raise refuse("O2M-C003", f"{reason}, which onnxruntime's CPU kernel refuses", case="sliding_window_cache=1")
        layout = Windowed.of(g, lengths, past_key.shape[2], local_window_size)
    else:
        room = total if past_key is None else g.opaque_size(maximum(total, past_key.shape[2]))
        layout = Whole(lengths, room, total)
    if k_quant_type != v_quant_type:
        raise refuse("O2M-C003", "keys and values quantized in different ways", case="k_quant_type")
    codes = [Code.of(g, k_quant_type, factor, kv_cache_bit_width, past_key, kv_num_heads) for factor in (k_scale, v_scale)]
    news = [new if code is None else code.encoded(g, new) for code, new in zip(codes, (key, value), strict=True)]
    found = [layout.updated(g, old, new) for old, new in zip((past_key, past_value), news, strict=True)]
    held = [item if code is None else code.decoded(g, item) for code, (item, _) in zip(codes, found, strict=True)]
    bias = None
    if attention_bias is not None:
        bias = layout.bias(g, fitting(g, attention_bias, num_heads, (batch, steps, total)))
    sink = None
    if head_sink is not None or smooth_softmax == 1:
        sink = g.full([1], 0.0, torch.float32) if head_sink is None else g.cast(head_sink, torch.float32)
        sink = g.reshape(sink, [1, 1 if head_sink is None else num_heads, 1, 1])
    window = local_window_size if local_window_size > 0 else None
    seen = layout.seen(g, window) if causal else lengths.filled(g, held[0].shape[2])
    rules = Rules(scale or None, softcap, bias, seen, sink)
    wide = [g.cast(item, torch.float32) for item in (query, *held)]
    output, products, weights = attend(g, wide[0], wide[1], wide[2], rules)
    result: list[Value | None] = [g.cast(output, dtype), *(present for _, present in found)]
    if qk_output not in (0, 1, 2) or bool(qk_output) != (wanted[3:4] == (True,)):
        raise refuse("O2M-C003", f"the output output_qk with qk_output {qk_output}", case=f"qk_output={qk_output}")
    if qk_output:
        shown = g.where(seen, products, 0.0) if qk_output == 1 else weights
        result.append(g.cast(g.slice(shown, 3, 0, total), dtype))
    return tuple(result)


@dataclass(frozen=True)
class Rules:
    """How scores become weights: scaled, capped, with a bias, only what is ``seen``, and beside a ``sink``."""

    scale: float | None
    softcap: float
    bias: Value | None
    seen: Value
    sink: Value | None


def attend(g: ProgramBuilder, query: Value, key: Value, value: Value, rules: Rules) -> tuple[Value, Value, Value]:
    """[B, S, heads * H], and the scores and the weights [B, heads, S, T]; operands are [B, heads, steps, H]."""
    heads, shared = query.shape[1], key.shape[1]

    def fitting_groups(item: Value) -> Value:
        return item if heads == shared else in_groups(g, item, shared)

    products = scores(g, query, key, rules.scale)
    if rules.softcap > 0:
        products = g.mul(g.unary("tanh", g.div(products, rules.softcap)), rules.softcap)
    if rules.bias is not None:
        products = g.add(products, fitting_groups(rules.bias))
    hidden = g.where(fitting_groups(rules.seen), products, lowest(products.dtype))
    weights = softmax_beside(g, hidden, None if rules.sink is None else fitting_groups(rules.sink))
    return merge_heads(g, weighed(g, weights, value)), of_heads(g, products), of_heads(g, weights)


def unpacked(
    g: ProgramBuilder, query: Value, key: Value | None, value: Value | None, heads: int, kv_heads: int
) -> tuple[Value, Value, Value]:
    """Queries, keys and values [B, heads, steps, H], which may stand side by side in ``query``.

    Raises:
        Refusal: O2M-C005 for other ranks, O2M-C006 for sizes that do not fit.
    """
    if query.rank != 3 or (key is None) != (value is None):
        raise refuse("O2M-C005", "query is not of rank 3, or one of key and value is missing", case="query")
    if key is None or value is None:
        size = floor_div(query.shape[2], heads + 2 * kv_heads)
        bounds = [to_dim(size * count) for count in (heads, heads + kv_heads, heads + 2 * kv_heads)]
        g.require_equal(bounds[2], query.shape[2], "hidden size of a packed query, and its heads")
        whole = query
        query, key, value = (g.slice(whole, 2, low, high) for low, high in zip([0, *bounds], bounds, strict=False))
    if not key.rank == value.rank == 3:
        raise refuse("O2M-C005", f"key and value of ranks {key.rank} and {value.rank}, not 3", case="key")
    query, key, value = split_heads(g, query, heads), split_heads(g, key, kv_heads), split_heads(g, value, kv_heads)
    for item in (key, value):
        g.require_equal(item.shape[0], query.shape[0], "batch sizes of query, key and value")
        g.require_equal(item.shape[3], query.shape[3], "sizes of the heads of query, key and value")
    g.require_equal(key.shape[2], value.shape[2], "steps of key and value")
    if key.shape[2] != 0:
        g.require_equal(key.shape[2], query.shape[2], "steps of query and key")
    return query, key, value


def _positions(g: ProgramBuilder, given: Value | None, lengths: Lengths) -> Value:
    """[B, S]: where a step stands. Of positions that are given the first call takes only the first one."""
    count = g.unsqueeze(g.arange(0, lengths.steps), 0)
    if given is None:
        return g.add(g.unsqueeze(lengths.past, 1), count)
    if given.rank != 2:
        raise refuse("O2M-C005", f"position_ids of rank {given.rank}, not 2", case="position_ids")
    g.require_equal(given.shape[0], lengths.batch, "batch sizes of query and position_ids")
    g.require_equal(given.shape[1], lengths.steps, "steps of query and position_ids")
    start = g.slice(g.slice(given, 0, 0, 1), 1, 0, 1)
    return g.where(lengths.is_first, g.add(start, count), given)


def turned(
    g: ProgramBuilder, values: list[Value], places: Value, tables: tuple[Value, Value], interleaved: bool
) -> list[Value]:
    """``values`` [B, heads, S, H] turned by the angles that ``tables`` have for the ``places`` [B, S]."""
    check_tables(g, *tables)
    cos, sin = (g.unsqueeze(rows_at(g, table, places), 1) for table in tables)
    return [item if item.shape[2] == 0 else rotated(g, item, cos, sin, interleaved=interleaved) for item in values]
