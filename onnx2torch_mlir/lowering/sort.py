"""Sorting: rows of keys (order_keys.py) by a merge sort (merge_sort.py), stable, in O(n log n), or by counting where keys are
close together (counting_sort.py); of a row of which only the beginning is wanted, what may be there is collected before
(selection.py).

NaN counts as larger than every number, as in PyTorch. Of equal elements the one with the lower position comes first, in
both directions.
"""

from __future__ import annotations

import operator
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import product, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.context import Context, spec_of
from onnx2torch_mlir.lowering.counting_sort import put_in_order
from onnx2torch_mlir.lowering.merge_sort import room_for
from onnx2torch_mlir.lowering.movement import transpose
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.order_keys import key_dtype, key_of
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.selection import BLOCK, SHORT, Row, collect
from onnx2torch_mlir.lowering.shapes import reshape
from onnx2torch_mlir.lowering.slicing import dim_index, insert_slice


def sort_rows(ctx: Context, x: Operand, descending: bool, few: Dim) -> tuple[Operand, Operand]:
    """The first ``few`` (elements, positions) of each sorted row of a matrix; at most all of them."""
    b = ctx.b
    rows, length = (ctx.sizes.value(d) for d in x.shape)
    whole = few == x.shape[1] or (isinstance(x.shape[1], int) and x.shape[1] <= SHORT)
    count = length if few == x.shape[1] else b.same("arith.minsi", ctx.sizes.value(few), length)
    shape = (x.shape[0], few)
    dtype = key_dtype(x.dtype)
    room = x.shape[1] if whole else to_dim(x.shape[1] + BLOCK)
    pairs = room_for(ctx, dtype, room)
    # Of a whole row the keys are put where they are sorted.
    scratch = [] if whole else [ctx.empty(dtype, (room,)) for _ in range(2)]

    def key_at(r: ir.Value, i: ir.Value) -> ir.Value:
        return key_of(b, ctx.at(x, [r, i]), x.dtype, descending)

    def row(r: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        (elements, positions), kept = carried[-2:], list(carried[: len(scratch)])
        now, there = pairs.of(carried[len(scratch) : -2]), length
        if whole:
            now = now.of(
                ctx.loop(
                    length,
                    now.tensors,
                    lambda i, *t: now.of(t).written(ctx, i, key_at(r, i), b.from_index(i, torch.int64)).tensors,
                )
            )
        else:
            (keys,) = ctx.loop(
                length, kept[:1], lambda i, t: [b.make("tensor.insert", t.type, key_at(r, i), t, i)]
            )
            now, there, after = collect(ctx, Row(dtype, keys, kept[1], length, count), now)
            kept = [after.keys, after.parts]
        now, start = put_in_order(ctx, now, there)

        def put(i: ir.Value, elements: ir.Value, positions: ir.Value) -> list[ir.Value]:
            _, position = now.read(ctx, b.same("arith.addi", start, i))
            element = ctx.at(x, [r, b.to_index(position, torch.int64)])
            return [
                b.make("tensor.insert", elements.type, element, elements, r, i),
                b.make("tensor.insert", positions.type, position, positions, r, i),
            ]

        return [*kept, *now.tensors, *ctx.loop(count, [elements, positions], put)]

    targets = [ctx.empty(x.dtype, shape), ctx.empty(torch.int64, shape)]
    *_, elements, positions = ctx.loop(rows, [*scratch, *pairs.tensors, *targets], row)
    return Operand(x.dtype, shape, elements), Operand(torch.int64, shape, positions)


def sort_along(ctx: Context, x: Operand, dim: int, descending: bool, few: Dim | None = None) -> tuple[Operand, Operand]:
    """(sorted elements, positions) along a dim of rank 1 or more; the first ``few`` of them, where that is given."""
    axis = dim_index(dim, x.rank)
    order = [a for a in range(x.rank) if a != axis] + [axis]
    moved = transpose(ctx, x, order)
    matrix: list[Dim] = [product(moved.shape[:-1]), moved.shape[-1]]
    results = sort_rows(ctx, reshape(ctx, moved, matrix), descending, moved.shape[-1] if few is None else few)
    back = [order.index(a) for a in range(x.rank)]
    first, second = (
        transpose(ctx, reshape(ctx, r, (*moved.shape[:-1], r.shape[1])), back) for r in results
    )
    return first, second


@rule("aten.sort.stable")
def sort_stable(
    ctx: Context, node: Node, x: Operand, *, stable: bool | None = False, dim: int = -1, descending: bool = False
) -> tuple[Operand, Operand]:
    """(sorted, positions); equal elements keep their order.

    Where all that reads them reads the same number of the first ones, the others are not sorted, and are undefined.
    """
    if x.rank == 0:
        return x, ctx.full(0, torch.int64, ())
    few = _read_first(node, dim_index(dim, x.rank))
    if few is None or not (isinstance(few, int) or ctx.sizes.knows(few)):
        return sort_along(ctx, x, dim, descending)
    first, second = (
        insert_slice(ctx, part, Operand(part.dtype, x.shape, ctx.empty(part.dtype, x.shape)), [0] * x.rank)
        for part in sort_along(ctx, x, dim, descending, few)
    )
    return first, second


def _read_first(node: Node, axis: int) -> Dim | None:
    """How many of the first along ``axis`` are all that anything reads of the results; None if that is not so."""
    found: set[Dim] = set()
    for part in node.users:
        for user in part.users:
            if part.target is not operator.getitem or user.target is not torch.ops.aten.slice.Tensor or user.kwargs:
                return None
            given: dict[str, Any] = dict(zip(("self", "dim", "start", "end", "step"), user.args, strict=False))
            shape = spec_of(user.meta["val"]).shape
            begins = given.get("start") in (0, None) and given.get("step", 1) == 1
            if not begins or dim_index(given.get("dim", 0), len(shape)) != axis:
                return None
            found.add(shape[axis])
    return found.pop() if len(found) == 1 else None


@rule("aten.topk.default")
def topk(
    ctx: Context, node: Node, x: Operand, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Operand, Operand]:
    """(the k first elements of the order, their positions)."""
    if x.rank == 0:
        return x, ctx.full(0, torch.int64, ())
    axis = dim_index(dim, x.rank)
    ctx.require(sympy.Le(k, x.shape[axis]), f"topk of {k} needs as many elements")
    values, _ = ctx.specs(node)
    return sort_along(ctx, x, axis, largest, values.shape[axis])
