"""Gates, hashes, regions, and the forms of ONNX's operators that onnxruntime has beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.strategies.windows import window


def _anything(d: Draw, name: str, shape: Sequence[int]) -> None:
    """A tensor of any type, strings too."""
    if d.one_in(8):
        d.give(name, d.words(shape, ("", "a", "bc", "a longer one")), known=False)
    else:
        d.tensor(name, shape)


def scaled_silu(d: Draw) -> None:
    """ScaledSiLU: a scale as attribute or input."""
    d.tensor("X", d.shape(0, 4), low=-6, high=6)
    d.attribute("alpha", 0.5, 1.5)
    if d.flag():
        d.tensor("scale", (), low=-2, high=2)


def gated_add(d: Draw) -> None:
    """GatedAdd: a gate for each row."""
    shape = d.shape(1, 4, smallest=1)
    for name in ("X", "Y"):
        d.tensor(name, shape, low=-4, high=4)
    d.tensor("gate", (*shape[:-1], 1), low=-2, high=2)


def gated_rms_norm(d: Draw) -> None:
    """GatedRMSNorm: one and several groups."""
    size, groups = d.size(1, 8), d.choose((1, 2, 3))
    shape = (*d.shape(1, 2, smallest=1), size * groups)
    d.attribute("activation", "swish", "sigmoid", "silu")
    d.attribute("epsilon", 1e-3)
    d.tensor("X", shape, low=-4, high=4)
    d.tensor("scale", (size,), low=-2, high=2)
    d.tensor("gate", shape, low=-4, high=4)


def _streams(d: Draw, name: str) -> tuple[tuple[int, ...], int, int, bool]:
    outer, count, size = d.shape(1, 2, smallest=1), d.integer(1, 4), d.size(1, 8)
    flat = d.flag()
    if flat:
        d.attributes["num_branches"] = count
    d.tensor(name, (*outer, count * size) if flat else (*outer, count, size), low=-4, high=4)
    return outer, count, size, flat


def branchwise(d: Draw) -> None:
    """BranchwiseRMSNorm: grouped and flattened, all forms of the scale."""
    _, count, size, _ = _streams(d, "X")
    d.attribute("epsilon", 1e-3)
    if d.flag():
        d.tensor("scale", d.choose(((size,), (count, size), (count * size,))), low=-2, high=2)


def pre_mix(d: Draw) -> None:
    """HyperConnectionPreMix: all forms of the gates."""
    outer, count, size, flat = _streams(d, "streams")
    forms = [(*outer, count), (*outer, count, 1), (*outer, count, size), *([(*outer, count * size)] if flat else [])]
    d.attribute("reduction_scale", 0.5)
    d.broadcasts = True
    d.tensor("pre_mix", d.choose(forms), low=-2, high=2)


def post_mix(d: Draw) -> None:
    """HyperConnectionPostMix: all forms of the gates, with and without a mix of the streams."""
    outer, count, size, _ = _streams(d, "streams")
    d.broadcasts = True
    d.tensor("block_output", (*outer, size), low=-4, high=4)
    d.tensor("post_mix", d.choose(((*outer, count), (*outer, count, 1), (*outer, count, size))), low=-2, high=2)
    if d.flag():
        d.tensor("stream_mix", (*outer, count, count), low=-2, high=2)


def engram_gate(d: Draw) -> None:
    """EngramGate: with the second output and without."""
    batch, length, count, size = d.size(1, 3), d.size(1, 4), d.integer(1, 3), d.size(2, 8)
    for name in ("key", "query"):
        d.tensor(name, (batch, length, count, size), low=-2, high=2)
    d.tensor("value", (batch, length, size), low=-4, high=4)
    normed = d.flag()
    for name in ("key_norm_scale", "query_norm_scale", *(["conv_norm_scale"] if normed else [])):
        d.tensor(name, (count, size), low=0.5, high=2)
    d.attribute("epsilon", 1e-3)
    d.outputs = (True, True) if normed else (True,)


def conv_transpose(d: Draw) -> None:
    """ConvTransposeWithDynamicPads: pads that arrive at run time."""
    rank = d.integer(1, 2)
    kernel, ones = [d.integer(1, 3) for _ in range(rank)], [1] * rank
    strides = [d.integer(1, 3) for _ in range(rank)] if d.flag() else ones
    dilations = [d.integer(1, 2) for _ in range(rank)] if d.flag() else ones
    channels, filters, group = d.integer(1, 3), d.integer(1, 3), d.choose((1, 1, 2))
    for name, numbers in (("strides", strides), ("dilations", dilations)):
        if numbers != ones:
            d.attributes[name] = numbers
    if group > 1:
        d.attributes["group"] = group
    if d.symbolic != "no" or d.flag():
        d.attributes["kernel_shape"] = kernel
    if d.one_in(3):
        d.attributes["output_padding"] = [d.integer(0, stride - 1) for stride in strides]
    d.attribute("auto_pad", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    d.tensor("X", (d.size(1, 2), group * channels, *(d.integer(2, 6) for _ in range(rank))), low=-4, high=4, only=("float",))
    d.tensor("W", (group * channels, filters, *kernel), low=-2, high=2, known=d.flag())
    pads = [d.integer(0, (size - 1) // 2) for size in (*kernel, *kernel)]
    d.give("Pads", np.array(pads, np.int64), known=d.flag(), static=True)
    if d.flag():
        d.tensor("B", (group * filters,), low=-2, high=2)


def masked_pool(d: Draw) -> None:
    """MaxpoolWithMask: a mask of one plane."""
    found = window(d, d.integer(1, 3), kernel_attribute=True)
    d.attributes["kernel_shape"] = found.kernel
    d.attribute("storage_order", 1, 0)
    d.broadcasts = True
    d.tensor("X", (d.size(1, 3), d.size(1, 3), *found.image), low=-4, high=4)
    d.give("M", np.minimum(d.indices("int32", (1, 1, *found.image), 5, negative=False), 1).astype(np.int32))


def word_embedding(d: Draw) -> None:
    """WordConvEmbedding: words of one letter and more."""
    words, letters, size, known = d.size(1, 5), d.integer(3, 7), d.integer(1, 4), d.integer(2, 8)
    width, filters = d.integer(1, 3), d.integer(1, 4)
    for name, number in (("char_embedding_size", size), ("conv_window_size", width), ("embedding_size", filters)):
        d.attribute(name, number)
    lengths = 1 + d.indices("int32", (words, 1), letters, negative=False)
    given = 1 + d.indices("int32", (words, letters), known - 1, negative=False)
    d.give("Sequence", np.where(np.arange(letters) < lengths, given, 0).astype(np.int32))
    d.tensor("W", (filters, 1, width, size), low=-1, high=1, known=True)
    d.tensor("B", (filters,), low=-1, high=1)
    d.tensor("C", (known, size), low=-1, high=1)


def expand_dims(d: Draw) -> None:
    """ExpandDims: every axis of the result."""
    shape = d.shape(0, 4)
    _anything(d, "X", shape)
    d.give("axis", np.array(d.integer(-len(shape) - 1, len(shape)), np.int32), known=True)


def unfold(d: Draw) -> None:
    """UnfoldTensor: slices that overlap, touch, and lie apart."""
    shape = list(d.shape(1, 4, smallest=1))
    axis = d.axis(len(shape))
    d.attributes["size"] = size = d.integer(1, 4)
    shape[axis] = size + d.integer(0, 5)
    if axis != -1 or d.flag():
        d.attributes["dim"] = axis
    d.attribute("step", 2, 3, 1)
    d.tensor("input", shape)


def pad(d: Draw) -> None:
    """Pad: all modes, pads of rank 1 and 2."""
    mode = d.attribute("mode", "reflect", "edge", "constant") or "constant"
    shape = d.shape(1, 3, smallest=2)
    least, most = (-1, 3) if mode == "constant" else (0, 1)
    pads = np.array([d.integer(least, most) for _ in range(2 * len(shape))], np.int64)
    d.tensor("data", shape)
    d.give("pads", pads[None] if d.flag() else pads, known=d.flag(), static=True)
    if mode == "constant" and d.flag():
        d.tensor("value", d.choose(((), (1,))), known=d.flag())


def unique(d: Draw) -> None:
    """Unique: all outputs."""
    d.tensor("x", (d.size(0, 17),), low=-2, high=2)
    d.outputs = (True, True, True)


def gather_nd(d: Draw) -> None:
    """GatherND: tuples of every length."""
    shape = d.shape(1, 4, smallest=1)
    depth = d.integer(1, len(shape))
    where = d.shape(0, 2)
    columns = [d.indices(d.dtype("Tind"), where, shape[index]) for index in range(depth)]
    _anything(d, "data", shape)
    d.give("indices", np.stack(columns, -1), static_last=True)


def range_(d: Draw) -> None:
    """Range: with and without a step; scalars, and tensors of one element."""
    start, step = d.integer(-5, 5), d.choose((1, 2, -1, -3))
    stepped = d.flag()
    limit = start + (step if stepped else 1) * d.integer(-1, 6)
    shape = d.choose(((), (1,)))
    for name, number in (("start", start), ("limit", limit), *([("delta", step)] if stepped else [])):
        d.give(name, d.array(d.dtype("T"), shape, number, number), known=d.flag(), static=True)


def trilu(d: Draw) -> None:
    """Trilu: any diagonal."""
    d.tensor("X", d.shape(2, 4))
    d.attribute("upper", 0, 1)
    if d.flag():
        d.give("k", np.array(d.integer(-4, 4), np.int64), known=d.flag(), static=True)


def grid_sample(d: Draw) -> None:
    """GridSample: points within and beyond the image."""
    batch = d.size(1, 2)
    d.attribute("mode", "nearest", "bicubic", "bilinear")
    d.attribute("padding_mode", "border", "reflection", "zeros")
    d.attribute("align_corners", 1, 0)
    d.tensor("X", (batch, d.size(1, 3), d.integer(2, 5), d.integer(2, 5)), low=-4, high=4, only=("float",))
    d.tensor("Grid", (batch, d.integer(1, 4), d.integer(1, 4), 2), low=-1.4, high=1.4)


def crop_and_resize(d: Draw) -> None:
    """CropAndResize: regions within and beyond the image, turned round, of one element."""
    batch, count = d.size(1, 3), d.size(1, 4)
    d.attribute("mode", "nearest", "bilinear")
    d.attribute("extrapolation_value", 0.5)
    d.tensor("X", (batch, d.size(1, 3), d.integer(1, 6), d.integer(1, 6)), low=-4, high=4, only=("float",))
    d.tensor("rois", (count, 4), low=-0.2, high=1.2)
    d.give("batch_indices", d.indices("int32", (count,), batch, negative=False))
    d.give("crop_size", np.array([d.integer(1, 4), d.integer(1, 4)], np.int32), known=d.flag(), static=True)


def inverse(d: Draw) -> None:
    """Inverse: of matrices that are far from singular."""
    size = d.integer(1, 6)
    noise = d.array(d.dtype("T"), (*d.shape(0, 2), size, size), -0.5, 0.5)
    d.give("X", (noise + np.asarray(size * np.eye(size), noise.dtype)).astype(noise.dtype))


def cdist(d: Draw) -> None:
    """CDist: both distances."""
    inner = d.size(1, 8)
    for name in ("A", "B"):
        d.tensor(name, (d.size(1, 8), inner), low=-4, high=4)
    d.attribute("metric", "euclidean", "sqeuclidean")


def murmur_hash(d: Draw) -> None:
    """MurmurHash3: signed and unsigned, seeds."""
    d.attribute("positive", 0, 1)
    d.attribute("seed", 7, 2**31)
    _anything(d, "X", d.shape(0, 3))


def ngram_hash(d: Draw) -> None:
    """NGramHashMapping and VarlenNGramHashMapping: all inputs and outputs."""
    dtype, most, heads, batch = d.dtype("M"), d.integer(2, 4), d.integer(1, 2), d.size(1, 3)
    packed = d.version.op.startswith("Varlen")
    count = (most - 1) * heads
    lengths = [d.integer(1, 4) for _ in range(batch)]
    shape = (sum(lengths),) if packed else (batch, d.integer(1, 5))
    d.attributes.update(max_ngram_size=most, n_head_per_ngram=heads, pad_id=d.choose((0, 3)))
    d.attribute("reset_on_eos", 1, 0)
    d.give("input_ids", d.indices(dtype, shape, 9, negative=False))
    d.give("multipliers", d.array(dtype, (most,)))
    d.give("vocab_sizes", 1 + d.indices(dtype, (count,), 50, negative=False))
    if packed:
        d.give("cumulative_sequence_length", np.cumsum([0, *lengths]).astype(np.int32))
    d.give("past_ids", d.indices(dtype, (batch, most - 1), 9, negative=False) if d.flag() else None)
    d.give("head_offsets", d.array(dtype, (count,)) if d.flag() else None)
    d.give("eos_token_id", d.indices(dtype, (), 9, negative=False) if d.flag() else None)
    segmented = d.flag()
    d.give("segment_ids", d.indices("int32", shape, 3, negative=False) if segmented else None)
    if not packed:
        d.outputs = (True, d.flag())
        return
    past = segmented and d.flag()
    d.give("past_segment_ids", d.indices("int32", (batch, most - 1), 3, negative=False) if past else None)
    captured = d.flag()
    if captured:
        d.attributes["state_update_capacity"] = d.integer(1, 3)
        d.give("capture_count", d.indices("int32", (batch,), 5, negative=False))
    d.outputs = (True, d.flag(), segmented, captured)


def bifurcation(d: Draw) -> None:
    """BifurcationDetector: predictions that agree for a while, n-grams of several sizes."""
    length = d.integer(1, 9)
    least = d.attribute("min_ngram_size", 1, 2) or 1
    d.attribute("max_ngram_size", least, least + 1, least + 2)
    source = d.indices("int64", (length,), 4, negative=False)
    start = d.integer(0, length)
    d.give("src_tokens", source)
    d.give("cur_tokens", d.indices("int64", (d.integer(1, 5),), 4, negative=False))
    d.give("prev_suffix_match_idx", np.array(start, np.int64))
    if d.flag():
        predicted = np.append(source[start:], 1)
        predicted[d.integer(0, len(predicted)) :] = 9
        d.give("pred_tokens", predicted)
    d.outputs = (True, True)


STRATEGIES = {
    "ScaledSiLU": scaled_silu,
    "GatedAdd": gated_add,
    "GatedRMSNorm": gated_rms_norm,
    "BranchwiseRMSNorm": branchwise,
    "EngramGate": engram_gate,
    "HyperConnectionPreMix": pre_mix,
    "HyperConnectionPostMix": post_mix,
    "ConvTransposeWithDynamicPads": conv_transpose,
    "MaxpoolWithMask": masked_pool,
    "WordConvEmbedding": word_embedding,
    "ExpandDims": expand_dims,
    "UnfoldTensor": unfold,
    "Pad": pad,
    "Unique": unique,
    "GatherND": gather_nd,
    "Range": range_,
    "Trilu": trilu,
    "GridSample": grid_sample,
    "CropAndResize": crop_and_resize,
    "Inverse": inverse,
    "CDist": cdist,
    "MurmurHash3": murmur_hash,
    "NGramHashMapping": ngram_hash,
    "VarlenNGramHashMapping": ngram_hash,
    "BifurcationDetector": bifurcation,
}
