"""Matrix products as linalg.generic: any dtype, narrow floats accumulated in float32, integers modulo their width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.lowering.builder import Body, Builder
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import Kind, kind, op_math
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.pointwise import convert
from onnx2torch_mlir.lowering.registry import rule


def multiply_add(
    b: Builder, x: Operand, y: Operand, dtype: torch.dtype, offsets: Sequence[ir.Value | None] = (None, None)
) -> Body:
    """The body ``acc + x * y`` in the accumulator's dtype, the (integer) ``offsets`` subtracted from ``x`` and ``y``."""
    sort = kind(dtype)
    multiply, add = {
        Kind.FLOAT: ("arith.mulf", "arith.addf"),
        Kind.BOOL: ("arith.andi", "arith.ori"),
        Kind.COMPLEX: ("complex.mul", "complex.add"),
    }.get(sort, ("arith.muli", "arith.addi"))

    def body(p: ir.Value, q: ir.Value, total: ir.Value) -> ir.Value:
        pair = [cast(b, p, x.dtype, dtype), cast(b, q, y.dtype, dtype)]
        pair = [e if o is None else b.same("arith.subi", e, o) for e, o in zip(pair, offsets, strict=True)]
        product = b.same(multiply, *pair)
        return b.same(add, total, product)

    return body


@rule("aten.mm.default", "aten.bmm.default")
def matrix_product(ctx: Context, node: Node, x: Operand, y: Operand) -> Operand:
    """[M, K] x [K, N] -> [M, N], or the same with a leading batch dim."""
    out = ctx.spec(node)
    dtype = op_math(out.dtype)
    if x.rank == 3:
        ctx.require_equal(x.shape[0], y.shape[0], "batch sizes of a matrix product must be equal")
    ctx.require_equal(x.shape[-1], y.shape[-2], "inner sizes of a matrix product must be equal")
    init = ctx.full(0, dtype, out.shape)
    batch = tuple(range(x.rank - 2))
    m, n, k = (len(batch) + i for i in range(3))
    result = ctx.b.generic(
        [(x.value, (*batch, m, k)), (y.value, (*batch, k, n))],
        [(init.value, (*batch, m, n))],
        "p" * (len(batch) + 2) + "r",
        multiply_add(ctx.b, x, y, dtype),
    )
    return convert(ctx, Operand(dtype, out.shape, result[0]), out.dtype)
