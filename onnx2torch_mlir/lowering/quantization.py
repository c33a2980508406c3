"""Rules of ``quantized_decomposed``, with PyTorch's meaning; see `core.shapes.quantization`."""

from __future__ import annotations

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import floor_div
from onnx2torch_mlir.lowering.builder import Builder
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import Kind, kind
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import convert, elementwise
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.scaled import Parameter, Scaled, constant, each, vector
from onnx2torch_mlir.lowering.shapes import reshape

_NAME = "quantized_decomposed."


@rule(_NAME + "dequantize_per_tensor.default", _NAME + "dequantize_per_tensor.tensor")
def dequantize_per_tensor(
    ctx: Context,
    node: Node,
    x: Operand,
    scale: Operand | float,
    zero_point: Operand | int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Operand:
    """(x - zero_point) * scale."""
    factor = _parameter(ctx, scale, torch.float32)
    offset = _parameter(ctx, zero_point, torch.int32)
    return _dequantized(ctx, node, x, factor, offset)


@rule(_NAME + "dequantize_per_channel.default")
def dequantize_per_channel(
    ctx: Context,
    node: Node,
    x: Operand,
    scales: Operand,
    zero_points: Operand | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Operand:
    """(x - zero_points) * scales, parameters along ``axis``."""
    axis %= x.rank
    ctx.require_equal(scales.shape[0], x.shape[axis], "channels of a scale")
    factor = Parameter(vector(ctx, scales, torch.float32), torch.float32, axis)
    offset = None if zero_points is None else Parameter(vector(ctx, zero_points, torch.int32), torch.int32, axis)
    return _dequantized(ctx, node, x, factor, offset)


def _dequantized(ctx: Context, node: Node, x: Operand, factor: Parameter, offset: Parameter | None) -> Operand:
    if x.dtype.itemsize < 4 and kind(x.dtype) is not Kind.FLOAT:
        return _in(ctx, node, Scaled(ctx, x, offset, (factor,)))
    if x.dtype is torch.int32 and (offset is None or offset.number == 0):
        return _in(ctx, node, Scaled(ctx, x, None, (factor,)))
    b = ctx.b
    parameters = [factor] if offset is None else [factor, offset]

    def body(element: ir.Value, scale: ir.Value, *zero: ir.Value) -> ir.Value:
        number = cast(b, element, x.dtype, torch.float32)
        for item in zero:
            number = b.same("arith.subf", number, cast(b, item, torch.int32, torch.float32))
        return b.same("arith.mulf", number, scale)

    return _in(ctx, node, each(ctx, Spec(torch.float32, x.shape), x, parameters, body))


def _in(ctx: Context, node: Node, x: Operand) -> Operand:
    return convert(ctx, x, ctx.spec(node).dtype)


@rule(_NAME + "dequantize_per_token.default")
def dequantize_per_token(
    ctx: Context,
    node: Node,
    x: Operand,
    scales: Operand,
    zero_points: Operand,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Operand:
    """(x - zero_points) * scales; parameters [..., 1]."""
    return _broadcast_dequantized(ctx, node, x, scales, zero_points)


def _broadcast_dequantized(
    ctx: Context, node: Node, x: Operand, scales: Operand, zero_points: Operand | None
) -> Operand:
    b, out = ctx.b, ctx.spec(node)
    compute = torch.float64 if scales.dtype is torch.float64 else torch.float32
    operands = [x, scales] if zero_points is None else [x, scales, zero_points]

    def body(element: ir.Value, scale: ir.Value, *zero: ir.Value) -> ir.Value:
        number = cast(b, element, x.dtype, compute)
        for item in zero:
            assert zero_points is not None
            number = b.same("arith.subf", number, cast(b, item, zero_points.dtype, compute))
        number = b.same("arith.mulf", number, cast(b, scale, scales.dtype, compute))
        return cast(b, number, compute, out.dtype)

    return elementwise(ctx, Spec(out.dtype, x.shape), operands, body)


@rule(_NAME + "dequantize_per_channel_group.default")
def dequantize_per_channel_group(
    ctx: Context,
    node: Node,
    x: Operand,
    scales: Operand,
    zero_points: Operand | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
    output_dtype: torch.dtype,
) -> Operand:
    """(x - zero_points) * scales; parameters [rows, columns / group_size]."""
    groups = _grouped(ctx, x, group_size)
    spread = [None if p is None else reshape(ctx, p, (*groups.shape[:2], 1)) for p in (scales, zero_points)]
    assert spread[0] is not None
    return reshape(ctx, _broadcast_dequantized(ctx, node, groups, spread[0], spread[1]), x.shape)


def _grouped(ctx: Context, x: Operand, group_size: int) -> Operand:
    rows, columns = x.shape
    return reshape(ctx, x, (rows, floor_div(columns, group_size), group_size))


@rule(_NAME + "quantize_per_tensor.default", _NAME + "quantize_per_tensor.tensor")
def quantize_per_tensor(
    ctx: Context,
    node: Node,
    x: Operand,
    scale: Operand | float,
    zero_point: Operand | int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Operand:
    """round(x * (1 / scale)) + zero_point, between ``quant_min`` and ``quant_max``; NaN gives ``quant_min``."""
    x = convert(ctx, x, torch.float32)
    parameters = [_parameter(ctx, zero_point, torch.int32)]
    inverse = _reciprocal(ctx, scale)
    parameters += [inverse] if inverse.number != 1.0 else []
    return _quantized(ctx, ctx.spec(node), x, parameters, quant_min, quant_max)


@rule(_NAME + "quantize_per_channel.default")
def quantize_per_channel(
    ctx: Context,
    node: Node,
    x: Operand,
    scales: Operand,
    zero_points: Operand,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Operand:
    """round(x * (1 / scales)) + zero_points, parameters along ``axis``."""
    axis %= x.rank
    b = ctx.b
    ctx.require_equal(scales.shape[0], x.shape[axis], "channels of a scale")
    one = constant(ctx, 1.0, torch.float32)
    inverse = each(
        ctx,
        Spec(torch.float32, scales.shape),
        Operand(torch.float32, scales.shape, vector(ctx, scales, torch.float32)),
        [one],
        lambda scale, unit: b.same("arith.divf", unit, scale),
    )
    offset = Parameter(vector(ctx, zero_points, torch.int32), torch.int32, axis)
    parameters = [offset, Parameter(inverse.value, torch.float32, axis)]
    return _quantized(ctx, ctx.spec(node), convert(ctx, x, torch.float32), parameters, quant_min, quant_max)


def _quantized(ctx: Context, out: Spec, x: Operand, parameters: list[Parameter], low: int, high: int) -> Operand:
    b = ctx.b

    def body(element: ir.Value, zero: ir.Value, *inverse: ir.Value) -> ir.Value:
        for factor in inverse:
            element = b.same("arith.mulf", element, factor)
        rounded = b.same("math.roundeven", element)
        return bounded(b, b.same("arith.addf", rounded, cast(b, zero, torch.int32, torch.float32)), low, high, out.dtype)

    return each(ctx, out, x, parameters, body)


def bounded(b: Builder, number: ir.Value, low: int, high: int, dtype: torch.dtype) -> ir.Value:
    """A whole float32 between two numbers as an integer of ``dtype``; NaN gives ``low``, as in onnxruntime's kernels."""
    bottom, top = (b.float_constant(float(bound), number.type) for bound in (low, high))
    number = b.select(b.compare("ogt", number, bottom), number, bottom)
    number = b.select(b.compare("olt", number, top), number, top)
    if dtype.itemsize > 2:
        return cast(b, number, torch.float32, dtype)
    whole = b.make("arith.fptosi", b.element(torch.int32), number)
    return b.make("arith.trunci", b.element(dtype), whole)


@rule(_NAME + "quantize_per_token.default")
def quantize_per_token(
    ctx: Context,
    node: Node,
    x: Operand,
    scales: Operand,
    zero_points: Operand,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> Operand:
    """round(x * (1 / scales) + zero_points); parameters [..., 1]."""
    return _broadcast_quantized(ctx, ctx.spec(node), x, scales, zero_points, quant_min, quant_max)


@rule(_NAME + "quantize_per_channel_group.default")
def quantize_per_channel_group(
    ctx: Context,
    node: Node,
    x: Operand,
    scales: Operand,
    zero_points: Operand,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int,
) -> Operand:
    """round(x * (1 / scales) + zero_points); parameters [rows, columns / group_size]."""
    groups = _grouped(ctx, x, group_size)
    factor, offset = (reshape(ctx, p, (*groups.shape[:2], 1)) for p in (scales, zero_points))
    out = Spec(ctx.spec(node).dtype, groups.shape)
    return reshape(ctx, _broadcast_quantized(ctx, out, groups, factor, offset, quant_min, quant_max), x.shape)


def _broadcast_quantized(
    ctx: Context, out: Spec, x: Operand, scales: Operand, zero_points: Operand, low: int, high: int
) -> Operand:
    b = ctx.b
    compute = torch.float64 if torch.float64 in (scales.dtype, zero_points.dtype) else torch.float32

    def body(element: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
        inverse = b.same("arith.divf", b.constant(1.0, compute), cast(b, scale, scales.dtype, compute))
        number = b.same("arith.mulf", cast(b, element, x.dtype, compute), inverse)
        number = b.same("arith.addf", number, cast(b, zero, zero_points.dtype, compute))
        rounded = cast(b, b.same("math.roundeven", number), compute, torch.float32)
        return bounded(b, rounded, low, high, out.dtype)

    return elementwise(ctx, out, [x, scales, zero_points], body)


def _parameter(ctx: Context, given: Operand | float | int, dtype: torch.dtype) -> Parameter:
    if not isinstance(given, Operand):
        return constant(ctx, given, dtype)
    return Parameter(cast(ctx.b, _only(ctx, given), given.dtype, dtype), dtype)


def _only(ctx: Context, x: Operand) -> ir.Value:
    return ctx.at(x, [ctx.b.idx(0)] * x.rank)


def _reciprocal(ctx: Context, scale: Operand | float) -> Parameter:
    """1 / scale of a float64, in float32."""
    if not isinstance(scale, Operand):
        return constant(ctx, 1.0 / scale if scale else float("inf"), torch.float32)
    b = ctx.b
    wide = cast(b, _only(ctx, scale), scale.dtype, torch.float64)
    inverse = b.same("arith.divf", b.constant(1.0, torch.float64), wide)
    return Parameter(cast(b, inverse, torch.float64, torch.float32), torch.float32)
