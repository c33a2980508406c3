"""Linear quantization: scales and zero points per tensor, along an axis, or by blocks of one.

`quantize` and `dequantize` take parameters as ONNX's operators have them; `requantize` takes integer sums and a factor
that broadcasts; `dynamic_quantize` finds the parameters in the data. Products of quantized matrices are
`matmul.matmul_integer`. What ``torch.ops.quantized_decomposed`` says exactly is said by it, the rest in pointwise
primitives; the numbers are ONNX's either way.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.narrow import NARROW
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import quantized_decomposed as decomposed
from onnx2torch_mlir.families.cast import cast_to
from onnx2torch_mlir.families.dtypes import describe, is_integer
from onnx2torch_mlir.families.narrow import numbers


def dequantize(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: torch.dtype | None = None,
) -> Value:
    """(x - zero_point) * scale, computed in float32, in ``dtype`` (the scale's unless it is given).

    ``x`` is of any element type, of less than a byte too. ``scale`` is one number, or one per slice along ``axis``, or
    (of the rank of ``x``, with ``block_size``) one per block of as many elements along ``axis``, the last of which may be
    shorter; ``zero_point`` likewise. Source: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html.

    Raises:
        Refusal: O2M-C005, O2M-C006 for parameters that do not fit ``x``.
    """
    result = decomposed.dequantize(g, x, scale, zero_point, axis, block_size)
    if result is None:
        offset = None if zero_point is None else spread(g, zero_point, x, axis, block_size)
        result = dequantized(g, x, spread(g, scale, x, axis, block_size), offset)
    return g.cast(result, dtype or scale.dtype)


def quantize(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: torch.dtype = torch.uint8,
    element: str = "",
    precision: torch.dtype | None = None,
    saturate: bool = True,
) -> Value:
    """round(x / scale) + zero_point within the range of the result; halves go to the even neighbour.

    Parameters are as in `dequantize`. The result has the zero point's element type, or without one ``dtype`` (holding
    ``element``). The quotient is computed in float32 and rounded to ``precision`` where that is given.
    Source: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html.

    Raises:
        Refusal: O2M-C003 for a dtype that numbers are not quantized to, O2M-C005, O2M-C006 for parameters that do not fit.
    """
    if zero_point is not None:
        dtype, element = zero_point.dtype, zero_point.element
    compute = torch.float64 if torch.float64 in (x.dtype, scale.dtype) else torch.float32
    number = decomposed.known_number(scale)
    divisor = spread(g, scale, x, axis, block_size) if number is None else g.scalar(number, compute)
    quotient = g.div(g.cast(x, compute), g.cast(divisor, compute))
    if precision is not None:
        quotient = g.cast(g.cast(quotient, precision), compute)
    result = decomposed.quantize(g, quotient, zero_point, axis, dtype, element)
    if result is None:
        offset = None if zero_point is None else spread(g, zero_point, x, axis, block_size)
        result = saturated(g, quotient, offset, dtype, element=element, saturate=saturate)
    return result


def requantize(
    g: ProgramBuilder, sums: Value, factor: Value, zero_point: Value | None, dtype: torch.dtype, element: str = ""
) -> Value:
    """round(sums * factor) + zero_point within the range of ``dtype``: what onnxruntime does with int32 sums.

    ``factor`` (float32) and ``zero_point`` broadcast to ``sums``.
    """
    rescaled = g.mul(g.cast(sums, torch.float32), factor)
    whole = zero_point is None or all(size == 1 for size in zero_point.shape)
    result = decomposed.quantize(g, rescaled, zero_point, 0, dtype, element) if whole else None
    return result or saturated(g, rescaled, zero_point, dtype, element=element)


def dynamic_quantize(g: ProgramBuilder, x: Value) -> tuple[Value, Value, Value]:
    """``x`` (float32) in uint8 over the range from its least to its greatest element and 0; its scale and zero point.

    Source: https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html; as in onnxruntime the scale of nothing but
    zeros is 1.
    """
    axes = list(range(x.rank))
    low, high = g.minimum(g.amin(x, axes), 0.0), g.maximum(g.amax(x, axes), 0.0)
    span = g.div(g.sub(high, low), 255.0)
    scale = g.where(g.binary("eq", span, 0.0), 1.0, span)
    zero_point = saturated(g, g.div(g.unary("neg", low), scale), None, torch.uint8)
    return quantize(g, x, scale, zero_point), scale, zero_point


def spread(g: ProgramBuilder, parameter: Value, x: Value, axis: int, block_size: int = 0) -> Value:
    """A scale or zero point shaped to broadcast against ``x``.

    One element is for the whole tensor, rank 1 lies along ``axis``, the rank of ``x`` is by blocks of ``block_size``
    along ``axis``. Source: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html.

    Raises:
        Refusal: O2M-C005 where the axis is out of range, O2M-C006 for another rank.
    """
    if parameter.rank == 0:
        return parameter
    if all(size == 1 for size in parameter.shape) and not block_size:
        return g.reshape(parameter, [])
    if not -x.rank <= axis < x.rank:
        raise refuse("O2M-C005", f"axis {axis} is out of range for rank {x.rank}", case="axis")
    axis %= x.rank
    if parameter.rank == x.rank and block_size:
        return _by_blocks(g, parameter, x, axis, block_size)
    if parameter.rank == 1 and not block_size:
        return g.reshape(parameter, [parameter.shape[0] if other == axis else 1 for other in range(x.rank)])
    reason = f"a scale of rank {parameter.rank} for data of rank {x.rank} with block_size={block_size}"
    raise refuse("O2M-C006", reason, case="scale")


def _by_blocks(g: ProgramBuilder, parameter: Value, x: Value, axis: int, block_size: int) -> Value:
    shape = list(parameter.shape)
    repeated = g.expand(g.unsqueeze(parameter, axis + 1), [*shape[: axis + 1], block_size, *shape[axis + 1 :]])
    whole = D.to_dim(shape[axis] * block_size)
    flat = g.reshape(repeated, [*shape[:axis], whole, *shape[axis + 1 :]])
    g.require_equal(D.ceil_div(x.shape[axis], block_size), shape[axis], "number of blocks of a scale")
    return g.slice(flat, axis, 0, x.shape[axis])


def in_float32(g: ProgramBuilder, x: Value) -> Value:
    """The numbers of ``x`` in float32; a float64 stays."""
    x = numbers(g, x)
    return g.cast(x, torch.float64 if x.dtype is torch.float64 else torch.float32)


def dequantized(g: ProgramBuilder, x: Value, scale: Value, zero_point: Value | None) -> Value:
    """(x - zero_point) * scale in float32; parameters broadcast to ``x``."""
    if zero_point is None:
        return g.mul(in_float32(g, x), in_float32(g, scale))
    if x.dtype is torch.int32:
        centered = in_float32(g, g.sub(x, zero_point))
    else:
        centered = g.sub(in_float32(g, x), in_float32(g, zero_point))
    return g.mul(centered, in_float32(g, scale))


def saturated(
    g: ProgramBuilder,
    x: Value,
    zero_point: Value | None,
    dtype: torch.dtype,
    *,
    element: str = "",
    saturate: bool = True,
) -> Value:
    """``x`` (float32), rounded half to even, plus ``zero_point``, within the range of ``dtype``, or of ``element``.

    Raises:
        Refusal: O2M-C003 for a dtype that numbers are not quantized to.
    """
    narrow = NARROW.get(element)
    is_float = not is_integer(dtype) if narrow is None else narrow.is_float
    if dtype.itemsize > (1 if is_float else 2):
        raise refuse("O2M-C003", f"quantization to {describe(dtype)}", case=describe(dtype))
    if is_float:
        shifted = x if zero_point is None else g.add(x, in_float32(g, zero_point))
        return cast_to(g, shifted, dtype, element=element, saturate=saturate)
    rounded = g.unary("round", x)
    if zero_point is not None:
        rounded = g.add(rounded, in_float32(g, zero_point))
    limits = torch.iinfo(dtype)
    low, high = (limits.min, limits.max) if narrow is None else narrow.range
    return g.cast(g.call("aten.clamp.default", rounded, float(low), float(high)), dtype).tagged(element)
