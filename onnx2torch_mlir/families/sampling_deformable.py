"""DeformConv: a convolution that reads its elements at places of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.families.convolution import with_kernel_shape
from onnx2torch_mlir.families.sampling import neighbours, sampled
from onnx2torch_mlir.families.windows import check_spatial, resolve


def deform_conv(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    offset: Value,
    b: Value | None = None,
    mask: Value | None = None,
    *,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """A convolution whose elements are read at places moved by ``offset`` and weighed by ``mask``.

    ``offset`` is [N, groups * kernel * axes, *out], ``mask`` [N, groups * kernel, *out]; between elements ``x`` is
    linear, outside it is zero.

    Source: ONNX DeformConv and its reference implementation, for any number of spatial axes.
    """
    check_spatial(x)
    rank = x.rank - 2
    w = with_kernel_shape(g, w, kernel_shape)
    window = resolve(x.shape[2:], w.shape[2:], strides=strides, dilations=dilations, pads=pads)
    batch, channels = x.shape[:2]
    places = offset.shape[2:]
    count, cells = dims.product(places), int(dims.product(window.kernel))
    g.require_equal(offset.shape[1], offset_group * cells * rank, "channels of the offsets")
    g.require_equal(channels, to_dim(w.shape[1] * group), "channels of a convolution and its kernel")
    dtype = torch.float64 if x.dtype is torch.float64 else torch.float32
    rows = to_dim(batch * offset_group)
    moved = g.reshape(g.cast(offset, dtype), [rows, cells, rank, count])
    taps = []
    for axis, size in enumerate(x.shape[2:]):
        start = g.cast(_starts(g, window.low[axis], window.strides[axis], places, axis), dtype)
        within = g.cast(_cells(g, window.kernel, window.dilations, axis), dtype)
        base = g.add(g.unsqueeze(within, 1), g.unsqueeze(start, 0))
        where = g.reshape(g.add(g.select(moved, 2, axis), base), [rows, to_dim(count * cells)])
        taps.append(neighbours(g, where, size, "linear", "zeros", True))
    split = g.reshape(g.cast(x, dtype), [rows, dims.floor_div(channels, offset_group), *x.shape[2:]])
    columns = sampled(g, split, taps)
    if mask is not None:
        columns = g.mul(columns, g.reshape(g.cast(mask, dtype), [rows, 1, to_dim(count * cells)]))
    inner = to_dim(w.shape[1] * cells)
    columns = g.reshape(columns, [batch, group, inner, count])
    filters = dims.floor_div(w.shape[0], group)
    kernels = g.reshape(g.cast(w, dtype), [group, filters, inner])
    result = g.reshape(g.matmul(kernels, columns), [batch, w.shape[0], *places])
    if b is not None:
        result = g.add(result, g.reshape(g.cast(b, dtype), [w.shape[0], *[1] * rank]))
    return g.cast(result, x.dtype)


def _starts(g: ProgramBuilder, low: Dim, stride: int, places: tuple[Dim, ...], axis: int) -> Value:
    """Where the windows begin along ``axis``: int64, one for each of the flattened ``places``."""
    along = g.sub(g.mul(g.arange(0, places[axis]), stride), g.size_value(low))
    shaped = g.reshape(along, [places[axis], *[1] * (len(places) - 1 - axis)])
    return g.reshape(g.expand(shaped, places), [dims.product(places)])


def _cells(g: ProgramBuilder, kernel: tuple[int, ...], dilations: tuple[int, ...], axis: int) -> Value:
    """How far along ``axis`` the cells of a window are from its beginning."""
    grid = torch.arange(kernel[axis]) * dilations[axis]
    shaped = grid.reshape([-1, *[1] * (len(kernel) - 1 - axis)])
    return g.known(shaped.expand(kernel).reshape(-1).contiguous())
