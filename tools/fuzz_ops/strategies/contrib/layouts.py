"""Blocked layouts, and what onnxruntime adds to ONNX's own domain."""

from __future__ import annotations

import numpy as np

from onnx2torch_mlir.domains.com_microsoft_nchwc.blocks import of_this_machine
from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.strategies.algebra import layer_norm
from tools.fuzz_ops.strategies.contrib.fused import activation, sizes_of
from tools.fuzz_ops.strategies.windows import window


def reorder(d: Draw) -> None:
    """ReorderInput and ReorderOutput: channels that fill no block."""
    block = of_this_machine()
    batch, height, width = d.size(1, 3), d.size(1, 5), d.size(1, 5)
    last = d.attribute("channels_last", 1, 0)
    if d.version.op == "ReorderInput":
        channels = 4 * d.integer(1, 5)
        shape = (batch, height, width, channels) if last else (batch, channels, height, width)
    else:
        blocks = d.integer(1, 3)
        d.attributes["channels"] = blocks * block - d.integer(0, block - 1)
        shape = (batch, blocks * block, height, width)
    d.tensor("X", shape, fixed=(1, 3) if d.version.op == "ReorderInput" else (1,))


def conv(d: Draw) -> None:
    """Conv: of a plain image, of blocks, depthwise and in groups; sums and activations."""
    block = of_this_machine()
    found = window(d, 2, kernel_attribute=False)
    kind = d.choose(("image", "blocks", "depthwise", "groups"))
    channels, inner, filters, group = {
        "image": (3, 3, block, 1),
        "blocks": (2 * block, 2 * block, block, 1),
        "depthwise": (2 * block, 1, 2 * block, 2 * block),
        "groups": (2 * block, block, 4 * block, 2),
    }[kind]
    if group > 1:
        d.attributes["group"] = group
    batch, places = d.size(1, 2), sizes_of(d, found)
    d.tensor("X", (batch, channels, *found.image), low=-2, high=2, fixed=(1,))
    d.tensor("W", (filters, inner, *found.kernel), low=-1, high=1, known=True)
    if d.flag():
        d.tensor("B", (filters,), low=-2, high=2, known=d.flag())
    else:
        d.give("B", None)
    if d.flag():
        d.tensor("Sum", (batch, filters, *places), low=-2, high=2, fixed=(1,))
    activation(d)


def pool(d: Draw) -> None:
    """MaxPool and AveragePool."""
    found = window(d, 2, kernel_attribute=True, ceil=True)
    d.attributes["kernel_shape"] = found.kernel
    d.attribute("count_include_pad", 1, 0)
    d.attribute("storage_order", 1, 0)
    d.tensor("X", (d.size(1, 3), of_this_machine() * d.integer(1, 2), *found.image), low=-4, high=4, fixed=(1,))


def global_pool(d: Draw) -> None:
    """GlobalMaxPool and GlobalAveragePool."""
    shape = (d.size(1, 3), of_this_machine() * d.integer(1, 2), d.size(1, 5), d.size(1, 5))
    d.tensor("X", shape, low=-4, high=4, fixed=(1,))


def upsample(d: Draw) -> None:
    """Upsample: every mode and whole factors."""
    mode = d.attribute("mode", "linear", "nearest")
    if mode == "linear":
        d.attribute("coordinate_transformation_mode", "half_pixel", "align_corners", "asymmetric")
    d.attributes["scales"] = [1, 1, d.integer(1, 3), d.integer(1, 3)]
    d.tensor("X", (d.size(1, 2), of_this_machine(), d.integer(2, 5), d.integer(2, 5)), low=-4, high=4, fixed=(1,))


BLOCKED = {
    "ReorderInput": reorder,
    "ReorderOutput": reorder,
    "Conv": conv,
    "MaxPool": pool,
    "AveragePool": pool,
    "GlobalMaxPool": global_pool,
    "GlobalAveragePool": global_pool,
    "Upsample": upsample,
}
"""Of the domain com.microsoft.nchwc, by operator."""


def norm(d: Draw) -> None:
    """LayerNormalization before ONNX had it, and SimplifiedLayerNormalization in any opset."""
    d.opset = d.choose((12, 16, 10, 7))
    # onnxruntime takes no bfloat16 from Python, and onnx.reference rounds the statistics to it.
    d.dtype("T", ("float", "float16", "double"))
    layer_norm(d)
    if d.version.op == "SimplifiedLayerNormalization" and d.outputs is not None:
        d.outputs = (True, True)


def function(d: Draw) -> None:
    """Affine, ParametricSoftplus, ScaledTanh, Scale, ThresholdedRelu, copies to and from a device."""
    d.opset = d.choose((7, 9, 1))
    d.tensor(d.version.inputs[0].name, d.shape(0, 4), low=-4, high=4, only=("float",))
    for name, numbers in (("alpha", (0.5, 2.0)), ("beta", (0.5, 2.0)), ("scale", (0.5, 2.0))):
        if d.has_attribute(name):
            d.attributes[name] = d.choose(numbers)


def crop(d: Draw) -> None:
    """Crop: borders, or a size."""
    d.opset = 7
    border = [d.integer(0, 2) for _ in range(4)]
    height, width = 4 + d.integer(1, 4), 4 + d.integer(1, 4)
    d.attributes["border"] = border
    if d.flag():
        d.attributes["scale"] = [d.integer(1, height - border[1]), d.integer(1, width - border[0])]
    d.tensor("input", (d.size(1, 3), d.size(1, 3), height, width), only=("float",))


def image_scaler(d: Draw) -> None:
    """ImageScaler: a bias of each channel."""
    d.opset = 7
    channels = d.integer(1, 4)
    d.attributes["bias"] = [0.5 * index for index in range(channels)]
    d.attribute("scale", 2.0, 0.5)
    d.tensor("input", (d.size(1, 3), channels, d.size(1, 5), d.size(1, 5)), low=-4, high=4, only=("float",))


def mean_variance(d: Draw) -> None:
    """MeanVarianceNormalization of before ONNX had it."""
    d.opset = d.choose((7, 8, 1))
    d.attribute("across_channels", 1, 0)
    d.attribute("normalize_variance", 0, 1)
    shape = (d.integer(2, 3), d.size(1, 3), d.integer(2, 5), d.integer(2, 5))
    d.tensor("input", shape, low=-4, high=4, only=("float",))


def dynamic_slice(d: Draw) -> None:
    """DynamicSlice: some axes, bounds from either end."""
    d.opset = d.choose((7, 9, 1))
    shape = d.shape(1, 4, smallest=1)
    axes = d.axes(len(shape), empty=False)
    bounds = [sorted((d.integer(0, shape[axis]), d.integer(0, shape[axis]))) for axis in axes]
    d.tensor("data", shape)
    kind, known = d.dtype("Tind"), d.flag()
    for name, numbers in (("starts", [pair[0] for pair in bounds]), ("ends", [pair[1] for pair in bounds]), ("axes", axes)):
        d.give(name, np.array(numbers, np.int64 if kind == "int64" else np.int32), known=known, static=True)


KEPT = {
    "LayerNormalization": norm,
    "SimplifiedLayerNormalization": norm,
    "MeanVarianceNormalization": mean_variance,
    "Affine": function,
    "ParametricSoftplus": function,
    "ScaledTanh": function,
    "Scale": function,
    "ThresholdedRelu": function,
    "MemcpyFromHost": function,
    "MemcpyToHost": function,
    "Crop": crop,
    "ImageScaler": image_scaler,
    "DynamicSlice": dynamic_slice,
}
"""Of what com.microsoft.onnx adds to ONNX's domain, by operator."""
