"""Attention over a cache of keys and values, which grows, has room, is quantized, or holds a window of the latest steps."""

from __future__ import annotations

import numpy as np

from tools.fuzz_ops.case import Array
from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.strategies.contrib.attention import FLOATS


def group_query(d: Draw) -> None:
    """GroupQueryAttention: first calls and steps, caches of all kinds, rotary positions, windows, sinks, scores."""
    kv_heads, group, size = d.integer(1, 2), d.integer(1, 3), d.choose((16, 32, 8))
    heads, batch = kv_heads * group, d.size(1, 3)
    cache = d.choose(("", "", "int8", "uint8", "window"))
    first = d.flag()
    steps, room = d.size(1, 5) if first else 1, d.size(1, 7)
    if first:
        room = steps if cache == "window" else room + steps
    lengths = d.indices("int32", (batch,), steps if first else room, negative=False)
    cached = bool(cache) or not first or d.flag()
    total = steps if first else d.choose((int(lengths.max()) + 1, room))
    if not first and d.flag():
        total, lengths = room + 1, d.indices("int32", (batch,), room + 1, negative=False)
    d.attributes |= {"num_heads": heads, "kv_num_heads": kv_heads}
    d.attribute("scale", 0.2)
    d.attribute("softcap", 2.0, 0.0)
    d.attribute("smooth_softmax", 1, 0, -1)
    d.attribute("qk_norm_epsilon", 1e-3)
    if cache == "window":
        window = d.integer(1, room)
        lengths = _ends(d, batch, room, window, first=first)
        total = int(lengths.max()) + 1
        d.attributes |= {"sliding_window_cache": 1, "local_window_size": window}
    elif d.attribute("causal", 0, 1) != 0:
        d.attribute("local_window_size", 2, 1, -1)
    d.broadcasts = True
    packed = d.flag()
    widths = ((heads + 2 * kv_heads) * size,) if packed else (heads * size, kv_heads * size, kv_heads * size)
    for name, width in zip(("query", "key", "value"), widths, strict=False):
        d.tensor(name, (batch, steps, width), low=-2, high=2, only=FLOATS)
    if cached:
        kind = cache if cache in ("int8", "uint8") else d.dtype("T")
        for name in ("past_key", "past_value"):
            shape = (batch, kv_heads, room, size // 2 if kind == "uint8" else size)
            d.give(name, d.array(kind, shape, -2, 2) if "float" in kind else _codes(d, kind, shape))
    d.give("seqlens_k", lengths)
    d.give("total_sequence_length", np.array(total, np.int32))
    if size % 16 == 0 and d.flag():
        d.attributes["do_rotary"] = 1
        d.attribute("rotary_interleaved", 1, 0)
        rows, angles = total + steps + 3, d.choose((size // 2, 8))
        for name in ("cos_cache", "sin_cache"):
            d.tensor(name, (rows, angles), low=-1, high=1)
        if d.flag():
            d.give("position_ids", d.indices("int64", (batch, steps), 4, negative=False))
    if d.one_in(3):
        d.tensor("attention_bias", (d.choose((batch, 1)), d.choose((heads, 1)), steps, total), low=-2, high=2)
    if d.one_in(3):
        d.tensor("head_sink", (heads,), low=-2, high=2)
    _scales(d, cache, (1, kv_heads, 1, size))
    shown = cache != "window" and d.attribute("qk_output", 1, 2, 0)
    if shown:
        # What onnxruntime shows of a place that is not filled, it has not written.
        lengths[:] = total - 1
    held = bool(shown) or cached or d.flag()
    d.outputs = (True, held, held, True) if shown else (True, held, held)


def _ends(d: Draw, batch: int, room: int, window: int, *, first: bool) -> Array:
    """The last places of batches after which onnxruntime leaves no row of a windowed cache unwritten."""
    chunks = 0 if first else d.integer(0, 4)
    return np.full(batch, room + (room - window + 1) * chunks - 1, np.int32)


def _codes(d: Draw, kind: str, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(d.integer(0, 2**16))
    return rng.integers(0, 256, shape).astype(np.uint8).view(kind)


def _scales(d: Draw, cache: str, by_channel: tuple[int, ...]) -> None:
    """What numbers a quantized cache stands for, and how that is said; for another cache nothing, or just so."""
    if cache in ("int8", "uint8"):
        how = d.choose(("PER_TENSOR", "PER_CHANNEL"))
        shape = (1,) if how == "PER_TENSOR" else by_channel
        d.attributes["kv_cache_bit_width"] = 8 if cache == "int8" else 4
        low, high = (0.01, 0.03) if cache == "int8" else (0.1, 0.4)
        for name in ("k_scale", "v_scale"):
            d.give(name, d.array("float", shape, low, high), static=True)
    else:
        how = "NONE"
        d.attribute("kv_cache_bit_width", 0)
    if how != "NONE" or d.flag():
        d.attributes |= {"k_quant_type": how, "v_quant_type": how}


def decoder(d: Draw) -> None:
    """DecoderMaskedMultiHeadAttention: one step over a buffer that past and present share, or to given keys."""
    batch, beams, heads, size = d.size(1, 2), d.integer(1, 3), d.integer(1, 3), d.size(1, 5)
    rows, kind = batch * beams, d.choose(("buffer", "own", "other"))
    d.attributes["num_heads"] = heads
    d.attribute("scale", 0.5)
    d.attribute("mask_filter_value", -3.0)
    d.broadcasts = True
    width = heads * size
    d.tensor("query", (rows, 1, width), low=-2, high=2, only=("float",))
    room, filled = d.integer(2, 6), 0
    keys = d.size(1, 5) if kind == "other" else 1
    for name in ("key", "value"):
        d.tensor(name, (rows, heads, keys, size) if kind == "other" else (rows, 1, width), low=-2, high=2)
    if kind == "buffer":
        filled = d.integer(0, room - 1)
        keys = filled + 1
    if d.flag():
        hidden = d.indices("int32", (rows, keys), 2, negative=False)
        hidden[:, -1] = 1
        d.give("mask_index", hidden)
    if kind == "buffer" and d.flag():
        d.tensor("attention_bias", (d.choose((rows, 1)), d.choose((heads, 1)), 1, keys), low=-2, high=2)
    if kind == "buffer":
        for name in ("past_key", "past_value"):
            d.tensor(name, (rows, heads, room, size), low=-2, high=2, known=False)
        d.give("past_sequence_length", np.array([filled], np.int32))
        d.attributes["past_present_share_buffer"] = 1
        if d.flag():
            d.give("beam_width", np.array([beams], np.int32))
            d.give("cache_indirection", d.indices("int32", (batch, beams, room), beams, negative=False))
    if d.flag():
        d.tensor("bias", (3 * width,), low=-1, high=1)
    d.outputs = (True, True, True) if kind == "buffer" else (True,)
    if d.one_in(3):
        d.attributes["output_qk"] = 1
        d.output_types["qk"] = "float"
        d.outputs = (*d.outputs, *[False] * (3 - len(d.outputs)), True)


def sparse(d: Draw) -> None:
    """SparseAttention: first calls and steps over a shared buffer, all blocks and some."""
    kv_heads, group, size, block = d.integer(1, 2), d.integer(1, 3), d.choose((16, 8)), 16
    heads, batch, blocks = kv_heads * group, d.size(1, 2), d.integer(1, 3)
    room = block * blocks
    first = d.flag()
    steps = d.size(1, 11) if first else 1
    total = steps if first else d.integer(1, room)
    d.attributes |= {"num_heads": heads, "kv_num_heads": kv_heads, "sparse_block_size": block}
    d.attribute("scale", 0.2)
    d.broadcasts = True
    packed = d.flag()
    widths = ((heads + 2 * kv_heads) * size,) if packed else (heads * size, kv_heads * size, kv_heads * size)
    for name, width in zip(("query", "key", "value"), widths, strict=False):
        d.tensor(name, (batch, steps, width), low=-2, high=2, only=FLOATS)
    for name in ("past_key", "past_value"):
        d.tensor(name, (batch, kv_heads, room, size), low=-2, high=2, known=False)
    layouts = d.choose([count for count in (1, 2, heads) if heads % count == 0])
    seen = np.stack([np.tril(d.indices("int32", (blocks, blocks), 2, negative=False)) | np.eye(blocks, dtype=int)] * layouts)
    counts = seen.sum(2)
    rows = np.concatenate([np.zeros((layouts, 1), int), counts.cumsum(1)], 1).astype(np.int32)
    columns = np.stack([np.nonzero(layout)[1] for layout in seen]).astype(np.int32)
    d.give("block_row_indices", rows)
    d.give("block_col_indices", columns)
    d.give("total_sequence_length", np.array(total, np.int32))
    # Of a batch that is shorter than the longest one onnxruntime gives what is no attention to any of its keys.
    d.give("key_total_sequence_lengths", np.full(batch, total, np.int32))
    if size % 16 == 0 and d.flag():
        d.attributes["do_rotary"] = 1
        d.attribute("rotary_interleaved", 1, 0)
        for name in ("cos_cache", "sin_cache"):
            d.tensor(name, (room, size // 2), low=-1, high=1)
    d.outputs = (True, True, True)


STRATEGIES = {
    "GroupQueryAttention": group_query,
    "DecoderMaskedMultiHeadAttention": decoder,
    "SparseAttention": sparse,
}
