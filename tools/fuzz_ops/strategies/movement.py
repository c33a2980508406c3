"""Operators that move elements: reshape, transpose, slice, pad, split, concatenate, tile."""

from __future__ import annotations

import math
from typing import Any

from tools.fuzz_ops.draw import Draw


def reshape(d: Draw) -> None:
    """Reshape: factors regrouped, with a -1 and zeros that keep dims."""
    factors = list(d.shape(0, 5))
    data = _grouped(d, factors)
    target: list[int] = _grouped(d, d.permuted(factors) if d.flag() else factors)
    allowzero = d.attribute("allowzero", 1, 0)
    if not allowzero:
        for axis, size in enumerate(target):
            if axis < len(data) and data[axis] == size and (size == 0 or d.one_in(3)):
                target[axis] = 0
    if target and 0 not in target and d.flag():
        target[d.integer(0, len(target) - 1)] = -1
    d.tensor("data", data)
    d.parameter("shape", target)


def _grouped(d: Draw, factors: list[int]) -> list[int]:
    sizes: list[int] = []
    for size in factors:
        if sizes and d.one_in(3):
            sizes[-1] *= size
        else:
            sizes.append(size)
    if d.one_in(4):
        sizes.insert(d.integer(0, len(sizes)), 1)
    return sizes


def transpose(d: Draw) -> None:
    """Transpose: any permutation, or none."""
    shape = d.shape()
    perm = d.permuted(range(len(shape)))
    if shape:
        d.attribute("perm", perm)
    d.tensor("data", shape)


def squeeze(d: Draw) -> None:
    """Squeeze: some of the dims of size 1, or all of them."""
    shape = [1 if d.flag() else size for size in d.shape()]
    ones = [axis for axis, size in enumerate(shape) if size == 1 and d.flag()]
    d.tensor("data", shape)
    if ones:
        signed = d.version.since_version >= 11
        d.parameter("axes", [axis - len(shape) if signed and d.one_in(3) else axis for axis in ones], optional=True)


def unsqueeze(d: Draw) -> None:
    """Unsqueeze: axes of the result, in any order (since 11)."""
    shape = d.shape(0, 4)
    rank = len(shape) + d.integer(1, 2)
    axes = d.permuted(range(rank))[: rank - len(shape)]
    signed = d.version.since_version >= 11
    d.tensor("data", shape)
    d.parameter("axes", [axis - rank if signed and d.one_in(3) else axis for axis in (axes if signed else sorted(axes))])


def flatten(d: Draw) -> None:
    """Flatten: an axis from 0 to the rank, negative ones since 11."""
    shape = d.shape(1, 5)
    low = -len(shape) if d.version.since_version >= 11 else 0
    d.attribute("axis", d.integer(low, len(shape)))
    d.tensor("input", shape)


def slice_(d: Draw) -> None:
    """Slice: starts and ends of any sign, beyond the size, steps of any sign but 0."""
    shape = d.shape(1, 4)
    axes = d.axes(len(shape), empty=False)
    newer = d.version.since_version >= 10
    if not newer:
        axes = [axis % len(shape) for axis in axes]
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        step = d.choose((1, 1, 2, 3, -1, -2)) if newer else 1
        start, end = d.integer(-size - 1, size + 1), d.integer(-size - 1, size + 1)
        if d.one_in(6):
            end = d.choose((2**31 - 1, 2**63 - 1, -(2**31), -(2**63)))
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if newer and d.dtype("Tind") == "int32":
        starts, ends = ([max(-(2**31), min(2**31 - 1, item)) for item in items] for items in (starts, ends))
    d.tensor("data", shape)
    d.parameter("starts", starts)
    d.parameter("ends", ends)
    if axes == list(range(len(shape))) and steps == [1] * len(shape):
        d.parameter("axes", axes, optional=True)
    else:
        d.parameter("axes", axes)
        if steps != [1] * len(steps):
            d.parameter("steps", steps)


def pad(d: Draw) -> None:
    """Pad: all modes; constant also crops."""
    since = d.version.since_version
    mode = d.attribute("mode", "reflect", "edge", "constant", *(["wrap"] if since >= 19 else []))
    shape = d.shape(1, 4, smallest=0 if mode in (None, "constant") else 1)
    axes = list(range(len(shape)))
    if since >= 18 and d.flag():
        axes = d.axes(len(shape), empty=False)

    def amount(size: int) -> int:
        if mode in (None, "constant"):
            return d.integer(-1 if size > 2 else 0, 3)
        return d.integer(0, size - 1 if mode == "reflect" else 2)

    pads = [amount(shape[axis]) for axis in axes] + [amount(shape[axis]) for axis in axes]
    d.tensor("data", shape)
    if since == 1:
        d.attributes["paddings"] = pads
    else:
        d.parameter("pads", pads)
    if mode in (None, "constant"):
        if d.has_attribute("value"):
            d.attribute("value", 1.5, -2.0)
        elif d.flag():
            d.give("constant_value", d.array(d.dtype("T"), (), 0, 5), known=d.flag(), static=True)
        else:
            d.give("constant_value", None)
    elif d.has_input("constant_value"):
        d.give("constant_value", None)
    if axes != list(range(len(shape))):
        d.parameter("axes", axes)


def split(d: Draw) -> None:
    """Split: into sizes, into equal parts, or into a number of parts with a rest."""
    since = d.version.since_version
    shape = list(d.shape(1, 4))
    axis = d.axis(len(shape))
    axis = axis if since >= 11 else axis % len(shape)
    count = d.integer(1, 4)
    sizes = [d.size(0, 5) for _ in range(count)]
    if d.flag():
        shape[axis] = sum(sizes)
        d.tensor("input", shape)
        d.parameter("split", sizes)
    else:
        part = d.size(1, 4)
        rest = d.integer(0, part - 1) if since >= 18 and count > 1 else 0
        shape[axis] = part * count - rest
        if since >= 18 and -(-shape[axis] // count) * (count - 1) > shape[axis]:
            shape[axis] = part * count
        d.tensor("input", shape)
        if since >= 18:
            d.attributes["num_outputs"] = count
    if axis or d.flag():
        d.attributes["axis"] = axis
    d.outputs = (True,) * count


def concat(d: Draw) -> None:
    """Concat: one to four inputs."""
    shape = list(d.shape(1, 4))
    axis = d.axis(len(shape))
    axis = axis if d.version.since_version >= 11 else axis % len(shape)
    if d.version.since_version >= 4:
        d.attributes["axis"] = axis
    elif len(shape) > 1 and d.flag():
        axis = 1
    else:
        d.attributes["axis"] = axis
    for _ in range(d.integer(1, 4)):
        d.tensor(d.version.inputs[0].name, [d.size(0, 4) if a == axis % len(shape) else s for a, s in enumerate(shape)])


def expand(d: Draw) -> None:
    """Expand: both ways."""
    d.broadcasts = True
    shape = d.shape(0, 4)
    d.tensor("input", d.broadcastable(shape))
    target = [1 if d.one_in(4) else size for size in shape]
    d.parameter("shape", target)


def tile(d: Draw) -> None:
    """Tile: repeats of 0 and more; version 1 repeats one axis."""
    shape = d.shape(0 if d.version.since_version >= 6 else 1, 4)
    d.tensor("input", shape)
    if d.version.since_version >= 6:
        d.parameter("repeats", [d.integer(0, 3) for _ in shape])
    else:
        d.parameter("tiles", d.integer(1, 3))
        d.parameter("axis", d.integer(0, len(shape) - 1))


def blocks(d: Draw) -> None:
    """DepthToSpace and SpaceToDepth."""
    block = d.integer(1, 3)
    batch, channels, height, width = (d.size(0 if not index else 1, 3) for index in range(4))
    if d.version.op == "DepthToSpace":
        channels *= block * block
    else:
        height, width = height * block, width * block
    d.attributes["blocksize"] = block
    d.attribute("mode", "CRD", "DCR")
    d.tensor("input", (batch, channels, height, width))


def shape_of(d: Draw) -> None:
    """Shape and Size."""
    shape = d.shape()
    d.attribute("start", d.integer(-len(shape) - 1, len(shape) + 1))
    d.attribute("end", d.integer(-len(shape) - 1, len(shape) + 1))
    d.tensor("data", shape)


def constant_of_shape(d: Draw) -> None:
    """ConstantOfShape: any type."""
    import onnx

    dtype = d.dtype("T2")
    if d.flag():
        value = d.array(dtype, (1,))
        d.attributes["value"] = onnx.numpy_helper.from_array(value, "value")
    d.parameter("input", list(d.shape(0, 4)))


def eye_like(d: Draw) -> None:
    """EyeLike: diagonals within and beyond the matrix."""
    import onnx

    d.tensor("input", (d.size(0, 7), d.size(0, 7)))
    d.attribute("k", d.integer(-4, 4))
    d.attribute("dtype", onnx.TensorProto.DataType.Value(d.choose(d.allowed("T2")).upper()))


def trilu(d: Draw) -> None:
    """Trilu: batches of matrices, any diagonal."""
    d.tensor("input", d.shape(2, 4))
    d.attribute("upper", 0, 1)
    d.parameter("k", d.integer(-4, 4), optional=True)


def range_(d: Draw) -> None:
    """Range: upwards, downwards and empty."""
    dtype = d.dtype("T")
    start, step = d.integer(-5, 5), d.choose((1, 2, -1, -3, 5))
    limit = start + step * d.integer(-1, 6) + d.integer(0, 1)
    scale: Any = 0.5 if dtype in ("float", "double", "float16", "bfloat16") and d.flag() else 1
    for name, value in (("start", start), ("limit", limit), ("delta", step)):
        d.parameter(name, value * scale)


def one_hot(d: Draw) -> None:
    """OneHot: indices out of range give off-values."""
    shape = d.shape(0, 3)
    depth = d.integer(1, 6)
    d.attribute("axis", d.integer(-len(shape) - 1, len(shape)))
    d.give("indices", d.indices(d.dtype(d.formal("indices").type), shape, depth))
    kind = d.dtype(d.formal("depth").type)
    rank = d.choose(((), (1,)))
    d.parameter("depth", depth if rank == () else [depth], dtype=kind)
    d.tensor("values", (2,))


def crop_pad(d: Draw) -> None:
    """CenterCropPad: larger and smaller sizes."""
    shape = d.shape(1, 4)
    axes = d.axes(len(shape), empty=False)
    d.tensor("input_data", shape)
    if d.flag():
        d.attributes["axes"] = axes
        d.parameter("shape", [d.size() for _ in axes])
    else:
        d.parameter("shape", [d.size() for _ in shape])


def col2im(d: Draw) -> None:
    """Col2Im: as many columns as the window has places."""
    rank = d.integer(1, 2)
    block = [d.integer(1, 3) for _ in range(rank)]
    strides = d.attribute("strides", [d.integer(1, 2) for _ in range(rank)]) or [1] * rank
    dilations = d.attribute("dilations", [d.integer(1, 2) for _ in range(rank)]) or [1] * rank
    pads = d.attribute("pads", [d.integer(0, 1) for _ in range(2 * rank)]) or [0] * 2 * rank
    image = [(b - 1) * di + 1 + d.integer(0, 4) for b, di in zip(block, dilations, strict=True)]
    places = [
        (size + pads[i] + pads[i + rank] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i, size in enumerate(image)
    ]
    d.tensor("input", (d.size(0, 3), d.size(1, 3) * math.prod(block), math.prod(places)))
    d.parameter("image_shape", image)
    d.parameter("block_shape", block)


STRATEGIES = {
    "Reshape": reshape,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Flatten": flatten,
    "Slice": slice_,
    "Pad": pad,
    "Split": split,
    "Concat": concat,
    "Expand": expand,
    "Tile": tile,
    "DepthToSpace": blocks,
    "SpaceToDepth": blocks,
    "Shape": shape_of,
    "Size": shape_of,
    "ConstantOfShape": constant_of_shape,
    "EyeLike": eye_like,
    "Trilu": trilu,
    "Range": range_,
    "OneHot": one_hot,
    "CenterCropPad": crop_pad,
    "Col2Im": col2im,
}
