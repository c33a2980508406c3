"""Sampling of images: grids, regions of interest, deformed windows, unpooling."""

from __future__ import annotations

import numpy as np

from tools.fuzz_ops.draw import Draw


def affine_grid(d: Draw) -> None:
    """AffineGrid: two and three dimensions."""
    rank = d.integer(2, 3)
    batch = d.size(1, 3)
    d.attribute("align_corners", 1, 0)
    d.tensor("theta", (batch, rank, rank + 1), low=-2, high=2)
    d.parameter("size", [batch, d.size(1, 3), *(d.integer(2, 5) for _ in range(rank))])


def grid_sample(d: Draw) -> None:
    """GridSample: points within and beyond the image."""
    rank = d.integer(2, 3) if d.version.since_version >= 20 else 2
    batch = d.size(1, 2)
    modes = ("nearest", "linear", "cubic") if d.version.since_version >= 20 else ("nearest", "bilinear", "bicubic")
    d.attribute("mode", *(modes if rank == 2 else modes[:2]))
    d.attribute("padding_mode", "border", "reflection", "zeros")
    d.attribute("align_corners", 1, 0)
    d.tensor("X", (batch, d.size(1, 3), *(d.integer(2, 5) for _ in range(rank))), low=-4, high=4)
    d.tensor("grid", (batch, *(d.integer(1, 4) for _ in range(rank)), rank), low=-1.4, high=1.4)


def roi_align(d: Draw) -> None:
    """RoiAlign: both modes, adaptive and fixed sampling."""
    batch, count = d.size(1, 2), d.size(1, 4)
    height, width = d.integer(3, 8), d.integer(3, 8)
    d.attribute("mode", "max", "avg")
    d.attribute("output_height", 1, 2, 3)
    d.attribute("output_width", 1, 2, 3)
    d.attribute("sampling_ratio", 1, 2, 0)
    d.attribute("spatial_scale", 0.5, 1.0)
    d.attribute("coordinate_transformation_mode", "output_half_pixel", "half_pixel")
    d.tensor("X", (batch, d.size(1, 3), height, width), low=0, high=4)
    d.give("rois", _boxes(d, count, height, width).astype(d.array(d.dtype("T1"), ()).dtype))
    d.give("batch_indices", d.indices("int64", (count,), batch, negative=False))


def _boxes(d: Draw, count: int, height: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rng = np.random.default_rng(d.integer(0, 999))
    corners = np.sort(rng.random((count, 2, 2)) * 0.9, axis=1) + np.array([[0.0], [0.1]])
    return (corners * np.array([width, height])).reshape(count, 4)


def max_roi_pool(d: Draw) -> None:
    """MaxRoiPool: boxes of whole coordinates."""
    batch, count = d.size(1, 2), d.size(1, 4)
    d.attributes["pooled_shape"] = [d.integer(1, 3), d.integer(1, 3)]
    d.attribute("spatial_scale", 0.5, 1.0)
    d.tensor("X", (batch, d.size(1, 3), 6, 7), low=-4, high=4)
    boxes = np.concatenate([d.indices("int64", (count, 1), batch, negative=False), np.floor(_boxes(d, count, 6, 7))], 1)
    d.give("rois", boxes.astype(d.array(d.dtype("T"), ()).dtype))


def deform_conv(d: Draw) -> None:
    """DeformConv: groups of offsets, with and without mask and bias."""
    kernel = [d.integer(1, 3), d.integer(1, 3)]
    strides = d.attribute("strides", [1, 2], [2, 2]) or [1, 1]
    dilations = d.attribute("dilations", [2, 1]) or [1, 1]
    pads = d.attribute("pads", [1, 0, 0, 1], [1, 1, 1, 1]) or [0, 0, 0, 0]
    if d.symbolic != "no" or d.flag():
        d.attributes["kernel_shape"] = kernel
    group = d.attribute("offset_group", 1, 2) or 1
    channels = group * d.integer(1, 2)
    image = [(kernel[i] - 1) * dilations[i] + 1 + d.integer(0, 3) for i in range(2)]
    places = [(image[i] + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(2)]
    batch, filters, taps = d.size(1, 2), d.size(1, 3), kernel[0] * kernel[1]
    d.tensor("X", (batch, channels, *image), low=-4, high=4)
    d.tensor("W", (filters, channels, *kernel), low=-2, high=2)
    d.tensor("offset", (batch, group * taps * 2, *places), low=-1.5, high=1.5)
    for name, shape in (("B", (filters,)), ("mask", (batch, group * taps, *places))):
        if d.flag():
            d.tensor(name, shape, low=0, high=2)
        else:
            d.give(name, None)


def max_unpool(d: Draw) -> None:
    """MaxUnpool: places that do not repeat."""
    kernel = [d.integer(1, 3), d.integer(1, 3)]
    height, width = d.integer(1, 3), d.integer(1, 3)
    batch, channels = d.size(1, 2), d.size(1, 2)
    d.attributes["kernel_shape"], d.attributes["strides"] = kernel, kernel
    whole = (height * kernel[0], width * kernel[1])
    order = np.random.default_rng(d.integer(0, 999)).permutation(batch * channels * whole[0] * whole[1])
    count = batch * channels * height * width
    d.tensor("X", (batch, channels, height, width))
    d.give("I", order[:count].reshape(batch, channels, height, width).astype(np.int64))
    if d.flag():
        d.parameter("output_shape", [batch, channels, *whole])


STRATEGIES = {
    "AffineGrid": affine_grid,
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
    "MaxRoiPool": max_roi_pool,
    "DeformConv": deform_conv,
    "MaxUnpool": max_unpool,
}
