"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and the quantized matrix product."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import narrow_element, torch_dtype
from onnx2torch_mlir.families.matmul import along, matmul_integer
from onnx2torch_mlir.families.quantization import dequantize, dynamic_quantize, quantize, requantize


def dequantize_linear(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """(x - zero_point) * scale, in the scale's dtype or ``output_dtype``."""
    dtype = torch_dtype(output_dtype) if output_dtype else None
    return dequantize(g, x, scale, zero_point, axis=axis, block_size=block_size, dtype=dtype)


def quantize_linear(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Value:
    """round(x / scale) + zero_point, within the range of the result.

    The result has the zero point's dtype, or ``output_dtype``, or uint8. The quotient is computed in float32 and
    rounded to ``precision`` where that is given.

    Raises:
        Refusal: O2M-C005 where zero point and ``output_dtype`` contradict each other.
    """
    dtype, element = torch.uint8, ""
    if output_dtype:
        dtype, element = torch_dtype(output_dtype), narrow_element(output_dtype)
        if zero_point is not None and (zero_point.dtype, zero_point.element) != (dtype, element):
            raise refuse("O2M-C005", "output_dtype is not the element type of the zero point", case="output_dtype")
    return quantize(
        g,
        x,
        scale,
        zero_point,
        axis=axis,
        block_size=block_size,
        dtype=dtype,
        element=element,
        precision=torch_dtype(precision) if precision else None,
        saturate=bool(saturate),
    )


def dynamic_quantize_linear(g: ProgramBuilder, x: Value) -> tuple[Value, Value, Value]:
    """``x`` in uint8, its scale and its zero point."""
    return dynamic_quantize(g, x)


def qlinear_matmul(
    g: ProgramBuilder,
    a: Value,
    a_scale: Value,
    a_zero_point: Value,
    b: Value,
    b_scale: Value,
    b_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
) -> Value:
    """The product of quantized matrices, quantized; parameters per tensor, row of ``a`` or column of ``b``."""
    product = matmul_integer(g, a, b, a_zero_point, b_zero_point)
    of_a, of_b, of_y = (
        g.cast(along(g, item, a, axis), torch.float32) for item, axis in ((a_scale, -2), (b_scale, -1), (y_scale, -2))
    )
    factor = g.div(g.mul(of_a, of_b), of_y)
    return requantize(g, product, factor, along(g, y_zero_point, a, -2), y_zero_point.dtype)
