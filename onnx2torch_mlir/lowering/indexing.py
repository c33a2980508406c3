"""Rules that read at computed positions: index_select, gather, index.Tensor.

Negative positions count from the end. Positions outside the dim end the program with a message: a reduction over the
indices, which are few beside what they address, finds them before anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import Kind, kind
from onnx2torch_mlir.lowering.movement import before_broadcast
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.pointwise import broadcast_map, elementwise
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.slicing import dim_index


def require_inside(ctx: Context, index: Operand, size: Dim) -> None:
    """``cf.assert`` that every element of ``index`` lies in [-size, size)."""
    b = ctx.b
    limit = ctx.sizes.value(size)
    init = ctx.full(1, torch.bool, ())

    def body(element: ir.Value, fine: ir.Value) -> ir.Value:
        position = b.to_index(element, index.dtype)
        return b.same("arith.andi", fine, b.compare("ult", wrapped(ctx, position, limit), limit))

    flag = b.generic([(index.value, tuple(range(index.rank)))], [(init.value, ())], "r" * index.rank, body)[0]
    ctx.assert_true(b.make("tensor.extract", b.i1, flag), f"an index lies outside a dim of size {size}")


def wrapped(ctx: Context, position: ir.Value, size: ir.Value) -> ir.Value:
    """A position counted from the front."""
    b = ctx.b
    return b.select(b.compare("slt", position, b.idx(0)), b.same("arith.addi", position, size), position)


def at_index(ctx: Context, element: ir.Value, dtype: torch.dtype, size: ir.Value) -> ir.Value:
    """An element of an index tensor as a position."""
    return wrapped(ctx, ctx.b.to_index(element, dtype), size)


@rule("aten.index_select.default")
def index_select(ctx: Context, node: Node, x: Operand, dim: int, index: Operand) -> Operand:
    """x[..., index[i], ...] with ``i`` along ``dim``."""
    out = ctx.spec(node)
    b = ctx.b
    if x.rank == 0:
        require_inside(ctx, index, 1)
        return x
    axis = dim_index(dim, x.rank)
    require_inside(ctx, index, x.shape[axis])
    size = ctx.sizes.value(x.shape[axis])
    reads = (axis,) if index.rank else ()
    target = ctx.empty(out.dtype, out.shape)

    def body(element: ir.Value, _: ir.Value) -> ir.Value:
        place = at_index(ctx, element, index.dtype, size)
        return ctx.at(x, [place if a == axis else b.iteration(a) for a in range(x.rank)])

    result = b.generic([(index.value, reads)], [(target, tuple(range(out.rank)))], "p" * out.rank, body)
    return Operand(out.dtype, out.shape, result[0])


@rule("aten.gather.default")
def gather(ctx: Context, node: Node, x: Operand, dim: int, index: Operand, sparse_grad: bool = False) -> Operand:
    """x[..., index[..., i, ...], ...]: the index has the result's sizes, not larger than x's in other dims."""
    out = ctx.spec(node)
    b = ctx.b
    axis = dim_index(dim, x.rank)
    if x.rank == 0:
        require_inside(ctx, index, 1)
        return elementwise(ctx, out, [index], lambda _: ctx.at(x, []))
    for a in range(x.rank):
        require_fits(ctx, index.shape[a], x.shape[a], a == axis)
    # What is picked from each of many planes alike has one index for all of them.
    plain, reads = before_broadcast(index)
    require_inside(ctx, plain, x.shape[axis])
    size = ctx.sizes.value(x.shape[axis])

    def body(element: ir.Value, _: ir.Value) -> ir.Value:
        place = at_index(ctx, element, index.dtype, size)
        return ctx.at(x, [place if a == axis else b.iteration(a) for a in range(x.rank)])

    every = tuple(range(out.rank))
    result = b.generic([(plain.value, reads)], [(ctx.empty(out.dtype, out.shape), every)], "p" * out.rank, body)
    return Operand(out.dtype, out.shape, result[0])


def require_fits(ctx: Context, size: Dim, available: Dim, free: bool) -> None:
    """Check that an index tensor is not larger than what it addresses, but along the indexed dim."""
    if not free and size != available:
        ctx.require(sympy.Le(size, available), f"an index of {size} elements must fit a dim of {available}")


class AdvancedIndex:
    """x[i0, None, i1 …]: which dims are indexed, and where the broadcast index dims stand in the result."""

    def __init__(self, ctx: Context, x: Operand, indices: Sequence[Operand | None], shape: Sequence[Dim]) -> None:
        self.ctx, self.x = ctx, x
        self.indexed = {a: i for a, i in enumerate(indices) if i is not None}
        for index in self.indexed.values():
            if kind(index.dtype) not in (Kind.SIGNED, Kind.UNSIGNED) or index.dtype is torch.uint8:
                raise refuse("O2M-L002", f"an index of {index.dtype} is a mask", hint="Use nonzero.", case="indices")
        axes = list(self.indexed)
        adjacent = axes == list(range(axes[0], axes[-1] + 1)) if axes else True
        self.rank = max((i.rank for i in self.indexed.values()), default=0)
        self.start = axes[0] if axes and adjacent else 0
        self.shape = tuple(shape)
        self.block = self.shape[self.start : self.start + self.rank]
        free = [a for a in range(x.rank) if a not in self.indexed]
        places = [p for p in range(len(self.shape)) if not self.start <= p < self.start + self.rank]
        self.free = dict(zip(free, places, strict=True))
        self.sizes = {a: ctx.sizes.value(x.shape[a]) for a in self.indexed}
        for a, index in self.indexed.items():
            require_inside(ctx, index, x.shape[a])
        for a, place in self.free.items():
            ctx.require_equal(self.shape[place], x.shape[a], "sizes of an indexed tensor")

    def reads(self, index: Operand) -> tuple[int | None, ...]:
        """Where an index tensor is read, over iterators of the result."""
        entries = broadcast_map(self.ctx, index, self.block)
        return tuple(None if e is None else int(e) + self.start for e in entries)

    def places(self, elements: Sequence[ir.Value], here: Sequence[ir.Value]) -> list[ir.Value]:
        """The position in ``x`` for index elements and a position in the result."""
        given = dict(zip(self.indexed, elements, strict=True))
        return [
            at_index(self.ctx, given[a], self.indexed[a].dtype, self.sizes[a]) if a in given else here[self.free[a]]
            for a in range(self.x.rank)
        ]


@rule("aten.index.Tensor")
def index_tensor(ctx: Context, node: Node, x: Operand, indices: Sequence[Operand | None]) -> Operand:
    """Advanced indexing with integer tensors that broadcast together."""
    out = ctx.spec(node)
    plan = AdvancedIndex(ctx, x, indices, out.shape)
    target = ctx.empty(out.dtype, out.shape)

    def body(*elements: ir.Value) -> ir.Value:
        here = [ctx.b.iteration(p) for p in range(out.rank)]
        return ctx.at(x, plan.places(elements[:-1], here))

    inputs = [(i.value, plan.reads(i)) for i in plan.indexed.values()]
    result = ctx.b.generic(inputs, [(target, tuple(range(out.rank)))], "p" * out.rank, body)
    return Operand(out.dtype, out.shape, result[0])
