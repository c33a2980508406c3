"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and the quantized matrix product."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import narrow_element, torch_dtype
from onnx2torch_mlir.families.matmul import along, shifted
from onnx2torch_mlir.families.quantization import dequantized, saturated, spread


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
    parameters = [None if item is None else spread(g, item, x, axis, block_size) for item in (scale, zero_point)]
    assert parameters[0] is not None
    dtype = torch_dtype(output_dtype) if output_dtype else scale.dtype
    return g.cast(dequantized(g, x, parameters[0], parameters[1]), dtype)


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
    elif zero_point is not None:
        dtype, element = zero_point.dtype, zero_point.element
    if zero_point is not None and (zero_point.dtype, zero_point.element) != (dtype, element):
        raise refuse("O2M-C005", "output_dtype is not the element type of the zero point", case="output_dtype")
    compute = torch.float64 if torch.float64 in (x.dtype, scale.dtype) else torch.float32
    divisor = g.cast(spread(g, scale, x, axis, block_size), compute)
    quotient = g.div(g.cast(x, compute), divisor)
    if precision:
        quotient = g.cast(g.cast(quotient, torch_dtype(precision)), compute)
    offset = None if zero_point is None else spread(g, zero_point, x, axis, block_size)
    return saturated(g, quotient, offset, dtype, element=element, saturate=bool(saturate))


def dynamic_quantize_linear(g: ProgramBuilder, x: Value) -> tuple[Value, Value, Value]:
    """``x`` in uint8 over the range from its least to its greatest element and 0; scale and zero point.

    Source: https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html; as in onnxruntime the scale of nothing but
    zeros is 1.
    """
    axes = list(range(x.rank))
    low, high = g.minimum(g.amin(x, axes), 0.0), g.maximum(g.amax(x, axes), 0.0)
    span = g.div(g.sub(high, low), 255.0)
    scale = g.where(g.binary("eq", span, 0.0), 1.0, span)
    zero_point = saturated(g, g.div(g.unary("neg", low), scale), None, torch.uint8)
    return saturated(g, g.div(x, scale), zero_point, torch.uint8), scale, zero_point


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
    product = g.matmul(shifted(g, a, a_zero_point, -2), shifted(g, b, b_zero_point, -1))
    of_a, of_b, of_y = (
        g.cast(along(g, item, a, axis), torch.float32) for item, axis in ((a_scale, -2), (b_scale, -1), (y_scale, -2))
    )
    factor = g.div(g.mul(of_a, of_b), of_y)
    rescaled = g.mul(g.cast(product, torch.float32), factor)
    return saturated(g, rescaled, along(g, y_zero_point, a, -2), y_zero_point.dtype)
