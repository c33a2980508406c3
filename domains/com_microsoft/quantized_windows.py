"""Convolutions and pools of quantized images, which may have their channels last.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Unpack

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.domains.com_microsoft.quantized_pointwise import number
from onnx2torch_mlir.families import convolution, pooling
from onnx2torch_mlir.families.matmul import shifted
from onnx2torch_mlir.families.quantization import dequantize, requantize, saturated
from onnx2torch_mlir.families.windows import (
    PaddedConvAttributes,
    PoolAttributes,
    check_spatial,
    pad_spatial,
    pool_window,
)


def channels_first(g: ProgramBuilder, x: Value, channels_last: int) -> Value:
    """``x`` as [N, C, *spatial]."""
    return g.permute(x, [0, x.rank - 1, *range(1, x.rank - 1)]) if channels_last else x


def channels_back(g: ProgramBuilder, x: Value, channels_last: int) -> Value:
    """``x`` [N, C, *spatial] as it was before `channels_first`."""
    return g.permute(x, [0, *range(2, x.rank), 1]) if channels_last else x


def conv(
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
    *,
    channels_last: int = 0,
    **window: Unpack[PaddedConvAttributes],
) -> Value:
    """QLinearConv; with ``channels_last`` of [N, *spatial, C], the weights stay [M, C/group, *kernel]."""
    check_spatial(x)
    result = convolution.quantized(
        g,
        channels_first(g, x, channels_last),
        x_scale,
        x_zero_point,
        w,
        w_scale,
        w_zero_point,
        y_scale,
        y_zero_point,
        b,
        **window,
    )
    return channels_back(g, result, channels_last)


def average_pool(
    g: ProgramBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    channels_last: int = 0,
    count_include_pad: int = 0,
    **pool: Unpack[PoolAttributes],
) -> Value:
    """The mean of each window of the numbers that ``x`` stands for.

    With ``count_include_pad`` it is always the mean of a whole kernel, cells that only ``ceil_mode`` reaches included. The
    zero point is added before rounding.
    """
    check_spatial(x)
    numbers = dequantize(g, channels_first(g, x, channels_last), x_scale, x_zero_point)
    if count_include_pad:
        numbers = pad_spatial(g, numbers, pool_window(numbers, **pool), 0)
        pool = {"kernel_shape": pool["kernel_shape"], "strides": pool.get("strides")}
    means = pooling.average(g, numbers, **pool)
    result = g.add(g.div(means, number(g, y_scale)), number(g, y_zero_point))
    return channels_back(g, saturated(g, result, None, x.dtype), channels_last)


def global_average_pool(
    g: ProgramBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    *,
    channels_last: int = 0,
) -> Value:
    """The mean of each plane: sums in int32, rescaled by x_scale / (y_scale * cells)."""
    check_spatial(x)
    axes = list(range(1, x.rank - 1)) if channels_last else list(range(2, x.rank))
    centered = shifted(g, x, g.reshape(x_zero_point, []), -1)
    sums = g.sum(centered, axes, True, dtype=torch.int32)
    cells = g.size_value(D.product(x.shape[axis] for axis in axes), torch.float32)
    factor = g.div(number(g, x_scale), g.mul(number(g, y_scale), cells))
    return requantize(g, sums, factor, g.reshape(y_zero_point, []), y_zero_point.dtype)
