"""MultiHeadAttention: queries, keys and values come projected, with or without their biases and their past."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.com_microsoft.attention_masks import attention_bias as fitting
from onnx2torch_mlir.domains.com_microsoft.attention_masks import causal_mask, combined, key_mask
from onnx2torch_mlir.domains.com_microsoft.key_value_cache import after_past, by_beam, of_batches, written_into
from onnx2torch_mlir.families.attention import merge_heads, of_heads, scores, split_heads, weighed


def multi_head_attention(
    g: ProgramBuilder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    key_padding_mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_sequence_length: Size | None = None,
    cache_indirection: Value | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
    wanted: tuple[bool, ...] = (),
) -> tuple[Value, Value, Value, Value]:
    """[B, S, heads * size of a value], the keys and values with their past, and the scores with all that is added.

    ``query`` is [B, S, D]; ``key`` and ``value`` are [B, L, D], or [B, heads, L, H], which get no bias. With
    ``past_sequence_length`` the past is a buffer of which so many steps are filled, and the one new step is written behind
    them; ``cache_indirection`` says from which of the beams of a batch each of them comes. Computed in float32.
    Source: com.microsoft MultiHeadAttention.

    Raises:
        Refusal: O2M-C003 for packed operands and a past without a present, O2M-C005 for ranks, O2M-C006 for sizes that do
            not fit.
    """
    dtype = query.dtype
    if query.rank != 3 or key is None or value is None or key.rank == 5:
        raise refuse("O2M-C003", "packed queries, keys and values, which onnxruntime's CPU kernel refuses", case="query")
    if (past_key is None) != (past_value is None) or (past_key is not None and past_key.rank != 4):
        raise refuse("O2M-C005", "past_key and past_value come together, and are of rank 4", case="past_key")
    if past_key is not None and not all(wanted[1:3] + (False,) * (3 - len(wanted))):
        raise refuse("O2M-C003", "a past without a present, which onnxruntime's CPU kernel never reads", case="past_key")
    if key.rank != value.rank or key.rank not in (3, 4):
        raise refuse("O2M-C005", f"key and value of ranks {key.rank} and {value.rank}, not both 3 or 4", case="key")
    query, key, value = project(g, query, key, value, bias, num_heads)
    if key_padding_mask is not None and key_padding_mask.rank != 2:
        cache_indirection = None  # the kernel that follows beams takes no other mask: onnxruntime's general one ignores them
    past: Dim = 0
    if past_key is not None and past_value is not None:
        pasts = [g.cast(item, torch.float32) for item in (past_key, past_value)]
        past = pasts[0].shape[2] if past_sequence_length is None else g.as_size(past_sequence_length)
        if past_sequence_length is None:
            presents = [after_past(g, old, new) for old, new in zip(pasts, (key, value), strict=True)]
            key, value = presents
        else:
            presents = [written_into(g, old, new, past) for old, new in zip(pasts, (key, value), strict=True)]
            filled = [g.slice(item, 2, 0, to_dim(past + 1)) for item in presents]
            key, value = filled if cache_indirection is None else (by_beam(g, item, cache_indirection) for item in filled)
            if cache_indirection is not None and attention_bias is not None:
                attention_bias = of_batches(g, attention_bias, cache_indirection)
    else:
        presents = [key, value]
    extra = Extra(key_padding_mask, attention_bias, unidirectional == 1, mask_filter_value)
    output, products = attend(g, query, key, value, past, scale or None, extra)
    result = (output, presents[0], presents[1], products)
    return tuple(g.cast(item, dtype) for item in result)  # type: ignore[return-value]


def decoder_masked_multi_head_attention(
    g: ProgramBuilder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    mask_index: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_sequence_length: Size | None = None,
    beam_width: Value | None = None,
    cache_indirection: Value | None = None,
    bias: Value | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    output_qk: int = 0,
    past_present_share_buffer: int = 0,
    scale: float | None = None,
    wanted: tuple[bool, ...],
) -> tuple[Value, Value, Value, Value]:
    """`multi_head_attention` for one step, whose past is a buffer; keys and values [B, heads, L, H] have no past.

    ``beam_width`` is that of ``cache_indirection``. Without a past, keys and values are those of an encoder: they get no
    bias, whatever their rank. Source: com.microsoft DecoderMaskedMultiHeadAttention.

    Raises:
        Refusal: O2M-C003 for a past that is no buffer, a present or an attention_bias without a past, and as there.
    """
    if query.rank == 3:
        g.require_equal(query.shape[1], 1, "steps of DecoderMaskedMultiHeadAttention")
    if past_key is None and (attention_bias is not None or any(wanted[1:3])):
        raise refuse("O2M-C003", "a present or a bias of scores without a past, which onnxruntime refuses", case="past_key")
    if past_key is None and key is not None and value is not None and key.rank == value.rank == 3:
        for item in (key, value):
            g.require_equal(item.shape[1], 1, "steps of keys and values that come without heads")
        key, value = split_heads(g, key, num_heads), split_heads(g, value, num_heads)
    if past_key is not None and (not past_present_share_buffer or past_sequence_length is None):
        raise refuse("O2M-C003", "a past that is no shared buffer, which onnxruntime refuses", case="past_key")
    if mask_index is not None and mask_index.rank != 2:
        raise refuse("O2M-C003", f"a mask of rank {mask_index.rank}, which onnxruntime refuses", case="mask_index")
    result: tuple[Value, Value, Value, Value] = multi_head_attention(
        g, query, key, value, bias, mask_index, attention_bias, past_key, past_value,
        None if past_key is None else past_sequence_length, cache_indirection,
        mask_filter_value=mask_filter_value, num_heads=num_heads, scale=scale, wanted=wanted,
    )  # fmt: skip
    return result


@dataclass(frozen=True)
class Extra:
    """What hides keys or adds to the scores; ``starts`` as for `key_mask`."""

    mask: Value | None
    bias: Value | None
    unidirectional: bool
    filter_value: float
    starts: bool = False


def attend(
    g: ProgramBuilder, query: Value, key: Value, value: Value, past: Dim, scale: float | None, extra: Extra
) -> tuple[Value, Value]:
    """[B, S, heads * size of a value], and the scores with all that is added.

    ``query`` [B, heads, S, H], ``key`` and ``value`` [B, heads, T, H] of which ``past`` steps are before the first query.
    """
    sizes = (query.shape[0], query.shape[2], key.shape[2])
    mask = None if extra.mask is None else key_mask(g, extra.mask, sizes, extra.filter_value, starts=extra.starts)
    hidden = causal_mask(g, sizes[1], sizes[2], past) if extra.unidirectional else None
    heads = query.shape[1]
    bias = None if extra.bias is None else fitting(g, extra.bias, heads, sizes)
    products = of_heads(g, scores(g, query, key, scale))
    added = combined(g, mask, hidden, bias, query.dtype)
    if added is not None:
        products = g.add(products, added)
    return merge_heads(g, weighed(g, g.softmax(products, 3), value)), products


def project(
    g: ProgramBuilder, query: Value, key: Value, value: Value, bias: Value | None, heads: int
) -> tuple[Value, Value, Value]:
    """All three as [B, heads, steps, size] in float32, with their parts of ``bias`` [D + D + D of the values]."""
    wide = [g.cast(item, torch.float32) for item in (query, key, value)]
    for item in wide[1:]:
        g.require_equal(item.shape[0], query.shape[0], "batch sizes of query, key and value")
    if key.rank == 3:
        g.require_equal(key.shape[2], query.shape[2], "hidden sizes of query and key")
    steps = [item.shape[1 if item.rank == 3 else 2] for item in wide[1:]]
    g.require_equal(steps[0], steps[1], "steps of key and value")
    if bias is not None:
        if bias.rank != 1:
            raise refuse("O2M-C005", f"a bias of rank {bias.rank}, not 1", case="bias")
        bias = g.cast(bias, torch.float32)
        hidden = query.shape[2]
        last = to_dim(value.shape[1] * value.shape[3]) if value.rank == 4 else value.shape[2]
        bounds = [0, hidden, to_dim(hidden * 2), to_dim(hidden * 2 + last)]
        g.require_equal(bias.shape[0], bounds[3], "hidden sizes of query, key and value, and the size of bias")
        for index, item in enumerate(wide):
            if item.rank == 3:
                wide[index] = g.add(item, g.slice(bias, 0, bounds[index], bounds[index + 1]))
    query, key, value = (item if item.rank == 4 else split_heads(g, item, heads) for item in wide)
    for item in (key, value):
        g.require_equal(item.shape[1], heads, "heads of key and value")
    g.require_equal(key.shape[3], query.shape[3], "sizes of the heads of query and key")
    return query, key, value
