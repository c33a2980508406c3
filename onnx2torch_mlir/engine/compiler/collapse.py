"""One kernel for many shapes: what of a nest's shape stays in its code, and what becomes an argument.

Pointwise nests are reduced to the fewest loops that do the same, with sizes and strides as arguments: a ReLU is one
loop over dense memory, whatever the shape; only a short innermost loop keeps its length. Other nests keep the sizes that matter
to vectorisation (the innermost loop, short loops such as a convolution's window) and take the long outer ones as arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.loop_order import accesses, extents, iterators
from onnx2torch_mlir.engine.compiler.walks import nested

_LONG = 16
_SHORT = 64
"""Turns of an innermost loop that are so few that code for any number of them would mostly handle the rest of its vectors."""


@dataclass(frozen=True)
class Loops:
    """A pointwise nest: the extent of each loop, outside in, and for each operand its stride along each loop."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    def kernel_type(self, operand: int, element: ir.Type) -> ir.MemRefType:
        """A memref with a size for each loop that the operand moves along, of which the kernel is told.

        A short innermost loop keeps its length, and steps over so few elements stay; of the strides else only a last one of 1
        is fixed.
        """
        strides = self.strides[operand]
        moving = self.moving(operand)
        if not moving:
            return ir.MemRefType.get([], element)
        last = len(strides) - 1
        is_short = self.extents[last] <= _SHORT
        size = ir.ShapedType.get_dynamic_size()
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        sizes = [self.extents[loop] if is_short and loop == last else size for loop in moving]
        limit = _SHORT if is_short else 0
        fixed = [strides[loop] if strides[loop] <= max(limit, int(loop == last)) else dynamic for loop in moving]
        return ir.MemRefType.get(sizes, element, ir.StridedLayoutAttr.get(0, fixed))

    def moving(self, operand: int) -> list[int]:
        """The loops that an operand moves along."""
        return [loop for loop, stride in enumerate(self.strides[operand]) if stride]


def pointwise_loops(generic: ir.Operation) -> Loops | None:
    """The fewest loops of a pointwise nest of known shape; None for any other nest."""
    reductions = iterators(generic)
    if any(reductions) or any(operation.name == "linalg.index" for operation in nested(generic)):
        return None
    operands = accesses(generic)
    lengths = extents(operands, len(reductions))
    known = [length for length in lengths if length is not None]
    if len(known) != len(lengths):
        return None
    steps: list[list[int]] = []
    for access in operands:
        row = [access.step(dim) for dim in range(len(lengths))]
        plain = all(isinstance(e, ir.AffineDimExpr) or _is_zero(e) for e in access.map.results)
        if not plain or any(step is None for step in row):
            return None
        steps.append([step or 0 for step in row])
    dims = sorted((d for d in range(len(known)) if known[d] != 1), key=lambda d: (-steps[-1][d], d))
    merged: list[tuple[int, list[int]]] = []
    for dim in dims:
        here = [row[dim] for row in steps]
        if merged and all(outer == inner * known[dim] for outer, inner in zip(merged[-1][1], here, strict=True)):
            merged[-1] = (merged[-1][0] * known[dim], here)
        else:
            merged.append((known[dim], here))
    return Loops(
        tuple(extent for extent, _ in merged),
        tuple(tuple(row[position] for _, row in merged) for position in range(len(operands))),
    )


def _is_zero(expression: ir.AffineExpr) -> bool:
    return isinstance(expression, ir.AffineConstantExpr) and expression.value == 0


def indexing_map(strides: tuple[int, ...]) -> ir.AffineMap:
    """Which loops an operand of `Loops.kernel_type` moves along."""
    moving = [ir.AffineDimExpr.get(loop) for loop, stride in enumerate(strides) if stride != 0]
    return ir.AffineMap.get(len(strides), 0, moving)


def relaxed_types(generic: ir.Operation) -> dict[int, ir.MemRefType]:
    """For operands of a nest that is not pointwise: their types with the sizes of the long outer loops made dynamic."""
    operands = accesses(generic)
    reductions = iterators(generic)
    lengths = extents(operands, len(reductions))
    long = {dim for dim, length in enumerate(lengths[:-1]) if length is not None and length >= _LONG}
    size = ir.ShapedType.get_dynamic_size()
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    found: dict[int, ir.MemRefType] = {}
    for position, access in enumerate(operands):
        value = generic.operands[position]
        if not isinstance(value.type, ir.MemRefType):
            continue
        type_ = ir.MemRefType(value.type)
        shape = list(type_.shape)
        strides = list(type_.get_strides_and_offset()[0])
        varies = False
        for axis in reversed(range(type_.rank)):
            if varies:
                strides[axis] = dynamic
            expression = access.map.results[axis]
            if isinstance(expression, ir.AffineDimExpr) and expression.position in long:
                shape[axis] = size
            varies = varies or type_.is_dynamic_dim(axis) or shape[axis] == size
        if shape != list(type_.shape):
            found[position] = ir.MemRefType.get(shape, type_.element_type, ir.StridedLayoutAttr.get(0, strides))
    return found
