"""Softmax, log-softmax and layer normalization, composed of reductions and pointwise steps in float32 at least."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.hints import ANY_OF_NAN, NOT_POSITIVE
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import op_math
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import convert, elementwise, pointwise
from onnx2torch_mlir.lowering.reduction import count_of, reduce, squared_deviation
from onnx2torch_mlir.lowering.registry import rule


def _shifted_exp(ctx: Context, x: Operand, axis: int, wide: torch.dtype) -> tuple[Operand, Operand, Operand]:
    """(maximum, exp(x - maximum), sum of it), the reduced dim kept."""
    b = ctx.b
    # A NaN makes the sum NaN, whatever the maximum is then.
    top = reduce(ctx, x, [axis], "maximum", wide, keepdim=True, hint=ANY_OF_NAN)

    def body(element: ir.Value, maximum: ir.Value) -> ir.Value:
        power = b.same("math.exp", b.same("arith.subf", cast(b, element, x.dtype, wide), maximum))
        power.owner.attributes[NOT_POSITIVE] = ir.UnitAttr.get()
        return power

    powers = elementwise(ctx, Spec(wide, x.shape), [x, top], body)
    return top, powers, reduce(ctx, powers, [axis], "add", wide, keepdim=True)


@rule("aten._softmax.default")
def softmax(ctx: Context, node: Node, x: Operand, dim: int, half_to_float: bool = False) -> Operand:
    """exp(x - max) / sum(exp(x - max)) along ``dim``."""
    out = ctx.spec(node)
    wide = op_math(out.dtype)
    if x.rank == 0:
        return pointwise(ctx, out, "div", pointwise(ctx, Spec(wide, ()), "exp", x), pointwise(ctx, out, "exp", x))
    _, powers, total = _shifted_exp(ctx, x, dim % x.rank, wide)
    # The total is at least 1, so that its reciprocal is as good, and there are few of them.
    return pointwise(ctx, out, "mul", powers, pointwise(ctx, total.spec, "reciprocal", total))


@rule("aten._log_softmax.default")
def log_softmax(ctx: Context, node: Node, x: Operand, dim: int, half_to_float: bool = False) -> Operand:
    """x - max - log(sum(exp(x - max))) along ``dim``."""
    out = ctx.spec(node)
    wide = op_math(out.dtype)
    if x.rank == 0:
        return pointwise(ctx, out, "sub", x, x)
    b = ctx.b
    top, _, total = _shifted_exp(ctx, x, dim % x.rank, wide)
    logarithm = pointwise(ctx, total.spec, "log", total)

    def body(element: ir.Value, maximum: ir.Value, log_sum: ir.Value) -> ir.Value:
        shifted = b.same("arith.subf", cast(b, element, x.dtype, wide), maximum)
        return cast(b, b.same("arith.subf", shifted, log_sum), wide, out.dtype)

    return elementwise(ctx, out, [x, top, logarithm], body)


@rule("aten.native_layer_norm.default")
def native_layer_norm(
    ctx: Context,
    node: Node,
    x: Operand,
    normalized_shape: Sequence[Dim],
    weight: Operand | None,
    bias: Operand | None,
    eps: float,
) -> tuple[Operand, Operand, Operand]:
    """(normalized, mean, 1/standard deviation) over the last ``len(normalized_shape)`` dims."""
    out, mean_spec, rstd_spec = ctx.specs(node)
    b = ctx.b
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    wide = op_math(x.dtype)
    mean, centred, squares = squared_deviation(ctx, x, axes, wide)
    variance = pointwise(ctx, squares.spec, "div", squares, count_of(ctx, x, axes))
    rstd = elementwise(ctx, variance.spec, [variance], lambda v: _rsqrt(ctx, v, eps))
    affine = [p for p in (weight, bias) if p is not None]

    def body(element: ir.Value, scale: ir.Value, *parameters: ir.Value) -> ir.Value:
        value = b.same("arith.mulf", element, scale)
        given = list(zip(parameters, affine, strict=True))
        if weight is not None:
            parameter, operand = given.pop(0)
            value = b.same("arith.mulf", value, cast(b, parameter, operand.dtype, wide))
        if bias is not None:
            parameter, operand = given.pop(0)
            value = b.same("arith.addf", value, cast(b, parameter, operand.dtype, wide))
        return cast(b, value, wide, out.dtype)

    result = elementwise(ctx, out, [centred, rstd, *affine], body)
    return result, convert(ctx, mean, mean_spec.dtype), convert(ctx, rstd, rstd_spec.dtype)


def _rsqrt(ctx: Context, variance: ir.Value, eps: float) -> ir.Value:
    b = ctx.b
    shifted = b.same("arith.addf", variance, b.float_constant(eps, variance.type))
    return b.same("arith.divf", b.float_constant(1.0, variance.type), b.same("math.sqrt", shifted))
