"""Rules whose results' sizes, or values used as sizes, are only known at run time."""

from __future__ import annotations

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import Kind
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.registry import rule


@rule("aten.nonzero.default")
def nonzero(ctx: Context, node: Node, x: Operand) -> Operand:
    """[count, rank]: the positions of elements that are not zero, in order."""
    out = ctx.spec(node)
    b = ctx.b
    init = ctx.full(0, torch.int64, ())

    def tally(element: ir.Value, total: ir.Value) -> ir.Value:
        true = cast(b, element, x.dtype, torch.bool)
        return b.same("arith.addi", total, b.make("arith.extui", b.i64, true))

    counted = b.generic([(x.value, tuple(range(x.rank)))], [(init.value, ())], "r" * x.rank, tally)
    count = b.to_index(b.make("tensor.extract", b.i64, counted[0]), torch.int64)
    ctx.declare(out.shape[0], count, "the number of elements that are not zero")
    bounds = [ctx.sizes.value(d) for d in x.shape]

    def nest(here: list[ir.Value], row: ir.Value, tensor: ir.Value) -> list[ir.Value]:
        if len(here) < x.rank:
            return ctx.loop(bounds[len(here)], [row, tensor], lambda i, r, t: nest([*here, i], r, t))
        true = cast(b, ctx.at(x, here), x.dtype, torch.bool)

        def note() -> list[ir.Value]:
            filled = tensor
            for axis, i in enumerate(here):
                filled = b.make("tensor.insert", tensor.type, b.from_index(i, torch.int64), filled, row, b.idx(axis))
            return [b.same("arith.addi", row, b.idx(1)), filled]

        return ctx.branch(true, [b.index, tensor.type], note, lambda: [row, tensor])

    target = ctx.empty(torch.int64, out.shape)
    if x.rank == 0:
        return Operand(torch.int64, out.shape, target)
    return Operand(torch.int64, out.shape, nest([], b.idx(0), target)[1])


@rule("aten._local_scalar_dense.default", "aten.item.default")
def local_scalar_dense(ctx: Context, node: Node, x: Operand) -> None:
    """Binds the symbol that stands for the one element of ``x``."""
    declared = node.meta["val"]
    b = ctx.b
    expr = sympy.sympify(declared.node.expr) if hasattr(declared, "node") else sympy.sympify(declared)
    meaning = _computed_from(node)
    if meaning is not None and isinstance(expr, sympy.Symbol) and expr not in ctx.sizes.bound and ctx.sizes.knows(meaning):
        ctx.sizes.define(expr, meaning)
        return
    element = ctx.at(x, [b.idx(0)] * x.rank)
    if x.kind is Kind.FLOAT:
        value = cast(b, element, x.dtype, torch.float64)
        if isinstance(expr, sympy.Symbol) and expr not in ctx.sizes.bound:
            ctx.sizes.bind(expr, value)
        return
    if x.kind is Kind.BOOL:
        value = b.to_index(b.make("arith.extui", b.i64, element), torch.int64)
        if isinstance(expr, sympy.Eq) and isinstance(expr.lhs, sympy.Symbol) and expr.rhs == 1:
            expr = expr.lhs
    else:
        value = b.to_index(element, x.dtype)
    if expr.is_Boolean:
        raise refuse("O2M-L002", f"the truth value {expr} has no symbol to bind", case=str(expr))
    ctx.declare(int(expr) if expr.is_Integer else expr, value, "a number read from a tensor", size=False)


def _computed_from(node: Node) -> sympy.Expr | None:
    """The expression over sizes whose value ``node`` reads, where it reads what `aten.scalar_tensor` made of one."""
    made = node.args[0]
    if not isinstance(made, Node) or made.target is not torch.ops.aten.scalar_tensor.default:
        return None
    number = made.args[0].meta.get("val") if isinstance(made.args[0], Node) else None
    if made.meta["val"].dtype is not torch.int64 or not isinstance(number, torch.SymInt):
        return None
    return sympy.sympify(number.node.expr)
