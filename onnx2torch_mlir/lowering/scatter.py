"""Rules that write at computed positions: scatter, scatter_add, scatter_reduce, index_put.

Written in the order of the index, as a loop nest over a copy of the operand: the last of several writes wins, and sums
are the same on every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import MapResults
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context, Number
from onnx2torch_mlir.lowering.dtypes import op_math
from onnx2torch_mlir.lowering.indexing import AdvancedIndex, require_fits
from onnx2torch_mlir.lowering.movement import before_broadcast
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import broadcast_map, pointwise, scalar_constant
from onnx2torch_mlir.lowering.positions import Positions
from onnx2torch_mlir.lowering.reduction import identity_of
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.scalars import emit, scalar_body
from onnx2torch_mlir.lowering.slicing import dim_index

Update = Callable[[ir.Value, Sequence[ir.Value]], ir.Value]
"""(old element, position in the index's iteration space) -> new element."""


def write(
    ctx: Context,
    x: Operand,
    sizes: Sequence[Dim],
    place: Callable[[Sequence[ir.Value]], Sequence[ir.Value | int]],
    update: Update,
    depth: int | None = None,
) -> Operand:
    """``x`` with ``x[place(i)] = update(x[place(i)], i)`` for every ``i`` below ``sizes``, in order.

    ``place`` is asked with the first ``depth`` numbers of ``i``, or all; numbers that it gives itself stand for those of ``i``.
    """
    b = ctx.b
    bounds = [ctx.sizes.value(d) for d in sizes]
    known = len(bounds) if depth is None else depth

    def nest(here: list[ir.Value], tensor: ir.Value, found: Sequence[ir.Value | int]) -> ir.Value:
        if len(here) == known:
            found = place(here)
        if len(here) < len(bounds):
            return ctx.loop(bounds[len(here)], [tensor], lambda i, t: [nest([*here, i], t, found)])[0]
        target = [here[each] if isinstance(each, int) else each for each in found]
        old = b.make("tensor.extract", b.element(x.dtype), tensor, *target)
        return b.make("tensor.insert", tensor.type, update(old, here), tensor, *target)

    return Operand(x.dtype, x.shape, nest([], x.value, []))


_COMBINE = {"sum": "add", "mean": "add", "prod": "mul", "amax": "maximum", "amin": "minimum", "add": "add"}


def combiner(ctx: Context, name: str, dtype: torch.dtype) -> Callable[[ir.Value, ir.Value], ir.Value]:
    """A row of the scalar table on two elements of ``dtype``."""
    wide = op_math(dtype)
    body = scalar_body(name, wide)

    def combine(old: ir.Value, new: ir.Value) -> ir.Value:
        pair = (cast(ctx.b, v, dtype, wide) for v in (old, new))
        return cast(ctx.b, emit(ctx.b, body, *pair), wide, dtype)

    return combine


def _scatter(ctx: Context, x: Operand, dim: int, index: Operand, update: Update, source: Operand | None = None) -> Operand:
    """Writes along ``dim`` at the positions in ``index``."""
    axis = dim_index(dim, x.rank)
    for a in range(x.rank):
        require_fits(ctx, index.shape[a], x.shape[a], a == axis)
        if source is not None:
            require_fits(ctx, index.shape[a], source.shape[a], False)
    positions = Positions.of(ctx, index, x.shape[axis] if x.rank else 1)
    # Rows that are written as a whole have one index each.
    plain, reads = before_broadcast(positions.index)
    positions = replace(positions, index=plain)
    positions.require_inside(ctx)
    limit = ctx.sizes.value(positions.size)
    depth = max((a + 1 for a in reads if a is not None), default=0)

    def place(here: Sequence[ir.Value]) -> list[ir.Value | int]:
        if not x.rank:
            return []
        moved = positions.at(ctx, ctx.at(plain, _along(ctx, reads, here)), limit)
        return [moved if a == axis else a for a in range(x.rank)]

    return write(ctx, x, index.shape, place, update, depth)


def _along(ctx: Context, entries: MapResults, here: Sequence[ir.Value]) -> list[ir.Value]:
    """The place in what a map reads."""
    return [ctx.b.idx(0) if entry is None else here[entry] for entry in entries]


@rule("aten.scatter.src")
def scatter(ctx: Context, node: Node, x: Operand, dim: int, index: Operand, src: Operand) -> Operand:
    """x with x[..., index[i], ...] = src[i]."""
    return _scatter(ctx, x, dim, index, lambda old, here: ctx.at(src, here), src)


@rule("aten.scatter.value")
def scatter_value(ctx: Context, node: Node, x: Operand, dim: int, index: Operand, value: Number) -> Operand:
    """x with x[..., index[i], ...] = value."""
    constant = scalar_constant(ctx, value, x.dtype)
    return _scatter(ctx, x, dim, index, lambda old, here: constant)


@rule("aten.scatter_add.default")
def scatter_add(ctx: Context, node: Node, x: Operand, dim: int, index: Operand, src: Operand) -> Operand:
    """x with x[..., index[i], ...] += src[i]."""
    add = combiner(ctx, "add", x.dtype)
    return _scatter(ctx, x, dim, index, lambda old, here: add(old, ctx.at(src, here)), src)


@rule("aten.scatter_reduce.two")
def scatter_reduce(
    ctx: Context,
    node: Node,
    x: Operand,
    dim: int,
    index: Operand,
    src: Operand,
    reduce: str,
    include_self: bool = True,
) -> Operand:
    """x with src combined into x[..., index[i], ...] by sum, prod, mean, amax or amin."""
    if reduce not in _COMBINE:
        raise refuse("O2M-L002", f"there is no reduction {reduce!r} of a scatter", case="reduce")
    name = _COMBINE[reduce]
    combine = combiner(ctx, name, x.dtype)
    result = x
    if not include_self:
        identity = ctx.b.constant(identity_of(name, op_math(x.dtype)), x.dtype)
        result = _scatter(ctx, x, dim, index, lambda old, here: identity, src)
    result = _scatter(ctx, result, dim, index, lambda old, here: combine(old, ctx.at(src, here)), src)
    if reduce != "mean":
        return result
    one = ctx.b.constant(1, torch.int64)
    counts = ctx.full(1 if include_self else 0, torch.int64, x.shape)
    counts = _scatter(ctx, counts, dim, index, lambda old, here: ctx.b.same("arith.addi", old, one), src)
    counts = pointwise(ctx, counts.spec, "maximum", counts, 1)
    return pointwise(ctx, Spec(x.dtype, x.shape), _quotient(x.dtype), result, counts)


def _quotient(dtype: torch.dtype) -> str:
    return "div" if dtype.is_floating_point else "div/floor"


@rule("aten.index_put.default")
def index_put(
    ctx: Context,
    node: Node,
    x: Operand,
    indices: Sequence[Operand | None],
    values: Operand,
    accumulate: bool = False,
) -> Operand:
    """x with x[indices] = values (or += values), the values broadcast to the indexed shape."""
    shape = _indexed_shape(x, indices)
    plan = AdvancedIndex(ctx, x, indices, shape)
    add = combiner(ctx, "add", x.dtype)
    reads = {a: plan.reads(i) for a, i in plan.indexed.items()}
    value_reads = broadcast_map(ctx, values, shape)

    def place(here: Sequence[ir.Value]) -> Sequence[ir.Value]:
        return plan.places([ctx.at(i, _along(ctx, reads[a], here)) for a, i in plan.indexed.items()], here)

    def update(old: ir.Value, here: Sequence[ir.Value]) -> ir.Value:
        new = cast(ctx.b, ctx.at(values, _along(ctx, value_reads, here)), values.dtype, x.dtype)
        return add(old, new) if accumulate else new

    return write(ctx, x, shape, place, update)


def _indexed_shape(x: Operand, indices: Sequence[Operand | None]) -> tuple[Dim, ...]:
    """Sizes of x[indices]."""
    given = {a: i for a, i in enumerate(indices) if i is not None}
    rank = max((i.rank for i in given.values()), default=0)
    block: list[Dim] = [1] * rank
    for index in given.values():
        for place, dim in enumerate(index.shape, start=rank - index.rank):
            block[place] = dim if block[place] == 1 else block[place]
    axes = list(given)
    adjacent = not axes or axes == list(range(axes[0], axes[-1] + 1))
    start = axes[0] if axes and adjacent else 0
    free = [x.shape[a] for a in range(x.rank) if a not in given]
    return (*free[:start], *block, *free[start:])
