"""Rules that make tensors out of numbers: full, arange, scalar_tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import ceil_div, maximum, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context, Number
from onnx2torch_mlir.lowering.dtypes import Kind, op_math
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.pointwise import elementwise, scalar_constant
from onnx2torch_mlir.lowering.registry import rule


@rule("aten.full.default")
def full(ctx: Context, node: Node, size: Sequence[Dim], fill_value: Number, **_: Any) -> Operand:
    """Every element ``fill_value``."""
    out = ctx.spec(node)
    return ctx.fill(scalar_constant(ctx, fill_value, out.dtype), out.dtype, out.shape)


@rule("aten.scalar_tensor.default")
def scalar_tensor(ctx: Context, node: Node, s: Number, **_: Any) -> Operand:
    """A number as a tensor of rank 0."""
    out = ctx.spec(node)
    value = scalar_constant(ctx, s, out.dtype)
    tensor = ctx.b.make("tensor.from_elements", ctx.b.tensor_type(out.dtype, ()), value)
    return Operand(out.dtype, (), tensor)


@rule("aten.arange.start_step")
def arange(ctx: Context, node: Node, start: Number, end: Number, step: Number = 1, **_: Any) -> Operand:
    """start, start + step, …; each element computed from its position, not by repeated addition."""
    out = ctx.spec(node)
    b = ctx.b
    if all(isinstance(v, int) or getattr(v, "is_integer", False) for v in (start, end)) and isinstance(step, int):
        span, by = (end - start, step) if step > 0 else (start - end, -step)
        ctx.declare(out.shape[0], maximum(0, ceil_div(to_dim(span), by)), "the length of a range")
    dtype = out.dtype if out.kind is not Kind.FLOAT else op_math(out.dtype)
    multiply, add = ("arith.mulf", "arith.addf") if out.kind is Kind.FLOAT else ("arith.muli", "arith.addi")
    first, by = scalar_constant(ctx, start, dtype), scalar_constant(ctx, step, dtype)

    def body() -> ir.Value:
        position = b.make("arith.index_cast", b.i64, b.iteration(0))
        offset = b.same(multiply, cast(b, position, torch.int64, dtype), by)
        return cast(b, b.same(add, first, offset), dtype, out.dtype)

    return elementwise(ctx, out, [], body)
