"""Cumulative sums and products: a loop along the dim for each position of the others, of which later ones are side by side."""

from __future__ import annotations

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import op_math
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.pointwise import convert
from onnx2torch_mlir.lowering.reduction import identity_of
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.scalars import emit, scalar_body
from onnx2torch_mlir.lowering.slicing import dim_index


@rule("aten.cumsum.default", "aten.cumprod.default")
def cumulative(ctx: Context, node: Node, x: Operand, dim: int, *, dtype: torch.dtype | None = None) -> Operand:
    """Sum or product of all elements up to each position along ``dim``; narrow floats accumulate in float32."""
    out = ctx.spec(node)
    if x.rank == 0:
        return convert(ctx, x, out.dtype)
    name = "add" if "cumsum" in str(node.target) else "mul"
    b = ctx.b
    wide = op_math(out.dtype)
    body = scalar_body(name, wide)
    axis = dim_index(dim, x.rank)
    if axis != x.rank - 1:
        return Operand(out.dtype, out.shape, _along_rows(ctx, x, axis, name, out.dtype))
    order = list(range(x.rank))
    bounds = [ctx.sizes.value(x.shape[a]) for a in order]
    start = b.constant(identity_of(name, wide), wide)

    def nest(here: list[ir.Value], tensor: ir.Value) -> ir.Value:
        if len(here) < x.rank - 1:
            return ctx.loop(bounds[len(here)], [tensor], lambda i, t: [nest([*here, i], t)])[0]

        def step(i: ir.Value, total: ir.Value, t: ir.Value) -> list[ir.Value]:
            place = dict(zip(order, [*here, i], strict=True))
            position = [place[a] for a in range(x.rank)]
            total = emit(b, body, total, cast(b, ctx.at(x, position), x.dtype, wide))
            return [total, b.make("tensor.insert", t.type, cast(b, total, wide, out.dtype), t, *position)]

        return ctx.loop(bounds[-1], [start, tensor], step)[1]

    return Operand(out.dtype, out.shape, nest([], ctx.empty(out.dtype, out.shape)))


def _along_rows(ctx: Context, x: Operand, axis: int, name: str, dtype: torch.dtype) -> ir.Value:
    """The same along a dim behind which there are others: totals in an array, so that the engine chooses the order of loops."""
    wide = op_math(dtype)
    body = scalar_body(name, wide)
    every = tuple(range(x.rank))
    others = tuple(a for a in every if a != axis)
    totals = ctx.full(identity_of(name, wide), wide, [x.shape[a] for a in others])

    def step(element: ir.Value, total: ir.Value, _: ir.Value) -> list[ir.Value]:
        total = emit(ctx.b, body, total, cast(ctx.b, element, x.dtype, wide))
        return [total, cast(ctx.b, total, wide, dtype)]

    outputs = [(totals.value, others), (ctx.empty(dtype, x.shape), every)]
    return ctx.b.generic([(x.value, every)], outputs, "".join("pr"[a == axis] for a in every), step)[1]
