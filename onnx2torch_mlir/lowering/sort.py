"""Sorting: a bottom-up merge sort of (element, position) rows, stable, in O(n log n); topk takes its beginning.

NaN counts as larger than every number, as in PyTorch. Of equal elements the one with the lower position comes first, in
both directions.
"""

from __future__ import annotations

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import product
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import Kind, kind, op_math
from onnx2torch_mlir.lowering.movement import transpose
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import elementwise
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.shapes import reshape
from onnx2torch_mlir.lowering.slicing import dim_index, extract_slice


def precedes(ctx: Context, x: ir.Value, y: ir.Value, dtype: torch.dtype, descending: bool) -> ir.Value:
    """Whether x stands strictly before y in the order."""
    b = ctx.b
    wide = op_math(dtype)
    p, q = cast(b, x, dtype, wide), cast(b, y, dtype, wide)
    if kind(wide) is Kind.COMPLEX:
        raise refuse("O2M-L002", f"numbers of {dtype} have no order", case=str(dtype))
    if kind(wide) is not Kind.FLOAT:
        letter = "s" if kind(wide) is Kind.SIGNED else "u"
        return b.compare(f"{letter}gt" if descending else f"{letter}lt", p, q)
    nan_p, nan_q = b.compare("uno", p, p), b.compare("uno", q, q)
    first, other = (nan_p, nan_q) if descending else (nan_q, nan_p)
    only = b.same("arith.andi", first, b.logical_not(other))
    return b.same("arith.ori", b.compare("ogt" if descending else "olt", p, q), only)


def sort_rows(ctx: Context, x: Operand, descending: bool) -> tuple[Operand, Operand]:
    """(sorted elements, their positions) of each row of a matrix."""
    b = ctx.b
    rows, length = (ctx.sizes.value(d) for d in x.shape)
    positions = elementwise(ctx, Spec(torch.int64, x.shape), [], lambda: b.from_index(b.iteration(1), torch.int64))

    def unfinished(width: ir.Value, *_: ir.Value) -> ir.Value:
        return b.compare("slt", width, length)

    def double(width: ir.Value, keys: ir.Value, order: ir.Value) -> list[ir.Value]:
        targets = [ctx.empty(x.dtype, x.shape), ctx.empty(torch.int64, x.shape)]
        step = b.same("arith.addi", width, width)

        def row(r: ir.Value, *into: ir.Value) -> list[ir.Value]:
            return ctx.loop(length, into, lambda lo, *t: merge(r, lo, t), step=step)

        def merge(r: ir.Value, lo: ir.Value, into: tuple[ir.Value, ...]) -> list[ir.Value]:
            middle = b.same("arith.minsi", b.same("arith.addi", lo, width), length)
            end = b.same("arith.minsi", b.same("arith.addi", lo, step), length)
            last = b.same("arith.subi", length, b.idx(1))

            def take(k: ir.Value, i: ir.Value, j: ir.Value, out_keys: ir.Value, out_order: ir.Value) -> list[ir.Value]:
                left_there, right_there = b.compare("slt", i, middle), b.compare("slt", j, end)
                safe_i, safe_j = b.same("arith.minsi", i, last), b.same("arith.minsi", j, last)
                element = b.element(x.dtype)
                left = b.make("tensor.extract", element, keys, r, safe_i)
                right = b.make("tensor.extract", element, keys, r, safe_j)
                right_first = b.same("arith.andi", right_there, precedes(ctx, right, left, x.dtype, descending))
                use_right = b.same("arith.ori", right_first, b.logical_not(left_there))
                source = b.select(use_right, safe_j, safe_i)
                position = b.make("tensor.extract", b.i64, order, r, source)
                next_i = b.select(use_right, i, b.same("arith.addi", i, b.idx(1)))
                next_j = b.select(use_right, b.same("arith.addi", j, b.idx(1)), j)
                key = b.select(use_right, right, left)
                return [
                    next_i,
                    next_j,
                    b.make("tensor.insert", out_keys.type, key, out_keys, r, k),
                    b.make("tensor.insert", out_order.type, position, out_order, r, k),
                ]

            return ctx.loop(end, [lo, middle, *into], take, start=lo)[2:]

        merged = ctx.loop(rows, targets, row)
        return [step, *merged]

    _, keys, order = ctx.repeat_while([b.idx(1), x.value, positions.value], unfinished, double)
    return Operand(x.dtype, x.shape, keys), Operand(torch.int64, x.shape, order)


def sort_along(ctx: Context, x: Operand, dim: int, descending: bool) -> tuple[Operand, Operand]:
    """(sorted elements, positions) along a dim of rank 1 or more."""
    axis = dim_index(dim, x.rank)
    order = [a for a in range(x.rank) if a != axis] + [axis]
    moved = transpose(ctx, x, order)
    matrix: list[Dim] = [product(moved.shape[:-1]), moved.shape[-1]]
    results = sort_rows(ctx, reshape(ctx, moved, matrix), descending)
    back = [order.index(a) for a in range(x.rank)]
    first, second = (transpose(ctx, reshape(ctx, r, moved.shape), back) for r in results)
    return first, second


@rule("aten.sort.stable")
def sort_stable(
    ctx: Context, node: Node, x: Operand, *, stable: bool | None = False, dim: int = -1, descending: bool = False
) -> tuple[Operand, Operand]:
    """(sorted, positions); equal elements keep their order."""
    if x.rank == 0:
        return x, ctx.full(0, torch.int64, ())
    return sort_along(ctx, x, dim, descending)


@rule("aten.topk.default")
def topk(
    ctx: Context, node: Node, x: Operand, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Operand, Operand]:
    """(the k first elements of the order, their positions)."""
    values, positions = ctx.specs(node)
    if x.rank == 0:
        return x, ctx.full(0, torch.int64, ())
    axis = dim_index(dim, x.rank)
    ctx.require(sympy.Le(k, x.shape[axis]), f"topk of {k} needs as many elements")
    results = sort_along(ctx, x, axis, largest)
    zeros, ones = [0] * x.rank, [1] * x.rank
    first, second = (
        extract_slice(ctx, r, zeros, spec.shape, ones) for r, spec in zip(results, (values, positions), strict=True)
    )
    return first, second
