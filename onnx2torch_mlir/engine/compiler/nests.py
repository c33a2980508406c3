"""Loop nests on memrefs as data: what each reads and writes, and which element of which buffer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import before_collapse, long_dims, ones_of, reassociation
from onnx2torch_mlir.engine.compiler.extents import Equal, Length, loop_lengths, size_of
from onnx2torch_mlir.engine.compiler.loop_order import accesses, coefficient, iterators
from onnx2torch_mlir.engine.compiler.walks import is_memref, made_by, named, root_of, touches_memory


@dataclass(frozen=True)
class Place:
    """An operand: its indexing map's results, and the element of the buffer it views, where that can be told."""

    value: ir.Value
    results: tuple[ir.AffineExpr, ...]
    written: bool
    read: bool
    root: ir.Value | None
    indices: tuple[ir.AffineExpr, ...] | None
    """Along the axes of ``root``; None where ``value`` is another kind of view."""


@dataclass
class Nest:
    """A ``linalg.generic`` on memrefs."""

    operation: ir.Operation
    reductions: list[bool]
    places: list[Place]
    lengths: list[Length] = field(default_factory=list)

    @property
    def buffers(self) -> list[Place]:
        """The places in memory."""
        return [place for place in self.places if place.root is not None]

    @property
    def parallel(self) -> int:
        """How many loops come before the first that reduces; one that is known to have a single turn does not."""
        reducing = (dim for dim, reduces in enumerate(self.reductions) if reduces and self.lengths[dim] != 1)
        return next(reducing, len(self.reductions))


def nest_of(generic: ir.Operation, equal: Equal) -> Nest | None:
    """The nest of a generic, its lengths entered into ``equal``.

    None if a loop's length is no operand's size, or if the body itself touches memory: which elements, nobody knows.
    """
    if touches_memory(generic):
        return None
    reductions = iterators(generic)
    block = generic.regions[0].blocks[0]
    places = []
    for number, (value, access) in enumerate(zip(generic.operands, accesses(generic), strict=True)):
        read = bool(list(block.arguments[number].uses))
        results = tuple(access.map.results)
        root, indices = (root_of(value), _indices(value, results)) if is_memref(value.type) else (None, None)
        places.append(Place(value, results, access.written, read, root, indices))
    nest = Nest(generic, reductions, places)
    for length in loop_lengths(((place.value, place.results) for place in nest.buffers), len(reductions), equal):
        if length is None:
            return None
        nest.lengths.append(length)
    return nest


def _indices(value: ir.Value, results: tuple[ir.AffineExpr, ...]) -> tuple[ir.AffineExpr, ...] | None:
    """The indices in the buffer that ``value`` views, if it only adds or drops axes of size 1."""
    while (operation := made_by(value, "memref.expand_shape", "memref.collapse_shape", "memref.cast")) is not None:
        if operation.name == "memref.expand_shape":
            kept = long_dims(reassociation(operation), ones_of(value.type))
            if kept is None:
                return None
            results = tuple(results[axis] for axis in kept)
        elif operation.name == "memref.collapse_shape":
            wide = before_collapse(operation, results)
            if wide is None:
                return None
            results = tuple(wide)
        value = operation.operands[0]
    return results if value == root_of(value) else None


def turning(nest: Nest, equal: Equal) -> list[int]:
    """The loops that are not known to have one turn."""
    return [dim for dim, length in enumerate(nest.lengths) if equal.find(length) != 1]


def row_loops(nest: Nest, rows: list[Length], equal: Equal) -> list[int] | None:
    """The outer parallel loops that run over ``rows`` of these lengths, whatever loops of one turn lie between them.

    None if others come first. Where all there is is one row, that is the first parallel loop, and where there are none, no
    loop is.
    """
    single = [dim for dim, reduces in enumerate(nest.reductions) if not reduces][:1]
    found = single if rows == [1] else turning(nest, equal)[: len(rows)]
    lengths = [equal.find(nest.lengths[dim]) for dim in found]
    return found if lengths == rows and all(dim < nest.parallel for dim in found) else None


def row_axes(root: ir.Value, rows: list[Length], equal: Equal) -> int:
    """How many of a buffer's axes, from the first on, tell its rows."""
    rank = ir.MemRefType(root.type).rank
    if not rows:
        return 0
    axes = [axis for axis in range(rank) if rows == [1] or equal.find(size_of(root, axis)) != 1]
    return axes[len(rows) - 1] + 1 if len(axes) >= len(rows) else rank


def is_dense_along(nest: Nest, dim: int) -> bool:
    """Whether neighbours along ``dim`` are neighbours in memory, or the same element, in every operand."""
    return all(access.step(dim) in (0, 1) for access in accesses(nest.operation) if access.strides)


def uses(expression: ir.AffineExpr, dims: Iterable[int]) -> bool:
    """Whether an index depends on one of the dims."""
    return any(coefficient(expression, dim) != 0 for dim in dims)


def has_index(nest: Nest) -> bool:
    """Whether the body asks where it is."""
    return bool(named(nest.operation, "linalg.index"))
