"""Pools over windows and over whole spatial planes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Sizes
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import lowest
from onnx2torch_mlir.families.windows import (
    PaddedAttributes,
    PoolAttributes,
    Window,
    check_spatial,
    counts,
    pad_spatial,
    pool_window,
    slide,
    sum_dtype,
)


def maximum(
    g: ProgramBuilder,
    x: Value,
    *,
    storage_order: int = 0,
    wanted: tuple[bool, ...] = (True,),
    **pool: Unpack[PoolAttributes],
) -> Value | tuple[Value | None, ...]:
    """The largest element of each window, and its position in the whole input.

    Positions count the elements of ``x`` in row-major order, or with ``storage_order`` 1 in column-major order within
    each plane. Padding is never the largest.

    Source: ONNX MaxPool; ``aten::max_pool2d_with_indices`` and its 3-D form.
    """
    window = pool_window(x, **pool)
    positions = len(wanted) > 1 and wanted[1]
    if window.rank > 3:
        if positions:
            raise refuse("O2M-C003", f"Indices over {window.rank} spatial axes", case="Indices")
        return (slide(g, pad_spatial(g, x, window, lowest(x.dtype)), window, "maximum"), None)[: len(wanted)]
    implicit = _implicit_padding(window)
    padded = pad_spatial(g, x, window, lowest(x.dtype)) if implicit is None else x
    largest, places = _max_pool(g, padded, window, implicit or (0,) * window.rank)
    if len(wanted) == 1:
        return largest
    if not positions:
        return largest, None
    low = window.low if implicit is None else (0,) * window.rank
    return largest, _positions(g, places, x.shape, padded.shape[2:], low, storage_order)


def maximum_channels_last(g: ProgramBuilder, x: Value, **pool: Unpack[PoolAttributes]) -> Value:
    """The largest element of each window of ``x`` [N, *spatial, C], which the result is laid out as.

    Source: com.microsoft NhwcMaxPool.
    """
    last = x.rank - 1
    largest = maximum(g, g.permute(x, [0, last, *range(1, last)]), **pool)
    assert isinstance(largest, Value)
    return g.permute(largest, [0, *range(2, x.rank), 1])


def _implicit_padding(window: Window) -> tuple[int, ...] | None:
    """The padding for the primitive, which takes at most half a kernel, the same on both sides."""
    pads = window.symmetric
    if pads is None or any(2 * pad > size for pad, size in zip(pads, window.kernel, strict=True)):
        return None
    return pads


def _max_pool(g: ProgramBuilder, x: Value, window: Window, padding: Sequence[int]) -> tuple[Value, Value]:
    single = window.rank == 1
    if single:
        x = g.unsqueeze(x, 2)
    lead = [1] * single
    primitive = "aten.max_pool3d_with_indices.default" if window.rank == 3 else "aten.max_pool2d_with_indices.default"
    results = g.call(
        primitive,
        x,
        [*lead, *window.kernel],
        [*lead, *window.strides],
        [*[0] * single, *padding],
        [*lead, *window.dilations],
        False,
    )
    return (g.squeeze(results[0], [2]), g.squeeze(results[1], [2])) if single else results


def _positions(
    g: ProgramBuilder,
    places: Value,
    shape: tuple[Dim, ...],
    padded: tuple[Dim, ...],
    low: Sequence[Dim],
    storage_order: int,
) -> Value:
    """Positions within a padded plane as positions in the tensor of ``shape``; a tie with padding goes to the input."""
    spatial = shape[2:]
    coordinates: list[Value] = []
    rest = places
    unpadded = all(pad == 0 for pad in low) and all(map(dims.known_equal, spatial, padded))
    for axis in reversed(range(len(spatial))):
        size = g.size_value(padded[axis])
        along = g.binary("remainder", rest, size) if axis else rest
        if not unpadded:
            along = g.sub(along, g.size_value(low[axis]))
            along = g.minimum(g.maximum(along, 0), g.size_value(spatial[axis] - 1))
        coordinates.insert(0, along)
        rest = g.floor_div(rest, size) if axis else rest
    order = list(range(len(spatial)))
    if not storage_order:
        order.reverse()
    plane: Value | None = None
    stride: Dim = 1
    for axis in order:
        term = g.mul(coordinates[axis], g.size_value(stride))
        plane = term if plane is None else g.add(plane, term)
        stride = dims.product([stride, spatial[axis]])
    assert plane is not None
    channels = g.reshape(g.arange(0, dims.product(shape[:2])), [*shape[:2], *[1] * len(spatial)])
    return g.add(plane, g.mul(channels, g.size_value(stride)))


def average(g: ProgramBuilder, x: Value, *, count_include_pad: int = 0, **pool: Unpack[PoolAttributes]) -> Value:
    """The mean of each window, over the elements inside the input, or inside it and its declared padding.

    Source: ONNX AveragePool; ``aten::avg_pool2d``/``3d``. Cells that only ``ceil_mode`` reaches are never counted.
    """
    window = pool_window(x, **pool)
    dtype = sum_dtype(x.dtype)
    wide = g.cast(x, dtype)
    implicit = _implicit_padding(window) if window.high == window.declared_high else None
    if implicit is not None and window.rank <= 3 and set(window.dilations) == {1}:
        return g.cast(_avg_pool(g, wide, window, implicit, bool(count_include_pad), None), x.dtype)
    sums = _window_sums(g, wide, window)
    divisor: Value | None = None
    for axis in range(window.rank):
        size, places = x.shape[2 + axis], sums.shape[2 + axis]
        count = g.cast(counts(g, window, axis, size, places, bool(count_include_pad)), dtype)
        factor = g.reshape(count, [places, *[1] * (window.rank - 1 - axis)])
        divisor = factor if divisor is None else g.mul(divisor, factor)
    assert divisor is not None
    return g.cast(g.div(sums, divisor), x.dtype)


def average_of_all_cells(g: ProgramBuilder, x: Value, **pool: Unpack[PoolAttributes]) -> Value:
    """The sum of each window by the size of the kernel, whatever of it is padding."""
    window = pool_window(x, **pool)
    wide = g.cast(x, sum_dtype(x.dtype))
    sums = _window_sums(g, wide, window)
    return g.cast(g.div(sums, math.prod(pool["kernel_shape"])), x.dtype)


def _avg_pool(
    g: ProgramBuilder, x: Value, window: Window, padding: Sequence[int], include_pad: bool, divisor: int | None
) -> Value:
    single = window.rank == 1
    if single:
        x = g.unsqueeze(x, 2)
    primitive = "aten.avg_pool3d.default" if window.rank == 3 else "aten.avg_pool2d.default"
    lead = [1] * single
    result: Value = g.call(
        primitive,
        x,
        [*lead, *window.kernel],
        [*lead, *window.strides],
        [*[0] * single, *padding],
        False,
        include_pad,
        divisor,
    )
    return g.squeeze(result, [2]) if single else result


def _window_sums(g: ProgramBuilder, x: Value, window: Window) -> Value:
    """The sums of the windows of ``x``, which is not padded yet."""
    wide = [axis for axis in range(window.rank) if _is_wide(window, axis)]
    for axis in wide:
        x = _sums_of_few(g, x, window, axis)
    rest = window.leaving_out(wide)
    padded = pad_spatial(g, x, rest, 0)
    if window.rank > 3 or set(window.dilations) != {1}:
        return slide(g, padded, rest, "add")
    return padded if len(wide) == window.rank else _avg_pool(g, padded, rest, [0] * rest.rank, True, 1)


def _is_wide(window: Window, axis: int) -> bool:
    """Whether windows are few and large, and reach as far past the input as only its size at run time says: networks state
    a kernel of more than a thousand cells where they mean all of a small image, and so much padding takes gigabytes."""
    kernel = window.kernel[axis]
    unknown = not isinstance(window.high[axis], int)
    return unknown and kernel >= _WIDE and 2 * window.strides[axis] >= kernel and window.dilations[axis] == 1


_WIDE = 64


def _sums_of_few(g: ProgramBuilder, x: Value, window: Window, axis: int) -> Value:
    """The sums along one spatial axis: of each window the elements of the whole axis that are inside of it."""
    where = x.rank - window.rank + axis
    size, low, kernel, stride = x.shape[where], window.low[axis], window.kernel[axis], window.strides[axis]
    places = to_dim(dims.floor_div(to_dim(low + size + window.high[axis] - kernel), stride) + 1)
    after = [1] * (x.rank - where - 1)
    starts = g.reshape(g.sub(g.mul(g.arange(0, places), stride), g.size_value(low)), [places, 1, *after])
    positions = g.reshape(g.arange(0, size), [1, size, *after])
    inside = g.binary("bitwise_and", g.binary("ge", positions, starts), g.binary("lt", positions, g.add(starts, kernel)))
    return g.sum(g.where(inside, g.unsqueeze(x, where), 0.0), [where + 1])


def lp(
    g: ProgramBuilder,
    x: Value,
    *,
    kernel_shape: Sequence[int] | None = None,
    p: float = 2,
    **pool: Unpack[PaddedAttributes],
) -> Value:
    """The ``p``-norm of each window, padding counting as zero.

    Source: ONNX LpPool.
    """
    check_spatial(x)
    if not kernel_shape:
        raise refuse("O2M-C005", "kernel_shape is missing", case="kernel_shape")
    window = pool_window(x, kernel_shape=kernel_shape, **pool)
    powers = _powers(g, g.cast(x, sum_dtype(x.dtype)), p)
    return g.cast(_root(g, _window_sums(g, powers, window), p), x.dtype)


def _powers(g: ProgramBuilder, x: Value, p: float) -> Value:
    if p == 2:
        return g.mul(x, x)
    magnitude = g.unary("abs", x)
    return magnitude if p == 1 else g.binary("pow", magnitude, float(p))


def _root(g: ProgramBuilder, sums: Value, p: float) -> Value:
    if p == 1:
        return sums
    return g.unary("sqrt", sums) if p == 2 else g.binary("pow", sums, 1.0 / p)


def global_pool(g: ProgramBuilder, x: Value, *, kind: str, p: float = 2) -> Value:
    """``x`` [N, C, *spatial] reduced to one element per plane: its ``average``, ``max`` or ``lp`` norm.

    Source: ONNX GlobalAveragePool, GlobalMaxPool, GlobalLpPool.
    """
    check_spatial(x)
    axes = list(range(2, x.rank))
    if kind == "max":
        return g.amax(x, axes, True)
    wide = g.cast(x, sum_dtype(x.dtype))
    result = g.mean(wide, axes, True) if kind == "average" else _root(g, g.sum(_powers(g, wide, p), axes, True), p)
    return g.cast(result, x.dtype)


def unpool(
    g: ProgramBuilder,
    x: Value,
    indices: Value,
    output_shape: Sizes | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """Every element of ``x`` at its position in a tensor of zeros, the reverse of MaxPool.

    Positions are those of the tensor whose sizes follow from the attributes; a larger ``output_shape`` only adds zeros.

    Source: ONNX MaxUnpool and its reference implementation.
    """
    check_spatial(x)
    rank = x.rank - 2
    steps, pads = list(strides or [1] * rank), list(pads or [0] * (2 * rank))
    if len(kernel_shape) != rank or len(steps) != rank or len(pads) != 2 * rank:
        raise refuse("O2M-C005", f"kernel_shape, strides and pads do not fit {rank} spatial axes")
    inner = [
        (size - 1) * steps[axis] - pads[axis] - pads[rank + axis] + kernel_shape[axis] for axis, size in enumerate(x.shape[2:])
    ]
    shape = [*x.shape[:2], *inner]
    flat = g.full([dims.product(shape)], 0, x.dtype)
    count = dims.product(x.shape)
    filled = g.call("aten.scatter.src", flat, 0, g.reshape(indices, [count]), g.reshape(x, [count]))
    result = g.reshape(filled, shape)
    if output_shape is None:
        return result
    if len(output_shape) != x.rank:
        raise refuse("O2M-C005", f"output_shape has {len(output_shape)} entries, not {x.rank}", case="output_shape")
    return g.pad(result, [0] * x.rank, [dims.to_dim(b - a) for a, b in zip(shape, output_shape, strict=True)])
