"""Pointwise primitives on the integers of what is dequantized, and how sums are quantized again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import Kind, int_range, kind
from onnx2torch_mlir.lowering.integer_forms import form, known_number
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import elementwise
from onnx2torch_mlir.lowering.scaled import Parameter, Scaled, combined, constant, each, factors_of, vector
from onnx2torch_mlir.lowering.shapes import reshape

_NARROW = (torch.int8, torch.uint8)


@form("aten._to_copy.default")
def to_copy(ctx: Context, node: Node, x: Any, **_: Any) -> Scaled | None:
    """Integers of a byte that are widened to int32 stay as they are until something needs them wide."""
    narrow = isinstance(x, Operand) and not isinstance(x, Scaled) and x.dtype in _NARROW
    return Scaled(ctx, x, None, ()) if narrow and ctx.spec(node).dtype is torch.int32 else None


@form("aten.sub.Tensor")
def sub(ctx: Context, node: Node, x: Any, y: Any, alpha: Any = 1) -> Scaled | None:
    """A zero point subtracted from widened integers."""
    if not isinstance(x, Scaled) or x.factors or x.zero is not None or alpha != 1 or not isinstance(y, Operand):
        return None
    if ctx.spec(node).shape != x.shape:
        return None
    zero = _parameter(ctx, node.args[1], y, torch.int32, x.rank)
    return None if zero is None else Scaled(ctx, x.codes, zero, ())


def _parameter(ctx: Context, source: Any, given: Operand, dtype: torch.dtype, rank: int) -> Parameter | None:
    """``given``, which broadcasts to a tensor of ``rank``, as a parameter: one element, or elements along one axis."""
    number = known_number(source)
    if number is not None:
        return constant(ctx, number, dtype)
    long = [a for a, size in enumerate(given.shape) if size != 1]
    if not long:
        element = ctx.at(given, [ctx.b.idx(0)] * given.rank)
        return Parameter(cast(ctx.b, element, given.dtype, dtype), dtype)
    if len(long) > 1 or given.rank > rank:
        return None
    flat = reshape(ctx, given, [given.shape[long[0]]])
    return Parameter(vector(ctx, flat, dtype), dtype, rank - given.rank + long[0])


@form("aten.div.Tensor", "aten.div.Scalar")
def div(ctx: Context, node: Node, x: Any, y: Any) -> Scaled | None:
    """Division by the scale with which all that use the result quantize it: one factor for sums, 1 for the same scale."""
    if not isinstance(x, Scaled) or not x.factors or ctx.spec(node).shape != x.shape:
        return None
    if not node.users or not all("quantized_decomposed.quantize_" in str(user.target) for user in node.users):
        return None
    if isinstance(y, int | float):
        divisor: Parameter | None = constant(ctx, y, torch.float32)
    else:
        divisor = _parameter(ctx, node.args[1], y, torch.float32, x.rank) if isinstance(y, Operand) else None
    if divisor is None:
        return None
    if x.summed:
        factors = factors_of(ctx, "divf", x.factors, divisor)
        return Scaled(ctx, x.codes, x.zero, factors, summed=True) if factors else None
    same = x.number is not None and x.number == divisor.number and _is_normal(x.number)
    return Scaled(ctx, x.codes, x.zero, (constant(ctx, 1.0, torch.float32),)) if same else None


def _is_normal(scale: float) -> bool:
    """Whether 16-bit integers times ``scale``, divided by it again, are what they were, but for rounding."""
    return 1e-30 < scale < 1e30


@form("quantized_decomposed.quantize_per_tensor.default")
def quantize(
    ctx: Context, node: Node, x: Any, scale: float, zero_point: int, low: int, high: int, dtype: torch.dtype
) -> Operand | None:
    """Integers of the scale with which they are quantized: only another zero point and other limits."""
    if not isinstance(x, Scaled) or x.number is None or x.summed or x.codes.dtype.itemsize > 2:
        return None
    if x.number != constant(ctx, scale, torch.float32).number or not _is_normal(x.number):
        return None
    if x.zero is not None and x.zero.axis is not None:
        return None
    full = int_range(x.codes.dtype)
    if x.offset == zero_point and x.codes.dtype is dtype and low <= full[0] and full[1] <= high:
        return x.codes
    b = ctx.b
    shift = b.constant(zero_point, torch.int32)
    if x.zero is not None:
        shift = b.same("arith.subi", shift, x.zero.value)
    bottom, top = b.constant(low, torch.int32), b.constant(high, torch.int32)

    def body(code: ir.Value) -> ir.Value:
        number = b.same("arith.addi", cast(b, code, x.codes.dtype, torch.int32), shift)
        return cast(b, b.same("arith.minsi", b.same("arith.maxsi", number, bottom), top), torch.int32, dtype)

    return each(ctx, ctx.spec(node), x.codes, (), body)


@form("aten.relu.default")
def relu(ctx: Context, node: Node, x: Any) -> Scaled | None:
    """No integer below the zero point, if the scale is positive."""
    if not isinstance(x, Scaled) or x.number is None or x.number <= 0 or x.offset is None:
        return None
    if x.codes.dtype.itemsize > 4:
        return None
    b, zero = ctx.b, ctx.b.constant(x.offset, x.codes.dtype)
    name = "arith.maxsi" if kind(x.codes.dtype) is Kind.SIGNED else "arith.maxui"
    return x.with_codes(each(ctx, x.codes.spec, x.codes, (), lambda code: b.same(name, code, zero)))


@form("aten.add.Tensor")
def add(ctx: Context, node: Node, x: Any, y: Any, alpha: Any = 1) -> Scaled | None:
    """The sum of integers of one scale, in int32; also a bias, which has the scale of the sums that it is added to."""
    pair = [v for v in (x, y) if isinstance(v, Scaled) and v.factors and v.is_whole]
    if len(pair) < 2 or alpha != 1 or pair[0].number is None or pair[0].number != pair[1].number:
        return None
    wide = [v for v in pair if not v.is_byte]
    if any(v.codes.dtype is not torch.int32 for v in wide) or (wide and not any(v.summed for v in wide)):
        return None
    return Scaled(ctx, _each_pair(ctx, ctx.spec(node).shape, pair, "arith.addi"), None, pair[0].factors, summed=True)


@form("aten.mul.Tensor")
def mul(ctx: Context, node: Node, x: Any, y: Any) -> Scaled | None:
    """The product of integers of a byte, in int32."""
    pair = [v for v in (x, y) if isinstance(v, Scaled) and v.factors and v.is_whole and v.is_byte]
    if len(pair) < 2:
        return None
    factor = combined(ctx, "mulf", pair[0].factors[0], pair[1].factors[0])
    return Scaled(ctx, _each_pair(ctx, ctx.spec(node).shape, pair, "arith.muli"), None, (factor,), summed=True)


def _each_pair(ctx: Context, shape: Sequence[Dim], pair: Sequence[Scaled], name: str) -> Operand:
    b = ctx.b

    def body(*codes: ir.Value) -> ir.Value:
        numbers = []
        for code, x in zip(codes, pair, strict=True):
            number = cast(b, code, x.codes.dtype, torch.int32)
            numbers.append(number if x.zero is None else b.same("arith.subi", number, x.zero.value))
        return b.same(name, *numbers)

    return elementwise(ctx, Spec(torch.int32, tuple(shape)), [x.codes for x in pair], body)
