"""Attention as onnxruntime fuses it, with masks and rotary positions, and what generation of text needs beside it."""

from __future__ import annotations

import numpy as np

from tools.fuzz_ops.draw import Draw

FLOATS = ("float", "float16")


def mask(d: Draw, name: str, batch: int, steps: int, keys: int, *, starts: bool = False) -> None:
    """None, ends, a mask of keys or one of queries and keys; every query sees a key."""
    kind = d.choose(("none", "ends", "keys", "both") + (("starts",) if starts else ()))
    if kind == "none" or not keys:
        d.give(name, None)
    elif kind in ("ends", "starts"):
        found = d.indices("int32", (batch,), keys, negative=False) + 1
        d.give(name, np.concatenate([found, np.maximum(found - 2, 0)]) if kind == "starts" else found)
    else:
        shape = (batch, keys) if kind == "keys" else (batch, steps, keys)
        found = d.indices("int32", shape, 2, negative=False)
        found[..., -1:] = 1
        d.give(name, found)


def multi_head(d: Draw) -> None:
    """MultiHeadAttention: masks, biases, a past, keys of another length and with heads of their own."""
    batch, steps, heads, size = d.size(1, 3), d.size(1, 5), d.integer(1, 3), d.size(1, 5)
    past = d.size(0, 4) if d.one_in(3) else None
    room = past + d.integer(1, 4) if past is not None and d.flag() else 0
    if room:
        # Into a buffer the kernel writes one step only.
        steps = 1
    own = past is not None or d.flag()
    keys, value_size = (steps, size) if own else (d.size(1, 5), d.size(1, 5))
    headed = not own and d.one_in(4)
    d.attributes["num_heads"] = heads
    d.attribute("scale", 0.5)
    d.attribute("unidirectional", 1, 0)
    d.attribute("mask_filter_value", -3.0)
    d.broadcasts = True
    d.tensor("query", (batch, steps, heads * size), low=-2, high=2, only=FLOATS)
    value_size = size if headed else value_size
    for name, width in (("key", size), ("value", value_size)):
        d.tensor(name, (batch, heads, keys, width) if headed else (batch, keys, heads * width), low=-2, high=2)
    if d.flag():
        d.tensor("bias", (heads * (2 * size + value_size),), low=-1, high=1)
    else:
        d.give("bias", None)
    total = keys + (past or 0)
    mask(d, "key_padding_mask", batch, steps, total)
    if d.flag():
        d.tensor("attention_bias", (d.choose((batch, 1)), d.choose((heads, 1)), steps, total), low=-2, high=2)
    else:
        d.give("attention_bias", None)
    if past is not None:
        for name in ("past_key", "past_value"):
            d.tensor(name, (batch, heads, room or past, size), low=-2, high=2, known=False if room else None)
    if past is not None and room:
        d.give("past_sequence_length", np.array([past], np.int32))
        if d.flag():
            beams = d.choose([count for count in (1, 2, 3) if batch % count == 0])
            d.give("cache_indirection", d.indices("int32", (batch // beams, beams, room), beams, negative=False))
    d.outputs = (True, True, True) if past is not None else (True,)
    if d.dtype("T") == "float" and d.one_in(4):
        d.output_types["qk"] = "float"
        d.outputs = (True, past is not None, past is not None, True)


def attention(d: Draw) -> None:
    """Attention: all masks, values of another size, a past."""
    batch, steps, width, heads, size = d.size(1, 3), d.size(1, 5), d.size(1, 7), d.integer(1, 3), d.size(1, 5)
    past = d.size(0, 4) if d.one_in(3) else None
    value_size = size
    if past is None and d.one_in(3):
        value_size = d.size(1, 5)
        d.attributes["qkv_hidden_sizes"] = [heads * size, heads * size, heads * value_size]
    whole = heads * (2 * size + value_size)
    d.attributes["num_heads"] = heads
    d.attribute("scale", 0.5)
    d.attribute("unidirectional", 1, 0)
    d.attribute("mask_filter_value", -3.0)
    d.broadcasts = True
    d.tensor("input", (batch, steps, width), low=-2, high=2, only=FLOATS)
    d.tensor("weights", (width, whole), low=-1, high=1, known=d.flag())
    d.tensor("bias", (whole,), low=-1, high=1, known=d.flag())
    mask(d, "mask_index", batch, steps, steps + (past or 0), starts=True)
    d.attribute("rotary_embedding_dim", 32)
    d.attribute("past_present_share_buffer", *((1, 0) if past is None else (0,)))
    if past is not None:
        d.tensor("past", (2, batch, heads, past, size), low=-2, high=2)
    elif d.flag():
        d.give("past", None)
        d.tensor("attention_bias", (d.choose((batch, 1)), d.choose((heads, 1)), steps, steps), low=-2, high=2)
    if d.one_in(4):
        # It counts for nothing where past and present are no shared buffer.
        d.give("past_sequence_length", np.array([past or 0], np.int32))
    d.outputs = (True, True) if past is not None or (size == value_size and d.flag()) else (True,)


def quantized(d: Draw) -> None:
    """QAttention: parameters for the whole matrix or per column."""
    batch, steps, width, heads, size = d.size(1, 3), d.size(1, 5), d.size(1, 7), d.integer(1, 3), d.size(1, 5)
    past = d.size(1, 4) if d.one_in(3) else None
    d.attributes["num_heads"] = heads
    d.attribute("unidirectional", 1, 0)
    d.attribute("mask_filter_value", -3.0)
    d.attribute("scale", 0.5)
    d.attribute("do_rotary", 1, 0)
    d.attribute("past_present_share_buffer", 0)
    columns = 3 * heads * size
    each = () if d.flag() else (columns,)
    d.tensor("input", (batch, steps, width), only=("uint8",))
    # Larger weights overflow the pairs of products that onnxruntime sums in 16 bits.
    weights = d.array(d.dtype("T2"), (width, columns))
    d.give("weight", np.clip(weights, -40, 40) if weights.dtype == np.int8 else weights)
    d.tensor("bias", (columns,), low=-1, high=1, only=("float",))
    d.tensor("input_scale", (), low=0.001, high=0.01)
    d.tensor("weight_scale", each, low=0.001, high=0.01)
    mask(d, "mask_index", batch, steps, steps + (past or 0), starts=True)
    if d.flag():
        d.give("input_zero_point", d.indices("uint8", (), 255, negative=False))
        d.give("weight_zero_point", d.indices(d.dtype("T2"), each, 9, negative=False))
    else:
        d.give("input_zero_point", None)
        d.give("weight_zero_point", None)
    if past is not None:
        d.tensor("past", (2, batch, heads, past, size), low=-2, high=2)
    d.outputs = (True, True) if past is not None else (True,)


def rotary(d: Draw) -> None:
    """RotaryEmbedding and MRotaryEmbedding: whole and partial heads, both layouts, positions of all kinds."""
    batch, heads, steps, half = d.size(1, 3), d.integer(1, 3), d.size(1, 5), d.integer(1, 5)
    three = d.version.op == "MRotaryEmbedding"
    turned = d.integer(1, half) if d.flag() else half
    if turned != half:
        d.attributes["rotary_embedding_dim"] = 2 * turned
    packed = d.flag()
    if turned != half or (three and packed) or d.flag():
        d.attributes["num_heads"] = heads
    d.attribute("interleaved", 1, 0)
    d.attribute("is_packed_batching", 1, 0)
    d.attribute("scale", 0.5, 1.0)
    d.tensor("input", (batch, steps, heads * 2 * half) if packed else (batch, heads, steps, 2 * half), only=FLOATS)
    rows = steps + d.integer(0, 3)
    if three:
        height = d.integer(0, turned)
        width = d.integer(0, turned - height)
        d.attributes["mrope_section"] = [turned - height - width, height, width]
        d.attribute("mrope_layout", 1, 0)
        d.give("position_ids", d.indices("int64", (3, batch, steps), rows, negative=False))
    elif d.flag():
        d.give("position_ids", d.indices("int64", (1,), rows - steps + 1, negative=False))
    else:
        d.give("position_ids", d.indices("int64", (batch, steps), rows, negative=False))
    for name in ("cos_cache", "sin_cache"):
        d.tensor(name, (rows, turned), low=-1, high=1)


def linear(d: Draw) -> None:
    """LinearAttention: all rules, more heads of queries or of keys, with and without a state."""
    batch, steps, heads, times, size, value_size = (d.size(1, 3), d.size(1, 5), d.integer(1, 2), d.integer(1, 3), 3, 2)
    queries, keys = (heads * times, heads) if d.flag() else (heads, heads * times)
    rule = d.attribute("update_rule", "linear", "gated", "delta", "gated_delta") or "gated_delta"
    d.attributes |= {"q_num_heads": queries, "kv_num_heads": keys}
    d.attribute("scale", 0.5)
    d.attribute("chunk_size", 2, 16)
    d.tensor("query", (batch, steps, queries * size), low=-1, high=1, only=("float",))
    d.tensor("key", (batch, steps, keys * size), low=-0.5, high=0.5)
    d.tensor("value", (batch, steps, keys * value_size), low=-1, high=1)
    if d.flag():
        d.tensor("past_state", (batch, keys, size, value_size), low=-1, high=1, only=("float",))
    else:
        d.types["S"] = "float"
        d.give("past_state", None)
    d.broadcasts = True
    if "gated" in rule:
        d.tensor("decay", (batch, steps, keys * d.choose((1, size))), low=-1, high=0)
    else:
        d.give("decay", None)
    if "delta" in rule:
        d.tensor("beta", (batch, steps, d.choose((keys, 1))), low=0, high=1)
    d.outputs = (True, True)


def gate(d: Draw) -> None:
    """LinearAttentionGate: with and without the second output."""
    shape = (d.size(1, 3), d.size(1, 5), d.size(1, 4))
    d.tensor("a", shape, only=FLOATS)
    d.tensor("dt_bias", shape[2:], low=-2, high=2)
    d.tensor("decay_scale", shape[2:], low=-2, high=0)
    if d.flag():
        d.tensor("b", shape)
        d.outputs = (True, True)


def causal_convolution(d: Draw) -> None:
    """CausalConvWithState: both layouts, dilated."""
    batch, length, kernel = d.size(1, 3), d.size(1, 7), d.size(1, 4)
    channels: tuple[int, ...] = (d.size(1, 4),)
    last = d.attribute("channels_last", 1, 0)
    d.attribute("ndim", 1)
    if last and d.flag():
        channels = (*channels, d.size(1, 3))
    before = (kernel - 1) * (d.attribute("dilation", 2, 1, 3) or 1)
    d.attribute("activation", "silu", "swish", "none")

    def shape(steps: int) -> tuple[int, ...]:
        return (batch, steps, *channels) if last else (batch, *channels, steps)

    count = int(np.prod(channels))
    d.tensor("input", shape(length), low=-2, high=2, only=("float",))
    d.tensor("weight", (count, 1, kernel), low=-1, high=1, known=d.flag())
    for name, sizes in (("bias", (count,)), ("past_state", shape(before))):
        if d.flag():
            d.tensor(name, sizes, low=-2, high=2)
        else:
            d.give(name, None)
    d.outputs = (True, True)


def repeated(d: Draw) -> None:
    """NGramRepeatBlock: texts of few words."""
    batch, words = d.size(1, 3), d.size(2, 5)
    d.attributes["ngram_size"] = d.integer(1, 4)
    d.give("input_ids", d.indices("int64", (batch, d.size(1, 11)), words, negative=False))
    d.tensor("scores", (batch, words))


def path(d: Draw) -> None:
    """DynamicTimeWarping: a matrix, or one in a batch of 1; ties, too."""
    shape = (d.size(1, 7), d.size(1, 7))
    d.tensor("input", (1, *shape) if d.flag() else shape)


STRATEGIES = {
    "Attention": attention,
    "CausalConvWithState": causal_convolution,
    "DynamicTimeWarping": path,
    "LinearAttention": linear,
    "LinearAttentionGate": gate,
    "MRotaryEmbedding": rotary,
    "MultiHeadAttention": multi_head,
    "NGramRepeatBlock": repeated,
    "QAttention": quantized,
    "RotaryEmbedding": rotary,
}
