"""Regions of interest: RoiAlign and MaxRoiPool, by gathering the points of each region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.resize_axes import Tap, clamped, linear_taps


@dataclass(frozen=True)
class _Points:
    """The sampled points of every region along one axis: [R, bins, points]; ``counted`` tells which of them exist."""

    taps: list[Tap]
    counted: Value
    count: Value


def roi_align(
    g: ProgramBuilder,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_transformation_mode: str = "output_half_pixel",
) -> Value:
    """Every region of ``rois`` [R, 4] (x1, y1, x2, y2) of ``x`` [N, C, H, W] as [R, C, output_height, output_width].

    A bin is the mean, or the largest weighed corner, of its points; with ``sampling_ratio`` 0 a region of its own has
    as many points as elements. Before version 16 coordinates are not shifted by half an element.

    Source: ONNX RoiAlign and its reference implementation.
    """
    if mode not in ("avg", "max"):
        raise refuse("O2M-C005", f"unknown mode {mode}", case=f"mode={mode}")
    if x.rank != 4 or rois.rank != 2:
        raise refuse("O2M-C005", f"ranks {x.rank} and {rois.rank}, not 4 and 2", case="rank")
    half = coordinate_transformation_mode == "half_pixel"
    dtype = torch.float64 if x.dtype is torch.float64 else torch.float32
    corners = g.sub(g.mul(g.cast(rois, dtype), spatial_scale), 0.5 if half else 0.0)
    ratio = sampling_ratio
    rows = _points(g, corners, 1, x.shape[2], output_height, ratio, half)
    columns = _points(g, corners, 0, x.shape[3], output_width, ratio, half)
    planes = planes_of(g, g.cast(x, dtype))
    total: Value | None = None
    for row in rows.taps:
        for column in columns.taps:
            assert row.weight is not None and column.weight is not None
            part = gathered(g, planes, x.shape, batch_indices, row.index, column.index)
            part = g.mul(part, _crossed(g, row.weight, column.weight, "mul"))
            if total is None:
                total = part
            else:
                total = g.add(total, part) if mode == "avg" else g.maximum(total, part)
    assert total is not None
    exists = _crossed(g, rows.counted, columns.counted, "logical_and")
    if mode == "avg":
        sums = g.sum(g.where(exists, total, g.scalar(0.0, dtype)), [3, 5])
        divisor = g.maximum(g.mul(rows.count, columns.count), 1.0)
        result = g.div(sums, g.reshape(divisor, [rois.shape[0], 1, 1]))
    else:
        result = _largest(g, total, exists)
    return g.cast(g.permute(result, [1, 0, 2, 3]), x.dtype)


def _points(g: ProgramBuilder, corners: Value, column: int, size: Dim, bins: int, ratio: int, half: bool) -> _Points:
    dtype = corners.dtype
    start = g.select(corners, 1, column)
    length = g.sub(g.select(corners, 1, column + 2), start)
    if not half:
        length = g.maximum(length, 1.0)
    width = g.div(length, float(bins))
    regions = start.shape[0]
    most: Dim = ratio
    if ratio > 0:
        count = g.full([regions], float(ratio), dtype)
    else:
        count = g.maximum(g.unary("ceil", width), 0.0)
        most = _most(g, count)
    number = g.cast(g.arange(0, most), dtype)
    cell = g.cast(g.arange(0, bins), dtype)
    step = g.div(g.mul(g.add(number, 0.5), _by_region(g, width)), _by_region(g, g.maximum(count, 1.0)))
    corner = g.add(_by_region(g, start), g.mul(g.unsqueeze(cell, 1), _by_region(g, width)))
    where = g.add(corner, step)
    below = g.call("aten.ge.Tensor", where, g.scalar(-1.0, dtype))
    above = g.call("aten.le.Tensor", where, g.size_value(size, dtype))
    near = g.call("aten.logical_and.default", below, above)
    taps = [
        Tap(clamped(g, tap.index, size), g.where(near, tap.weight, g.scalar(0.0, dtype)))
        for tap in linear_taps(g, where, size)
        if tap.weight is not None
    ]
    return _Points(taps, g.call("aten.lt.Tensor", number, _by_region(g, count)), count)


def _most(g: ProgramBuilder, count: Value) -> Dim:
    """The largest of ``count`` [R], 0 if there is none."""
    whole = g.cast(count, torch.int64)
    return g.item(g.amax(g.cat([whole, g.known(torch.zeros(1, dtype=torch.int64))], 0), [0]))


def _by_region(g: ProgramBuilder, x: Value) -> Value:
    """[R] as [R, 1, 1]."""
    return g.reshape(x, [x.shape[0], 1, 1])


def _crossed(g: ProgramBuilder, rows: Value, columns: Value, combine: str) -> Value:
    """[R, PH, Y] and [R, PW, X] combined to [R, PH, Y, PW, X]; bins of size 1 stand for all."""
    left = g.reshape(rows, [*rows.shape, 1, 1])
    right = g.reshape(columns, [columns.shape[0], 1, 1, *columns.shape[1:]])
    return g.binary(combine, left, right)


def planes_of(g: ProgramBuilder, x: Value) -> Value:
    """[N, C, H, W] as [C, N * H * W]."""
    batch, channels, height, width = x.shape
    return g.reshape(g.permute(x, [1, 0, 2, 3]), [channels, dims.product([batch, height, width])])


def gathered(g: ProgramBuilder, planes: Value, shape: tuple[Dim, ...], batch: Value, rows: Value, columns: Value) -> Value:
    """The elements at all pairs of ``rows`` [R, PH, Y] and ``columns`` [R, PW, X]: [C, R, PH, Y, PW, X]."""
    _, channels, height, width = shape
    first = g.mul(_by_region(g, g.cast(batch, torch.int64)), g.size_value(height))
    index = _crossed(g, g.mul(g.add(rows, first), g.size_value(width)), columns, "add")
    flat = g.reshape(index, [dims.product(index.shape)])
    return g.reshape(g.call("aten.index_select.default", planes, 1, flat), [channels, *index.shape])


def _largest(g: ProgramBuilder, values: Value, exists: Value) -> Value:
    """The largest of [C, R, PH, Y, PW, X] over Y and X where ``exists``; 0 where nothing does."""
    dtype = values.dtype
    bottom = g.scalar(float("-inf"), dtype)
    masked = g.where(exists, values, bottom)
    end = g.full([*masked.shape[:3], 1, *masked.shape[4:]], float("-inf"), dtype)
    down = g.amax(g.cat([masked, end], 3), [3])
    end = g.full([*down.shape[:4], 1], float("-inf"), dtype)
    largest = g.amax(g.cat([down, end], 4), [4])
    return g.where(g.call("aten.eq.Tensor", largest, bottom), g.scalar(0.0, dtype), largest)


def max_roi_pool(g: ProgramBuilder, x: Value, rois: Value, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0) -> Value:
    """The largest element of each bin of each region of ``rois`` [R, 5] (batch, x1, y1, x2, y2); 0 in an empty bin.

    Source: ONNX MaxRoiPool; rounding as in onnxruntime's ``roi_pool.cc``.
    """
    if x.rank != 4 or rois.rank != 2 or len(pooled_shape) != 2:
        raise refuse("O2M-C005", "the input has rank 4, rois rank 2, pooled_shape two entries", case="rank")
    dtype = torch.float64 if x.dtype is torch.float64 else torch.float32
    wide = g.cast(rois, dtype)
    batch = g.cast(g.select(wide, 1, 0), torch.int64)
    corners = half_away(g, g.mul(wide, spatial_scale))
    rows, row_exists = _bins(g, corners, 2, x.shape[2], pooled_shape[0])
    columns, column_exists = _bins(g, corners, 1, x.shape[3], pooled_shape[1])
    values = gathered(g, planes_of(g, g.cast(x, dtype)), x.shape, batch, rows, columns)
    result = _largest(g, values, _crossed(g, row_exists, column_exists, "logical_and"))
    return g.cast(g.permute(result, [1, 0, 2, 3]), x.dtype)


def half_away(g: ProgramBuilder, x: Value) -> Value:
    """``x`` rounded, halves away from zero."""
    return g.mul(g.unary("sign", x), g.unary("floor", g.add(g.unary("abs", x), 0.5)))


def _bins(g: ProgramBuilder, corners: Value, column: int, size: Dim, bins: int) -> tuple[Value, Value]:
    """Indices of the elements of every bin, [R, bins, most], and which of them exist."""
    dtype = corners.dtype
    start = g.select(corners, 1, column)
    length = g.maximum(g.add(g.sub(g.select(corners, 1, column + 2), start), 1.0), 1.0)
    width = g.reshape(g.div(length, float(bins)), [start.shape[0], 1])
    cell = g.cast(g.arange(0, bins), dtype)
    origin = g.reshape(start, [start.shape[0], 1])
    limit = g.size_value(size, dtype)
    first = g.minimum(g.maximum(g.add(g.unary("floor", g.mul(cell, width)), origin), 0.0), limit)
    after = g.add(g.unary("ceil", g.mul(g.add(cell, 1.0), width)), origin)
    after = g.minimum(g.maximum(after, 0.0), limit)
    counts = g.maximum(g.sub(after, first), 0.0)
    most = _most(g, g.reshape(counts, [dims.product(counts.shape)]))
    number = g.arange(0, most)
    index = g.add(g.unsqueeze(g.cast(first, torch.int64), 2), number)
    exists = g.call("aten.lt.Tensor", number, g.unsqueeze(g.cast(counts, torch.int64), 2))
    return clamped(g, index, to_dim(size)), exists
