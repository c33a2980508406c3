"""CropAndResize: regions of images, made one size."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Sizes
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.sampling_regions import gathered, half_away, planes_of


def crop_and_resize(
    g: ProgramBuilder,
    x: Value,
    rois: Value,
    batch_indices: Value,
    crop_size: Sizes,
    *,
    extrapolation_value: float = 0.0,
    mode: str = "bilinear",
) -> Value:
    """The regions ``rois`` [R, 4] (y1, x1, y2, x2; 0 … 1 from end to end) of ``x`` [N, C, H, W], made ``crop_size``.

    Corners lie on elements. Source: com.microsoft CropAndResize, onnxruntime's ``crop_and_resize.cc``.

    Raises:
        Refusal: O2M-C005 for an unknown mode, O2M-C006 for other ranks.
    """
    if mode not in ("bilinear", "nearest"):
        raise refuse("O2M-C005", f"there is no mode {mode}", case=f"mode={mode}")
    if x.rank != 4 or rois.rank != 2 or len(crop_size) != 2:
        raise refuse("O2M-C006", f"CropAndResize of ranks {x.rank} and {rois.rank}", case="rank")
    height, width = (g.as_size(size) for size in crop_size)
    ends = ((0, 2, x.shape[2], height), (1, 3, x.shape[3], width))
    rows, columns = (
        _places(g, g.select(rois, 1, first), g.select(rois, 1, last), size, count) for first, last, size, count in ends
    )
    beyond = g.call(
        "aten.logical_or.default",
        g.unsqueeze(_outside(g, rows, x.shape[2]), 2),
        g.unsqueeze(_outside(g, columns, x.shape[3]), 1),
    )
    indices = [_neighbours(g, places, size, mode) for places, size in ((rows, x.shape[2]), (columns, x.shape[3]))]
    found = gathered(g, planes_of(g, x), x.shape, batch_indices, indices[0], indices[1])
    if mode == "bilinear":
        part = g.sub(columns, g.unary("floor", columns))
        found = _between(g, found, 5, g.reshape(part, [part.shape[0], 1, 1, width]))
        part = g.sub(rows, g.unary("floor", rows))
        found = _between(g, found, 3, g.reshape(part, [part.shape[0], height, 1]))
    found = g.reshape(found, [x.shape[1], rois.shape[0], height, width])
    return g.permute(g.where(beyond, extrapolation_value, found), [1, 0, 2, 3])


def _places(g: ProgramBuilder, start: Value, end: Value, size: Dim, count: Dim) -> Value:
    """``count`` places [R, count] from ``start`` to ``end`` of an axis of ``size``; one lies in the middle."""
    start, end = g.unsqueeze(start, 1), g.unsqueeze(end, 1)
    last = g.size_value(to_dim(size - 1), start.dtype)
    if count == 1:
        return g.mul(g.mul(g.add(start, end), 0.5), last)
    steps = g.unsqueeze(g.arange(0, count), 0)
    number = g.size_value(to_dim(count - 1), start.dtype)
    scale = g.div(g.mul(g.sub(end, start), last), number)
    between = g.add(g.mul(start, last), g.mul(g.cast(steps, start.dtype), scale))
    between = g.where(g.binary("eq", steps, g.size_value(to_dim(count - 1))), g.mul(end, last), between)
    between = g.where(g.binary("eq", steps, 0), g.mul(start, last), between)
    if isinstance(count, int):
        return between
    middle = g.mul(g.mul(g.add(start, end), 0.5), last)
    return g.where(g.binary("eq", g.size_value(count), 1), middle, between)


def _outside(g: ProgramBuilder, places: Value, size: Dim) -> Value:
    last = g.size_value(to_dim(size - 1), places.dtype)
    return g.call("aten.logical_or.default", g.binary("lt", places, 0.0), g.binary("gt", places, last))


def _neighbours(g: ProgramBuilder, places: Value, size: Dim, mode: str) -> Value:
    """The elements before and after each place [R, count, 2], or the nearest ones [R, count, 1]."""
    found = [half_away(g, places)] if mode == "nearest" else [g.unary("floor", places), g.unary("ceil", places)]
    last = g.maximum(g.size_value(to_dim(size - 1)), 0)
    inside = [g.minimum(g.maximum(g.cast(item, torch.int64), 0), last) for item in found]
    return g.cat([g.unsqueeze(item, 2) for item in inside], 2)


def _between(g: ProgramBuilder, x: Value, axis: int, part: Value) -> Value:
    """What lies ``part`` of the way from the first to the second element along ``axis``."""
    first, second = (g.select(x, axis, index) for index in (0, 1))
    return g.add(first, g.mul(g.sub(second, first), part))
