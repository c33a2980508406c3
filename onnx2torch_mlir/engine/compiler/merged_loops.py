"""Loops inside a row that every operand of a pass goes along as if they were one: C, H and W of a norm over an image, say.

As one loop they have full vectors: of an image of 7 by 7 each line would fill half of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from onnx2torch_mlir.engine.compiler.dim_orders import reassociation_of
from onnx2torch_mlir.engine.compiler.extents import Length, index
from onnx2torch_mlir.engine.compiler.nests import has_index, uses
from onnx2torch_mlir.engine.compiler.row_passes import MERGED, Pass, Step


def merge(one: Pass) -> None:
    """Make one loop of as many of the last ones of a pass as there may be."""
    for count in range(len(one.lengths), 1, -1):
        if all(_is_one_loop(step, step.inside[-count:]) for step in one.steps):
            kept, merged = one.lengths[:-count], one.lengths[-count:]
            numbers = [length for length in merged if isinstance(length, int)]
            one.lengths = (*kept, math.prod(numbers) if len(numbers) == count else (MERGED, *merged))
            for step in one.steps:
                *step.along, innermost = step.inside[-count:]
                step.inside = [*step.inside[:-count], innermost]
            return


def length(one: Pass, lengths: dict[Length, ir.Value]) -> ir.Value:
    """How many turns the innermost loop of a pass has, by the ``lengths`` of those that it had before."""
    innermost = one.lengths[-1]
    if innermost in lengths:
        return lengths[innermost]
    if isinstance(innermost, int):
        return index(innermost)
    first, *others = (lengths[each] for each in innermost[1:])
    for other in others:
        first = arith.MulIOp(first, other).result
    return first


def _is_one_loop(step: Step, dims: list[int]) -> bool:
    if len({step.nest.reductions[dim] for dim in dims}) > 1 or has_index(step.nest):
        return False
    loops = {*step.rows, *step.inside}
    for place in step.nest.buffers:
        views = [(place.value, place.results)]
        if place.root is not None and place.indices is not None:
            views.append((place.root, place.indices))
        if not all(_goes_along(ir.MemRefType(value.type), indices, dims, loops) for value, indices in views):
            return False
    return True


def _goes_along(type_: ir.MemRefType, indices: Sequence[ir.AffineExpr], dims: list[int], loops: set[int]) -> bool:
    """Whether what is at ``indices`` goes along all of ``dims`` through neighbours in memory, or along none of them."""
    count = _last_axes(indices, dims)
    if not count:
        return True
    tail = indices[-count:]
    if not all(isinstance(e, ir.AffineDimExpr) or type_.shape[axis - count] == 1 for axis, e in enumerate(tail)):
        return False
    named = [e.position for e in tail if isinstance(e, ir.AffineDimExpr) and e.position in loops]
    return named == dims and _is_dense(type_, count)


def _last_axes(indices: Sequence[ir.AffineExpr], dims: list[int]) -> int:
    """How many axes there are from the first that moves along one of ``dims`` on."""
    return next((len(indices) - axis for axis, e in enumerate(indices) if uses(e, dims)), 0)


def _is_dense(type_: ir.MemRefType, count: int) -> bool:
    """Whether the last ``count`` axes of a buffer are one piece of memory."""
    if not isinstance(type_.layout, ir.StridedLayoutAttr):
        return type_.affine_map == ir.AffineMap.get_identity(type_.rank)
    size, dynamic = 1, ir.ShapedType.get_dynamic_size()
    for axis in range(1, count + 1):
        if size == dynamic or type_.get_strides_and_offset()[0][-axis] != size:
            return False
        size = dynamic if type_.is_dynamic_dim(type_.rank - axis) else size * type_.shape[-axis]
    return True


def as_one(
    step: Step, array: ir.Value, indices: Sequence[ir.AffineExpr]
) -> tuple[ir.Value, tuple[ir.AffineExpr, ...]]:
    """A buffer whose axes along the innermost loop of a pass, and those that were merged with it, are one, at the insertion
    point; and the indices there, in the pass' loops. Axes of one place behind these are no axes either."""
    dims, loops = [*step.along, *step.inside[-1:]], {*step.rows, *step.inside}
    count = _last_axes(indices, dims)
    if not step.along and (count < 2 or not _goes_along(ir.MemRefType(array.type), indices, dims, loops)):
        count = 0
    if not count:
        return array, step.expressions(tuple(indices))
    innermost = ir.AffineDimExpr.get(len(step.rows) + len(step.inside) - 1)
    before = step.expressions(tuple(indices[:-count]))
    if count == 1:
        return array, (*before, innermost)
    type_ = ir.MemRefType(array.type)
    first, dynamic = type_.rank - count, ir.ShapedType.get_dynamic_size()
    sizes = list(type_.shape)[first:]
    shape = [*list(type_.shape)[:first], dynamic if dynamic in sizes else math.prod(sizes)]
    layout = None
    if isinstance(type_.layout, ir.StridedLayoutAttr):
        strides, offset = type_.get_strides_and_offset()
        layout = ir.StridedLayoutAttr.get(offset, [*strides[:first], 1])
    groups = [[axis] for axis in range(first)] + [list(range(first, type_.rank))]
    target = ir.MemRefType.get(shape, type_.element_type, layout)
    flat = memref.CollapseShapeOp(target, array, reassociation_of(groups)).result
    return flat, (*before, innermost)
