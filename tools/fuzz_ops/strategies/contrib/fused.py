"""What onnxruntime's optimizers fuse: normalizations, Gelus, convolutions and products with what stands around them."""

from __future__ import annotations

from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.strategies.windows import Window, window


def skip_norm(d: Draw) -> None:
    """SkipLayerNormalization and SkipSimplifiedLayerNormalization: a skip that broadcasts, a bias, the sum."""
    batch, length, size = d.size(1, 3), d.size(1, 5), d.size(1, 16)
    layered = d.version.op == "SkipLayerNormalization"
    shape = (batch, length, size)
    skips = [shape, (length, size), (1, length, size)]
    d.broadcasts = True
    d.tensor(d.version.inputs[0].name, shape, low=-4, high=4)
    d.tensor("skip", d.choose(skips), low=-4, high=4)
    d.tensor("gamma", (size,), low=-2, high=2, known=d.flag())
    for name in ("beta", "bias") if layered else ("bias",):
        if d.flag():
            d.tensor(name, (size,), low=-2, high=2, known=d.flag())
        else:
            d.give(name, None)
    d.attribute("epsilon", 1e-3, 1e-5)
    summed, told = d.flag(), d.one_in(4)
    d.outputs = (True, told, told, summed)


def embed_norm(d: Draw) -> None:
    """EmbedLayerNormalization: with and without segments, mask and positions."""
    batch, length, size, words, places = d.size(1, 3), d.size(1, 5), d.integer(2, 8), d.integer(1, 9), 8
    d.broadcasts = True
    kinds = d.integer(1, 3) if d.flag() else 0
    d.give("input_ids", d.indices("int32", (batch, length), words, negative=False))
    d.give("segment_ids", d.indices("int32", (batch, length), kinds, negative=False) if kinds else None)
    for name, rows in (("word_embedding", words), ("position_embedding", places), ("segment_embedding", kinds)):
        if rows:
            d.tensor(name, (rows, size), low=-4, high=4, known=True)
        else:
            d.give(name, None)
    for name in ("gamma", "beta"):
        d.tensor(name, (size,), low=-2, high=2, known=True)
    masked, placed = d.flag(), d.flag()
    d.give("mask", d.indices("int32", (batch, length), 2, negative=False) if masked else None)
    if placed:
        d.give("position_ids", d.indices("int32", (d.choose((batch, 1)), length), places, negative=False))
    d.attribute("epsilon", 1e-3)
    kind = d.attribute("mask_index_type", 0, 1)
    # Without a mask onnxruntime leaves the counts unwritten, unless the type says that there are none.
    d.outputs = (True, d.flag() and kind != 0, d.flag())


def gelu(d: Draw) -> None:
    """Gelu, FastGelu, BiasGelu: with a bias along the last axis."""
    shape = d.shape(1, 4, smallest=1)
    data, *rest = (formal.name for formal in d.version.inputs)
    d.tensor(data, shape, low=-6, high=6, only=("float", "float16", "bfloat16"))
    if rest and (d.version.op == "BiasGelu" or d.flag()):
        d.tensor(rest[0], shape[-1:], low=-2, high=2, known=d.flag())


def quick_gelu(d: Draw) -> None:
    """QuickGelu: any alpha."""
    d.tensor("X", d.shape(0, 4), low=-6, high=6)
    d.attribute("alpha", 1.0, 0.5)


_OF_CONV = {"Relu": 0, "Sigmoid": 0, "Tanh": 0, "HardSwish": 0, "LeakyRelu": 1, "Clip": 2, "HardSigmoid": 2}


def fused_conv(d: Draw) -> None:
    """FusedConv: every activation, something added."""
    rank = d.integer(1, 2)
    found = window(d, rank, kernel_attribute=False)
    group = d.choose((1, 1, 2))
    if group > 1:
        d.attributes["group"] = group
    channels, filters, batch = d.integer(1, 3), d.integer(1, 3), d.size(1, 3)
    d.tensor("X", (batch, group * channels, *found.image), low=-4, high=4)
    d.tensor("W", (group * filters, channels, *found.kernel), low=-2, high=2, known=d.flag())
    if d.flag():
        d.tensor("B", (group * filters,), known=d.flag(), low=-2, high=2)
    else:
        d.give("B", None)
    if d.flag():
        d.tensor("Z", (batch, group * filters, *sizes_of(d, found)), low=-4, high=4)
    activation(d)


def activation(d: Draw) -> None:
    """What follows a convolution, or nothing."""
    name = d.choose(("", *_OF_CONV))
    if name:
        d.attributes["activation"] = name
        if _OF_CONV[name]:
            d.attributes["activation_params"] = [0.3, 1.5][: _OF_CONV[name]]


def sizes_of(d: Draw, found: Window) -> list[int]:
    """The sizes of what the drawn window gives."""
    image, kernel, rank = found.image, found.kernel, len(found.image)
    strides, dilations = (d.attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    if str(d.attributes.get("auto_pad", "")).startswith("SAME"):
        return [-(-size // stride) for size, stride in zip(image, strides, strict=True)]
    pads = d.attributes.get("pads", [0] * (2 * rank))
    extents = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    return [(image[axis] + pads[axis] + pads[rank + axis] - extents[axis]) // strides[axis] + 1 for axis in range(rank)]


_OF_GEMM = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign"), ""),
    **dict.fromkeys(("LeakyRelu", "Celu", "Elu", "ThresholdedRelu"), "alpha"),
    **dict.fromkeys(("HardSigmoid", "ParametricSoftplus", "ScaledTanh"), "alpha beta"),
    "Selu": "alpha gamma",
}


def fused_gemm(d: Draw) -> None:
    """FusedGemm: every activation."""
    rows, inner, columns = d.size(1, 8), d.size(1, 8), d.size(1, 8)
    d.broadcasts = True
    for name, shape in (("A", (rows, inner)), ("B", (inner, columns))):
        turned = d.attribute(f"trans{name}", 1, 0)
        d.tensor(name, shape[::-1] if turned else shape, low=-2, high=2, known=d.flag(), only=("float",))
    d.attribute("alpha", 0.5, 2.0)
    d.attribute("beta", 0.5, 0.0)
    if d.flag():
        d.tensor("C", d.broadcastable((rows, columns)), low=-4, high=4)
    name = d.choose(("", *_OF_GEMM))
    if not name:
        return
    d.attributes["activation"] = name
    for word, number in zip(_OF_GEMM[name].split(), (0.3, 0.7), strict=False):
        d.attributes[f"activation_{word}"] = number


def fused_matmul(d: Draw) -> None:
    """FusedMatMul and TransposeMatMul: transposed matrices, and rows before the batch."""
    rows, inner, columns = d.size(1, 5), d.size(1, 5), d.size(1, 5)
    batch = tuple(d.size(1, 3) for _ in range(d.integer(0, 2)))
    d.attribute("alpha", 0.5, 2.0)
    for name, shape in (("A", (rows, inner)), ("B", (inner, columns))):
        whole = (*batch, *shape)
        if d.attribute(f"trans{name}", 1, 0):
            whole = (*batch, *shape[::-1])
        if batch and d.attribute(f"transBatch{name}", 1, 0):
            whole = (whole[-2], *batch, whole[-1])
        d.tensor(name, whole, low=-2, high=2, known=d.flag())


def nhwc_max_pool(d: Draw) -> None:
    """NhwcMaxPool: windows over axes that the channels follow."""
    found = window(d, d.integer(1, 2), kernel_attribute=True, ceil=True)
    d.attributes["kernel_shape"] = found.kernel
    d.tensor("x", (d.size(1, 3), *found.image, d.size(1, 3)))


STRATEGIES = {
    "SkipLayerNormalization": skip_norm,
    "SkipSimplifiedLayerNormalization": skip_norm,
    "EmbedLayerNormalization": embed_norm,
    "Gelu": gelu,
    "BiasGelu": gelu,
    "FastGelu": gelu,
    "QuickGelu": quick_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "NhwcMaxPool": nhwc_max_pool,
}
