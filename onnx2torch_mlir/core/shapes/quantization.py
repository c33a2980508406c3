"""Shape rules of ``quantized_decomposed``: the operand's shape, in the dtype that an argument names.

PyTorch's implementations are the primitives' meaning (torch.ao.quantization.fx._decomposed). Numbers are dequantized as
ONNX does, (x - zero_point) * scale. They are quantized as round(x * (1 / scale)) + zero_point, where ONNX divides: who
converts from ONNX divides first and quantizes with a scale of 1. Per token and per group PyTorch adds the zero point before
it rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from onnx2torch_mlir.core.shapes.rules import TensorType, axis_of, rule
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder

NAMESPACE = "quantized_decomposed."


@rule(NAMESPACE + "quantize_per_tensor.default", NAMESPACE + "quantize_per_tensor.tensor")
@rule(NAMESPACE + "quantize_per_token.default")
def quantize(
    builder: ProgramBuilder,
    x: Value,
    scale: Any,
    zero_point: Any,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> TensorType:
    """The operand's shape in ``dtype``."""
    _float32(x)
    return TensorType(dtype, x.shape)


@rule(NAMESPACE + "dequantize_per_tensor.default", NAMESPACE + "dequantize_per_tensor.tensor")
def dequantize(
    builder: ProgramBuilder,
    x: Value,
    scale: Any,
    zero_point: Any,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> TensorType:
    """The operand's shape in ``out_dtype``, or float32."""
    return TensorType(out_dtype or torch.float32, x.shape)


@rule(NAMESPACE + "quantize_per_channel.default")
def quantize_per_channel(
    builder: ProgramBuilder,
    x: Value,
    scales: Value,
    zero_points: Value,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> TensorType:
    """The operand's shape in ``dtype``; one parameter for each slice along ``axis``."""
    _float32(x)
    builder.require_equal(scales.shape[0], x.shape[axis_of(axis, x.rank)], "channels of a scale")
    return TensorType(dtype, x.shape)


@rule(NAMESPACE + "dequantize_per_channel.default")
def dequantize_per_channel(
    builder: ProgramBuilder,
    x: Value,
    scales: Value,
    zero_points: Value | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> TensorType:
    """The operand's shape in ``out_dtype``, or float32; one parameter for each slice along ``axis``."""
    builder.require_equal(scales.shape[0], x.shape[axis_of(axis, x.rank)], "channels of a scale")
    return TensorType(out_dtype or torch.float32, x.shape)


@rule(NAMESPACE + "dequantize_per_token.default")
def dequantize_per_token(
    builder: ProgramBuilder,
    x: Value,
    scales: Value,
    zero_points: Value,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> TensorType:
    """The operand's shape in ``output_dtype``; one parameter for each row."""
    return TensorType(output_dtype, x.shape)


@rule(NAMESPACE + "quantize_per_channel_group.default")
def quantize_per_channel_group(
    builder: ProgramBuilder,
    x: Value,
    scales: Value,
    zero_points: Value,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
) -> TensorType:
    """The operand's shape [rows, columns] in ``dtype``; one parameter for ``group_size`` columns of a row."""
    _float32(x)
    return TensorType(dtype, x.shape)


@rule(NAMESPACE + "dequantize_per_channel_group.default")
def dequantize_per_channel_group(
    builder: ProgramBuilder,
    x: Value,
    scales: Value,
    zero_points: Value | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
    output_dtype: torch.dtype,
) -> TensorType:
    """The operand's shape [rows, columns] in ``output_dtype``; one parameter for ``group_size`` columns of a row."""
    return TensorType(output_dtype, x.shape)


def _float32(x: Value) -> None:
    if x.dtype is not torch.float32:
        raise refuse("O2M-C006", f"quantize_per_tensor of {x.dtype}")
