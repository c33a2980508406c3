"""What is computed of each element of a sum of products right after it: done block by block, while the sums are in the cache.

A pointwise nest is the *tail* of a contraction if it is the only reader of the contraction's buffer and meets its elements one
by one, in their order. The buffer then is never made: the driver gives each block of sums to the tail's function.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import llvm

from onnx2torch_mlir.engine.compiler import following
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction
from onnx2torch_mlir.engine.compiler.dim_orders import reassociation
from onnx2torch_mlir.engine.compiler.flatten import assemble
from onnx2torch_mlir.engine.compiler.loop_order import Access, iterators
from onnx2torch_mlir.engine.compiler.row_parts import groups_of, is_part
from onnx2torch_mlir.engine.compiler.walks import is_memref, made_by, named, pointer, root_of, touches_memory, word_of

_RESHAPES = ("memref.collapse_shape", "memref.expand_shape")

_MOST_GROUPS = 3
"""Of rows: their places are counted from row to row."""


@dataclass(frozen=True)
class Follower:
    """A nest that is done block by block after another, and how each of its operands moves (``kinds``: see `kind_of`)."""

    nest: ir.Operation
    kinds: list[str]
    across: int
    """How many of the nest's loops, the last, are columns."""

    def parts_of_rows(self, position: int) -> list[tuple[bool, list[int]]]:
        """The loops over rows, and whether an operand moves along them (`row_parts.groups_of`)."""
        return groups_of(self.nest, position, self.across, _single_turns(self.nest))


@dataclass(frozen=True)
class Found(Follower):
    """The tail of a contraction."""

    buffer: ir.Operation
    """What allocates the contraction's result, which is left out."""


@dataclass(frozen=True)
class Sums:
    """What a tail follows: a nest that makes all elements of ``result`` along its ``loops``, and what it reads for that."""

    generic: ir.Operation
    sources: list[ir.Value]
    result: ir.Value
    access: Access
    loops: list[int]
    """Outer ones first; those of one turn are left out."""
    across: int = 1
    """How many of them, the last, are columns."""

    def column_axes(self) -> int:
        """How many of the result's axes, the last, are columns: with those of one place behind or among them."""
        first = self.loops[-self.across]
        moved = [e.position if isinstance(e, ir.AffineDimExpr) else None for e in self.access.map.results]
        return len(moved) - moved.index(first)


def find(found: Contraction, fill: ir.Operation | None) -> Found | None:
    """The tail of the contraction, whose result ``fill`` makes zero before."""
    return None if found.column is None else follow(sums_of(found, found.column), fill)


def sums_of(found: Contraction, column: int) -> Sums:
    """The sums of a contraction whose loop ``column`` is its columns'."""
    sources = [found.value(operand) for operand in (found.left, found.right)]
    return Sums(found.generic, sources, found.value(2), found.operands[2], [*found.batches, *found.rows, column])


def follow(sums: Sums, fill: ir.Operation | None) -> Found | None:
    """The tail of ``sums``, whose result ``fill`` makes before."""
    generic = sums.generic
    root = root_of(sums.result)
    buffer = made_by(root, "memref.alloc")
    if fill is None or buffer is None:
        return None
    if buffer.block != generic.block or not is_in_order(sums):
        return None
    readers = _readers(root, sums.column_axes(), {generic, fill})
    if readers is None or len(readers) != 1:
        return None
    ((nest, across),) = readers
    kinds = kinds_of(nest, root, across)
    if nest.block != generic.block or len(nest.operands) < 2 or kinds is None:
        return None
    if not following.may_follow(generic, [nest], sums.sources, [buffer.results[0]]):
        return None
    return Found(nest, kinds, across, buffer)


def kinds_of(nest: ir.Operation, root: ir.Value | None, across: int) -> list[str] | None:
    """How the operands of a nest move that may follow sums, in the buffer ``root`` if they go there (see `kind_of`); None where
    it may not."""
    if any(iterators(nest)) or touches_memory(nest) or named(nest, "linalg.index"):
        return None
    kinds = [kind_of(nest, position, root, across) for position in range(len(nest.operands))]
    if None in kinds or kinds[-1] not in ("all", "spread"):
        return None
    if list(list(nest.regions[0].blocks[0].arguments)[-1].uses):
        return None
    return [kind for kind in kinds if kind is not None]


def prepare(found: Found, generic: ir.Operation) -> None:
    """Move what the tail needs before the contraction ``generic``."""
    following.move_before(generic, [found.nest], [found.buffer.results[0]])


def leave_out(found: Found) -> None:
    """Remove the nest that has become a tail, and the memory between; what asks for its sizes still gets them."""
    found.nest.erase()
    buffer = found.buffer
    with ir.InsertionPoint(buffer), buffer.location:
        sizes = [word_of(size) for size in buffer.operands]
        shadow = assemble(ir.MemRefType(buffer.results[0].type), [llvm.ZeroOp(pointer()).result, *sizes])
    for use in list(buffer.results[0].uses):
        if use.owner.operation.name == "memref.dealloc":
            use.owner.operation.erase()
    buffer.results[0].replace_all_uses_with(shadow)
    buffer.erase()


def is_in_order(sums: Sums) -> bool:
    """Whether the result's elements lie densely in the order of the loops."""
    moved = [e.position for e in sums.access.map.results if isinstance(e, ir.AffineDimExpr) and e.position in sums.loops]
    return is_dense(sums.result) and moved == sums.loops


def is_dense(value: ir.Value) -> bool:
    """Whether a memref's elements lie side by side in the order of its axes."""
    return not isinstance(ir.MemRefType(value.type).layout, ir.StridedLayoutAttr)


def _is_dense_part(value: ir.Value) -> bool:
    """The same of what may begin anywhere in an array."""
    type_ = ir.MemRefType(value.type)
    strides, _ = type_.get_strides_and_offset()
    step = 1
    for axis in reversed(range(type_.rank)):
        if strides[axis] != step:
            return False
        if axis:
            step *= 0 if type_.is_dynamic_dim(axis) else type_.shape[axis]
    return True


def _readers(root: ir.Value, across: int, known: set[ir.Operation]) -> set[tuple[ir.Operation, int]] | None:
    """The nests that use the buffer besides the ``known`` ones, each with how many axes its columns, the last ``across`` ones,
    are there; None if something else does."""
    pending, readers = [(root, across)], set[tuple[ir.Operation, int]]()
    while pending:
        value, across = pending.pop()
        for use in value.uses:
            user = use.owner.operation
            if user in known or user.name == "memref.dealloc":
                continue
            after = _columns_after(user, across) if user.name in _RESHAPES else None
            if after is not None:
                pending.append((user.results[0], after))
            elif user.name == "linalg.generic":
                readers.add((user, across))
            else:
                return None
    return readers


def _columns_after(reshape: ir.Operation, across: int) -> int | None:
    """How many axes the last ``across`` ones are after a reshape, where no other goes with them."""
    groups = [len(group) for group in reassociation(reshape)]
    if reshape.name == "memref.expand_shape":
        return sum(groups[-across:]) if len(groups) >= across else None
    return next((count for count in range(1, len(groups) + 1) if sum(groups[-count:]) == across), None)


def kind_of(nest: ir.Operation, position: int, root: ir.Value | None, across: int) -> str | None:
    """How an operand moves: "sums" (the contraction's result), "all" like it, "column" or "row" by one of these, "part"
    by some of the loops over rows (row_parts.py), "none".

    The last ``across`` loops are the columns; loops of one turn do not count. "spread" is "all" of an array whose rows are not
    side by side, as `spread_of` describes it.
    """
    value = nest.operands[position]
    map_ = ir.AffineMapAttr(ir.ArrayAttr(nest.attributes["indexing_maps"])[position]).value
    dims = [e.position if isinstance(e, ir.AffineDimExpr) else None for e in map_.results]
    firsts = [isinstance(e, ir.AffineConstantExpr) and e.value == 0 for e in map_.results]
    sizes = ir.MemRefType(value.type).shape if is_memref(value.type) else []
    if any(dim is None and not (first and size == 1) for dim, first, size in zip(dims, firsts, sizes, strict=True)):
        return None
    single = _single_turns(nest)
    moving = [dim for dim in dims if dim is not None]
    is_sums = root is not None and root_of(value) == root
    if not is_memref(value.type):
        return "scalar"
    every = list(range(map_.n_dims))
    is_spread = across == 1 and moving == every and not is_dense(value) and len(dims) == len(every)
    if is_spread and spread_of(value) is not None:
        return None if is_sums else "spread"
    if not every or not (is_dense(value) or (_is_dense_part(value) and not is_sums)):
        return None
    rows, columns = ([dim for dim in part if dim not in single] for part in (every[:-across], every[-across:]))
    moving = [dim for dim in moving if dim not in single]
    if moving == rows + columns:
        return "sums" if is_sums else "all"
    if is_sums:
        return None
    if not moving:
        return "none"
    if moving == columns:
        return "column"
    if moving == rows:
        return "row"
    return "part" if is_part(moving, rows) else None


def _single_turns(nest: ir.Operation) -> set[int]:
    """The loops of one turn, as far as the last operand's type, all of whose axes are loops, tells."""
    maps = ir.ArrayAttr(nest.attributes["indexing_maps"])
    results = ir.AffineMapAttr(maps[len(maps) - 1]).value.results
    type_ = ir.MemRefType(nest.operands[len(nest.operands) - 1].type)
    return {
        ir.AffineDimExpr(result).position
        for axis, result in enumerate(results)
        if isinstance(result, ir.AffineDimExpr) and not type_.is_dynamic_dim(axis) and type_.shape[axis] == 1
    }


@dataclass(frozen=True)
class Group:
    """Rows that follow each other at one step, in elements; what is not known is ``axis``' size or stride."""

    axis: int
    count: int | None
    step: int | None

    def joined(self, count: int | None, step: int | None) -> Group | None:
        """So many of the group at one step as one group, if each is known to begin where the one before ends."""
        if self.count is None or self.step is None or count is None or step != self.count * self.step:
            return None
        return Group(self.axis, self.count * count, self.step)


def spread_of(value: ir.Value) -> list[Group] | None:
    """Where the rows of a strided array are: groups of rows, groups of these and so on, from the inside out.

    So are the rows of the middle of padded images: those of a line, the lines of an image, the images. None for other layouts.
    """
    type_ = ir.MemRefType(value.type)
    strides, _ = type_.get_strides_and_offset()
    if type_.rank < 2 or strides[-1] != 1:
        return None
    groups: list[Group] = []
    for axis in reversed(range(type_.rank - 1)):
        count = None if type_.is_dynamic_dim(axis) else type_.shape[axis]
        step = None if strides[axis] == ir.ShapedType.get_dynamic_stride_or_offset() else strides[axis]
        # Axes of one place do not move, wherever they are said to lie.
        if count == 1:
            continue
        joined = groups[-1].joined(count, step) if groups else None
        if joined is not None:
            groups[-1] = joined
        else:
            groups.append(Group(axis, count, step))
    if len(groups) > _MOST_GROUPS:
        return None
    return groups or [Group(0, 1, 0)]
