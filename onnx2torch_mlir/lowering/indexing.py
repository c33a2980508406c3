"""Rules that read at computed positions: index_select, gather, index.Tensor.

Positions outside the dim end the program with a message: a reduction over the indices, which are few beside what they
address, finds them before anything is read. Negative ones are outside, but for index.Tensor: there they count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import MapResults
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import Kind, kind
from onnx2torch_mlir.lowering.movement import before_broadcast
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import broadcast_map, elementwise
from onnx2torch_mlir.lowering.positions import Positions
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.slicing import dim_index


@rule("aten.index_select.default")
def index_select(ctx: Context, node: Node, x: Operand, dim: int, index: Operand) -> Operand:
    """x[..., index[i], ...] with ``i`` along ``dim``."""
    out = ctx.spec(node)
    if x.rank == 0:
        Positions.of(ctx, index, 1).require_inside(ctx)
        return x
    axis = dim_index(dim, x.rank)
    positions = Positions.of(ctx, index, x.shape[axis])
    return _read(ctx, out, x, axis, positions, (axis,) if index.rank else ())


@rule("aten.gather.default")
def gather(ctx: Context, node: Node, x: Operand, dim: int, index: Operand, sparse_grad: bool = False) -> Operand:
    """x[..., index[..., i, ...], ...]: the index has the result's sizes, not larger than x's in other dims."""
    out = ctx.spec(node)
    axis = dim_index(dim, x.rank)
    if x.rank == 0:
        Positions.of(ctx, index, 1).require_inside(ctx)
        return elementwise(ctx, out, [index], lambda _: ctx.at(x, []))
    for a in range(x.rank):
        require_fits(ctx, index.shape[a], x.shape[a], a == axis)
    positions = Positions.of(ctx, index, x.shape[axis])
    # What is picked from each of many planes alike has one index for all of them.
    plain, reads = before_broadcast(positions.index)
    return _read(ctx, out, x, axis, replace(positions, index=plain), reads)


def _read(ctx: Context, out: Spec, x: Operand, axis: int, positions: Positions, reads: MapResults) -> Operand:
    """What is in ``x`` at ``positions`` along an axis, of which ``reads`` says where each is for an element of the result."""
    b, limit = ctx.b, ctx.sizes.value(x.shape[axis])
    positions.require_inside(ctx)

    def body(element: ir.Value, _: ir.Value) -> ir.Value:
        place = positions.at(ctx, element, limit)
        return ctx.at(x, [place if a == axis else b.iteration(a) for a in range(x.rank)])

    target = (ctx.empty(out.dtype, out.shape), tuple(range(out.rank)))
    result = b.generic([(positions.index.value, reads)], [target], "p" * out.rank, body)
    return Operand(out.dtype, out.shape, result[0])


def require_fits(ctx: Context, size: Dim, available: Dim, free: bool) -> None:
    """Check that an index tensor is not larger than what it addresses, but along the indexed dim."""
    if not free and size != available:
        ctx.require(sympy.Le(size, available), f"an index of {size} elements must fit a dim of {available}")


class AdvancedIndex:
    """x[i0, None, i1 …]: which dims are indexed, and where the broadcast index dims stand in the result."""

    def __init__(self, ctx: Context, x: Operand, indices: Sequence[Operand | None], shape: Sequence[Dim]) -> None:
        self.ctx, self.x = ctx, x
        given = {a: i for a, i in enumerate(indices) if i is not None}
        for index in given.values():
            if kind(index.dtype) not in (Kind.SIGNED, Kind.UNSIGNED) or index.dtype is torch.uint8:
                raise refuse("O2M-L002", f"an index of {index.dtype} is a mask", hint="Use nonzero.", case="indices")
        self.positions = {a: Positions.of(ctx, i, x.shape[a], from_end=True) for a, i in given.items()}
        self.indexed = {a: positions.index for a, positions in self.positions.items()}
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
        for positions in self.positions.values():
            positions.require_inside(ctx)
        for a, place in self.free.items():
            ctx.require_equal(self.shape[place], x.shape[a], "sizes of an indexed tensor")

    def reads(self, index: Operand) -> tuple[int | None, ...]:
        """Where an index tensor is read, over iterators of the result."""
        entries = broadcast_map(self.ctx, index, self.block)
        return tuple(None if e is None else int(e) + self.start for e in entries)

    def places(self, elements: Sequence[ir.Value], here: Sequence[ir.Value]) -> list[ir.Value]:
        """The position in ``x`` for index elements and a position in the result."""
        given = dict(zip(self.indexed, elements, strict=True))
        counted = {a: self.positions[a].at(self.ctx, element, self.sizes[a]) for a, element in given.items()}
        return [counted[a] if a in counted else here[self.free[a]] for a in range(self.x.rank)]


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
