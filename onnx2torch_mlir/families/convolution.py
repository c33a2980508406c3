"""Convolutions: Conv, ConvTranspose, ConvInteger, QLinearConv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.quantization import requantize
from onnx2torch_mlir.families.quantized_decomposed import is_zero
from onnx2torch_mlir.families.windows import (
    PaddedConvAttributes,
    check_auto_pad,
    check_spatial,
    pad_spatial,
    resolve,
    static_kernel,
)

MAX_SPATIAL = 3
"""``aten::convolution`` has kernels for one to three spatial axes."""


def convolve(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """``x`` [N, C, *spatial] convolved with ``w`` [M, C/group, *kernel], zeros around it, plus ``b`` [M].

    Source: ONNX Conv; ``aten::convolution``.

    Raises:
        Refusal: O2M-C003 for more than three spatial axes, O2M-C005/C006 where shapes and attributes contradict.
    """
    w = _checked(g, x, w, group, kernel_shape)
    window = resolve(x.shape[2:], w.shape[2:], strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad)
    g.require_equal(x.shape[1], to_dim(w.shape[1] * group), "channels of a convolution and its kernel")
    if b is not None:
        g.require_equal(b.shape[0], w.shape[0], "filters of a convolution and its bias")
    padding = window.symmetric
    if padding is None:
        x, padding = pad_spatial(g, x, window, 0), (0,) * window.rank
    result: Value = g.call(
        "aten.convolution.default",
        x,
        w,
        b,
        list(window.strides),
        list(padding),
        list(window.dilations),
        False,
        [0] * window.rank,
        group,
    )
    return result


def _checked(g: ProgramBuilder, x: Value, w: Value, group: int, kernel_shape: Sequence[int] | None) -> Value:
    """The kernel with its spatial sizes known where ``kernel_shape`` says them."""
    check_spatial(x)
    if w.rank != x.rank:
        raise refuse("O2M-C005", f"the input has rank {x.rank}, the kernel rank {w.rank}", case="rank")
    if x.rank - 2 > MAX_SPATIAL:
        raise refuse("O2M-C003", f"convolution over {x.rank - 2} spatial axes", case=f"rank={x.rank}")
    if group < 1 or (isinstance(w.shape[0], int) and w.shape[0] % group != 0):
        raise refuse("O2M-C005", f"{w.shape[0]} filters in {group} groups", case=f"group={group}")
    return with_kernel_shape(g, w, kernel_shape)


def with_kernel_shape(g: ProgramBuilder, w: Value, kernel_shape: Sequence[int] | None) -> Value:
    """``w`` [M, C, *kernel] with the spatial sizes ``kernel_shape``: a contradiction is refused, or fails at run time.

    Raises:
        Refusal: O2M-C005 for another number of axes, O2M-C006 for other sizes.
    """
    if not kernel_shape:
        return w
    if len(kernel_shape) != w.rank - 2:
        raise refuse("O2M-C005", f"kernel_shape={list(kernel_shape)} for a kernel of rank {w.rank}")
    for declared, size in zip(kernel_shape, w.shape[2:], strict=True):
        g.require_equal(size, declared, "size of the kernel and kernel_shape")
    known = all(isinstance(size, int) for size in w.shape[2:])
    return w if known else g.reshape(w, [*w.shape[:2], *kernel_shape])


def transpose(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[Dim] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:
    """``x`` [N, C, *spatial] by ``w`` [C, M/group, *kernel], every input cell spread over the output.

    Where padding is not what ``aten::convolution`` can express, the whole result is computed and then cropped.

    Source: ONNX ConvTranspose (its formulas for ``output_shape`` and ``auto_pad``); ``aten::convolution``.

    Raises:
        Refusal: as `convolve`.
    """
    w = _checked(g, x, w, group, kernel_shape)
    rank = x.rank - 2
    kernel = static_kernel(w.shape[2:])
    check_auto_pad(auto_pad)
    steps, spread = list(strides or [1] * rank), list(dilations or [1] * rank)
    extra, pads = list(output_padding or [0] * rank), list(pads or [0] * (2 * rank))
    if output_shape and len(output_shape) == rank + 2:
        output_shape = output_shape[2:]
    for name, items, count in (
        ("strides", steps, rank),
        ("dilations", spread, rank),
        ("output_padding", extra, rank),
        ("output_shape", output_shape or [0] * rank, rank),
        ("pads", pads, 2 * rank),
    ):
        if len(items) != count:
            raise refuse("O2M-C005", f"{name} has {len(items)} entries, {rank} spatial axes need {count}", case=name)
    low: list[Dim] = []
    high: list[Dim] = []
    for axis, size in enumerate(x.shape[2:]):
        whole = to_dim((size - 1) * steps[axis] + (kernel[axis] - 1) * spread[axis] + 1)
        head: Dim
        tail: Dim
        if output_shape:
            head, tail = _split(to_dim(whole + extra[axis] - output_shape[axis]), auto_pad)
        elif auto_pad.startswith("SAME"):
            total = to_dim(whole + extra[axis] - size * steps[axis])
            head, tail = _split(dims.maximum(0, total), auto_pad)
        else:
            head, tail = (0, 0) if auto_pad == "VALID" else (pads[axis], pads[rank + axis])
        low.append(head)
        high.append(to_dim(tail - extra[axis]))
    return _transposed(g, x, w, b, steps, spread, low, high, group)


def _split(total: Dim, auto_pad: str) -> tuple[Dim, Dim]:
    half = dims.floor_div(total, 2)
    rest = to_dim(total - half)
    return (half, rest) if auto_pad == "SAME_UPPER" else (rest, half)


def _transposed(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    b: Value | None,
    strides: list[int],
    dilations: list[int],
    low: list[Dim],
    high: list[Dim],
    group: int,
) -> Value:
    """The whole result without ``low`` and ``high`` cells at its ends (negative: with as many cells of the bias)."""
    expressible = all(
        isinstance(head, int) and isinstance(tail, int) and head >= 0 and 0 <= head - tail < max(stride, dilation)
        for head, tail, stride, dilation in zip(low, high, strides, dilations, strict=True)
    )
    rank = len(strides)
    padding: list[Dim] = low if expressible else [0] * rank
    surplus = [to_dim(head - tail) for head, tail in zip(low, high, strict=True)] if expressible else [0] * rank
    beyond = not expressible and not all(dims.is_nonnegative(item) for item in (*low, *high))
    bias = None if beyond else b
    result: Value = g.call("aten.convolution.default", x, w, bias, strides, padding, dilations, True, surplus, group)
    if not expressible:
        result = g.pad(result, [0, 0, *(to_dim(-item) for item in low)], [0, 0, *(to_dim(-item) for item in high)])
    if beyond and b is not None:
        result = g.add(result, g.reshape(b, [b.shape[0], *[1] * rank]))
    return result


def integer(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    x_zero_point: Value | None = None,
    w_zero_point: Value | None = None,
    **window: Unpack[PaddedConvAttributes],
) -> Value:
    """8-bit operands less their zero points, convolved exactly in int32; ``w_zero_point`` is one or one per filter.

    Source: ONNX ConvInteger. Padding is the zero point, so zero here.
    """
    check_spatial(x)
    return convolve(
        g,
        _centered(g, x, x_zero_point, False),
        _centered(g, w, w_zero_point, True),
        **window,
    )


def _centered(g: ProgramBuilder, x: Value, zero_point: Value | None, by_filter: bool) -> Value:
    wide = g.cast(x, torch.int32)
    if zero_point is None or is_zero(zero_point):
        return wide
    return g.sub(wide, g.cast(_scalar_or_filters(g, zero_point, x.rank, by_filter), torch.int32))


def _scalar_or_filters(g: ProgramBuilder, value: Value, rank: int, by_filter: bool) -> Value:
    """A parameter that is one number, or one per filter along the first axis of ``rank``."""
    if value.rank == 0:
        return value
    if not by_filter or value.shape[0] == 1:
        return g.reshape(value, [])
    return g.reshape(value, [value.shape[0], *[1] * (rank - 1)])


def quantized(
    g: ProgramBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    w: Value,
    w_scale: Value,
    w_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    b: Value | None = None,
    **window: Unpack[PaddedConvAttributes],
) -> Value:
    """An exact int32 convolution, rescaled by x_scale * w_scale / y_scale in float32, rounded to even and saturated.

    Source: ONNX QLinearConv; the order of the float operations is onnxruntime's.
    """
    check_spatial(x)
    sums = convolve(
        g,
        _centered(g, x, x_zero_point, False),
        _centered(g, w, w_zero_point, True),
        b,
        **window,
    )
    weight_scale = _scalar_or_filters(g, w_scale, x.rank - 1, True)
    scale = g.mul(_scalar_or_filters(g, x_scale, x.rank, False), weight_scale)
    scale = g.div(scale, _scalar_or_filters(g, y_scale, x.rank, False))
    zero = _scalar_or_filters(g, y_zero_point, x.rank, False)
    return requantize(g, sums, scale, zero, y_zero_point.dtype)
