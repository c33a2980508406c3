"""One kernel for many shapes: what of a nest's shape stays in its code, and what becomes an argument.

Pointwise nests are reduced to the fewest loops that do the same, with sizes and strides as arguments: a ReLU is one loop over
dense memory, whatever the shape, known or open; only a short innermost loop keeps its length. Other nests keep the sizes that
matter to vectorisation (the innermost loop, short loops such as a convolution's window) and take the long outer ones as
arguments.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from onnx2torch_mlir.engine.compiler.extents import Equal, Length, emitted, loop_lengths, size_of
from onnx2torch_mlir.engine.compiler.loop_order import Access, accesses, extents, iterators
from onnx2torch_mlir.engine.compiler.walks import i64, is_memref, named, word, word_of

_LONG = 16
_SHORT = 64
"""Turns of an innermost loop that are so few that code for any number of them would mostly handle the rest of its vectors."""

_STRIDE = "stride"
"""What begins the `Length` that is a memref's stride along an axis."""


@dataclass(frozen=True)
class Product:
    """A number times sizes and strides that only the run tells."""

    number: int
    open: tuple[Length, ...] = ()

    def times(self, other: Product) -> Product:
        """Both multiplied."""
        return Product(self.number * other.number, self.open + other.open)

    def equals(self, other: Product) -> bool:
        """Whether both are known to be the same."""
        if self.number != other.number:
            return False
        return not self.number or Counter(self.open) == Counter(other.open)

    @property
    def known(self) -> int | None:
        """The number, where the types tell it."""
        return None if self.open and self.number else self.number

    def is_at_most(self, limit: int) -> bool:
        """Whether it is known to be at most ``limit``."""
        return self.known is not None and self.known <= limit

    def emitted(self) -> ir.Value:
        """It as an i64, at the insertion point."""
        value: ir.Value = arith.ConstantOp(word(), i64(self.number)).result
        for factor in self.open if self.number else ():
            value = arith.MulIOp(value, word_of(_emitted(factor))).result
        return value


def _emitted(factor: Length) -> ir.Value:
    if isinstance(factor, int) or factor[0] != _STRIDE:
        return emitted(factor)
    _, value, axis = factor
    strides: list[ir.Value] = list(memref.ExtractStridedMetadataOp(value).results)[2 + ir.MemRefType(value.type).rank :]
    return strides[axis]


def _product(length: Length) -> Product:
    return Product(length) if isinstance(length, int) else Product(1, (length,))


@dataclass(frozen=True)
class Loops:
    """A pointwise nest: the extent of each loop, outside in, and for each operand its stride along each loop."""

    extents: tuple[Product, ...]
    strides: tuple[tuple[Product, ...], ...]

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
        is_short = self.extents[last].is_at_most(_SHORT)
        size = ir.ShapedType.get_dynamic_size()
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        sizes = [self.extents[loop].known if is_short and loop == last else size for loop in moving]
        limit = _SHORT if is_short else 0
        fixed = [
            strides[loop].known if strides[loop].is_at_most(max(limit, int(loop == last))) else dynamic for loop in moving
        ]
        return ir.MemRefType.get(sizes, element, ir.StridedLayoutAttr.get(0, fixed))

    def moving(self, operand: int) -> list[int]:
        """The loops that an operand moves along."""
        return [loop for loop, stride in enumerate(self.strides[operand]) if stride.known != 0]


def pointwise_loops(generic: ir.Operation) -> Loops | None:
    """The fewest loops of a pointwise nest; None for any other nest, and where operands are not read along their axes."""
    reductions = iterators(generic)
    if any(reductions) or named(generic, "linalg.index"):
        return None
    operands = accesses(generic)
    equal = Equal()
    values = list(generic.operands)
    moved = [(value, tuple(access.map.results)) for value, access in zip(values, operands, strict=True)]
    found = loop_lengths(moved, len(reductions), equal)
    lengths = [None if length is None else _product(equal.find(length)) for length in found]
    steps: list[list[Product]] = []
    for value, access in zip(values, operands, strict=True):
        if not all(isinstance(e, ir.AffineDimExpr) or _is_zero(e) for e in access.map.results):
            return None
        row = _steps(value, access, len(lengths), equal)
        if row is None:
            return None
        steps.append(row)
    if any(length is None for length in lengths):
        return None
    merged: list[tuple[Product, list[Product]]] = []
    for dim in _outside_in(operands[-1], steps[-1]):
        length = lengths[dim]
        if length is None or length.known == 1:
            continue
        here = [row[dim] for row in steps]
        if merged and all(outer.equals(inner.times(length)) for outer, inner in zip(merged[-1][1], here, strict=True)):
            merged[-1] = (merged[-1][0].times(length), here)
        else:
            merged.append((length, here))
    return Loops(
        tuple(extent for extent, _ in merged),
        tuple(tuple(row[position] for _, row in merged) for position in range(len(operands))),
    )


def _steps(value: ir.Value, access: Access, dims: int, equal: Equal) -> list[Product] | None:
    """How many elements apart neighbours along each loop are; None where a loop is along two axes at once."""
    strides = _strides(value, equal) if is_memref(value.type) else []
    found = [Product(0)] * dims
    for expression, stride in zip(access.map.results, strides, strict=False):
        if isinstance(expression, ir.AffineDimExpr):
            if found[expression.position].known != 0:
                return None
            found[expression.position] = stride
    return found


def _strides(value: ir.Value, equal: Equal) -> list[Product]:
    type_ = ir.MemRefType(value.type)
    if isinstance(type_.layout, ir.StridedLayoutAttr):
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        raw = type_.get_strides_and_offset()[0]
        return [Product(1, ((_STRIDE, value, a),)) if stride == dynamic else Product(stride) for a, stride in enumerate(raw)]
    found = [Product(1)]
    for axis in reversed(range(1, type_.rank)):
        found.insert(0, found[0].times(_product(equal.find(size_of(value, axis)))))
    return found[: type_.rank]


def _outside_in(written: Access, steps: list[Product]) -> list[int]:
    """The loops by the steps of what is written, or, where these are not all known, by its axes."""
    known = [step.known for step in steps]
    sizes = [step for step in known if step is not None]
    if len(sizes) == len(known):
        return sorted(range(len(steps)), key=lambda dim: (-sizes[dim], dim))
    along = [expression.position for expression in written.map.results if isinstance(expression, ir.AffineDimExpr)]
    return [dim for dim in range(len(steps)) if dim not in along] + along


def _is_zero(expression: ir.AffineExpr) -> bool:
    return isinstance(expression, ir.AffineConstantExpr) and expression.value == 0


def indexing_map(strides: tuple[Product, ...]) -> ir.AffineMap:
    """Which loops an operand of `Loops.kernel_type` moves along."""
    moving = [ir.AffineDimExpr.get(loop) for loop, stride in enumerate(strides) if stride.known != 0]
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
