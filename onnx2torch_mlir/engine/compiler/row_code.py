"""The loop over rows of a group of nests, written out as loops with loads and stores; rows may be shared among threads."""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import memref

from onnx2torch_mlir.engine.compiler import merged_loops
from onnx2torch_mlir.engine.compiler.extents import Equal, Length, emitted, index, size_of
from onnx2torch_mlir.engine.compiler.kernels import relax_sums
from onnx2torch_mlir.engine.compiler.nests import Nest, Place, row_axes, uses
from onnx2torch_mlir.engine.compiler.parallel_loops import parallel, thread_count, worker
from onnx2torch_mlir.engine.compiler.repeated_code import RepeatedCode, alike
from onnx2torch_mlir.engine.compiler.row_loops import Loops
from onnx2torch_mlir.engine.compiler.row_passes import Pass, Step, passes_of
from onnx2torch_mlir.engine.compiler.row_spots import Spot
from onnx2torch_mlir.engine.compiler.streams import pays
from onnx2torch_mlir.engine.compiler.walks import block_of, made_by, root_of

Indices = tuple[ir.AffineExpr, ...]
_ALIGNMENT = 64

_ON_THE_STACK = 4096
"""Elements: larger rows, and those of unknown size, are allocated."""


def write(rows: list[Length], nests: list[Nest], equal: Equal, repeated: RepeatedCode) -> ir.Operation:
    """Replace ``nests`` over the same ``rows`` by one loop nest where the last of them is; its outermost loop."""
    last = nests[-1].operation
    private = private_buffers(nests, {nest.operation for nest in nests})
    group = alike(rows, nests, private)
    with ir.InsertionPoint(last), last.location:
        loop = repeated.written(group, last, lambda: _written(Writer(rows, nests, private, equal, in_results=True)))
    settle([nest.operation for nest in nests], touched(nests), private, loop)
    return loop


def _written(writer: Writer) -> ir.Operation:
    loop = parallel(writer.bounds or [index(1)])
    body = loop.regions[0].blocks[0]
    with ir.InsertionPoint.at_block_terminator(body):
        writer.enter()
        writer.row(list(body.arguments)[: len(writer.bounds)])
    writer.free()
    return loop


def touched(nests: list[Nest]) -> set[ir.Value]:
    """The buffers that nests read or write."""
    return {place.root for nest in nests for place in nest.buffers if place.root is not None}


def private_buffers(nests: list[Nest], members: set[ir.Operation]) -> set[ir.Value]:
    """Allocations that the ``nests`` use, and of which nothing but the ``members`` knows."""
    block = block_of(nests[0].operation)
    found = set()
    for root in touched(nests):
        fresh = made_by(root, "memref.alloc")
        if fresh is not None and fresh.block == block and only_used_by(root, members):
            found.add(root)
    return found


def only_used_by(value: ir.Value, members: set[ir.Operation]) -> bool:
    """Whether all that touches the elements of a buffer are ``members``."""
    for use in value.uses:
        user = use.owner.operation
        if user in members or user.name in ("memref.dealloc", "memref.dim"):
            continue
        if not user.name.startswith("memref.") or len(user.results) != 1 or root_of(user.results[0]) != root_of(value):
            return False
        if not only_used_by(user.results[0], members):
            return False
    return True


class Writer:
    """Emits what ``nests`` do with a row; made at the insertion point before the loop over ``rows``.

    Of ``private`` buffers each thread holds one row, for as long as it is at it; with ``in_results`` where a result's row will
    be, if it is the last that is needed for it. Then loops that go along memory as one are one.
    """

    def __init__(
        self, rows: list[Length], nests: list[Nest], private: set[ir.Value], equal: Equal, *, in_results: bool = False
    ) -> None:
        for nest in nests:
            relax_sums(nest.operation)
        self.passes = passes_of(rows, nests, equal)
        for one in self.passes if in_results else ():
            merged_loops.merge(one)
        self.held: dict[ir.Value, tuple[ir.Value, list[ir.Value]]] = {}
        """Buffers whose rows are somewhere else: the array that holds them, and the first indices of the row at hand."""
        self._rows, self._equal = rows, equal
        self._asks = in_results and pays(root.type for root in touched(nests) - private)
        self._allocated: list[ir.Value] = []
        self._own: list[ir.Value] = []
        """The index of a thread's row in the buffers that are allocated."""
        self._kept = self._passed_on(private)
        own_rows = [root for root in private if root not in self._kept]
        self._in_results = self._results_for(own_rows, private) if in_results else {}
        self._scratch = {root: self._row_of(root) for root in own_rows if root not in self._in_results}
        # What stands for a class of lengths may only be made after the group.
        own = {equal.find(length): length for nest in nests for length in nest.lengths}
        self._lengths = {length: emitted(length if isinstance(length, int) else own[length]) for length in own}
        self._lengths |= {one.lengths[-1]: merged_loops.length(one, self._lengths) for one in self.passes if one.lengths}
        alone = sum(len(one.lengths) > 0 for one in self.passes) == 1
        self._loops = Loops(len(rows), self._lengths, self._kept, self._where, alone=alone)

    @property
    def bounds(self) -> list[ir.Value]:
        """How many rows there are along each dim."""
        return [self._lengths[length] for length in self._rows]

    def enter(self) -> None:
        """What comes first in a turn of the loop over rows."""
        self._own = [worker()] if self._allocated else []

    def row(self, row: list[ir.Value]) -> None:
        """All passes over a row, whose place along each dim of the rows is given."""
        for root, (result, place) in self._in_results.items():
            self.held[root] = (result, [row[e.position] if isinstance(e, ir.AffineDimExpr) else index(0) for e in place])
        for one in self.passes:
            self._loops.write(one, row)

    def free(self) -> None:
        """What comes after the loop."""
        for buffer in self._allocated:
            memref.DeallocOp(buffer)

    def may_share(self, one: ir.Value, other: ir.Value) -> bool:
        """Whether rows of ``other`` may lie where those of ``one`` do: it is written where that is not read any more."""
        if row_of(one, self._axes(one)) != row_of(other, self._axes(other)):
            return False
        last = max((n for n, each in enumerate(self.passes) if _touches(each, one)), default=-1)
        first = min((n for n, each in enumerate(self.passes) if _touches(each, other)), default=len(self.passes))
        return last < first

    def _passed_on(self, private: set[ir.Value]) -> set[ir.Value]:
        """Private buffers whose elements are only needed in the turn that computes them: no memory at all."""
        found = set()
        for root in private:
            every = self._touching(root)
            once = len({number for (number, _), _, _ in every}) == 1 and all(step.is_one_per_turn(p) for _, step, p in every)
            first = every[0][1]
            if once and not any(place.read and place.root == root for place in first.nest.buffers):
                found.add(root)
        return found

    def _touching(self, root: ir.Value) -> list[tuple[tuple[int, int], Step, Place]]:
        """All that touches a buffer, in order: the numbers of the pass and of its step, the step, and where."""
        return [
            ((number, position), step, place)
            for number, one in enumerate(self.passes)
            for position, step in enumerate(one.steps)
            for place in step.nest.buffers
            if place.root == root
        ]

    def _results_for(self, roots: list[ir.Value], private: set[ir.Value]) -> dict[ir.Value, tuple[ir.Value, Indices]]:
        """For buffers of which one result is made last, element by element, the result and the indices of its row: less memory
        is met while a row is at hand. A result that anything of the group reads, or that is not all written, is none."""
        found: dict[ir.Value, tuple[ir.Value, Indices]] = {}
        places = [place for one in self.passes for step in one.steps for place in step.nest.buffers]
        taken = private | {place.root for place in places if place.read}
        for root in roots:
            candidates = (place.root for place in places if place.root is not None and place.root not in taken)
            result = next((each for each in candidates if self._is_made_of(each, root)), None)
            if result is not None:
                taken.add(result)
                _, step, place = self._touching(result)[0]
                found[root] = (result, step.expressions((place.indices or ())[: self._axes(result)]))
        return found

    def _is_made_of(self, result: ir.Value, root: ir.Value) -> bool:
        """Whether all of a row of ``result`` is written in one pass, each element where, or after, the same one of ``root`` is
        met for the last time."""
        kinds, sizes = [ir.MemRefType(buffer.type) for buffer in (result, root)], self._sizes_inside(result)
        if kinds[0].element_type != kinds[1].element_type or isinstance(kinds[0].layout, ir.StridedLayoutAttr):
            return False
        before, after = self._touching(root), self._touching(result)
        last, first = before[-1][0], after[0][0]
        if first < last or first[0] != last[0]:
            return False
        if sizes != self._sizes_inside(root) or [size for size in sizes if size != 1] != list(self.passes[last[0]].before):
            return False
        there = [(step, place) for number, step, place in (*before, *after) if number[0] == last[0]]
        elements = {str(step.expressions(place.indices[self._axes(place.root) :])) for step, place in there if place.indices}
        one_per_turn = all(place.indices is not None and step.is_one_per_turn(place) for step, place in there)
        return one_per_turn and len(elements) == 1

    def _sizes_inside(self, root: ir.Value) -> list[Length]:
        """Those of a buffer's axes inside of a row."""
        rank = ir.MemRefType(root.type).rank
        return [self._equal.find(size_of(root, axis)) for axis in range(self._axes(root), rank)]

    def _row_of(self, root: ir.Value) -> ir.Value:
        type_, sizes = row_of(root, self._axes(root))
        if not sizes and math.prod(type_.shape) <= _ON_THE_STACK:
            return memref.AllocaOp(type_, [], [], alignment=_ALIGNMENT).result
        several = ir.MemRefType.get([ir.ShapedType.get_dynamic_size(), *type_.shape], type_.element_type)
        buffer: ir.Value = memref.AllocOp(several, [thread_count(root.owner.operation), *sizes], []).result
        self._allocated.append(buffer)
        return buffer

    def _axes(self, root: ir.Value) -> int:
        return row_axes(root, self._rows, self._equal)

    def _where(self, step: Step, place: Place) -> Spot:
        if place.root is not None and place.indices is not None and (place.root in self.held or place.root in self._scratch):
            inside = place.indices[self._axes(place.root) :]
            is_held = place.root in self.held
            if is_held:
                array, first = self.held[place.root]
            else:
                array = self._scratch[place.root]
                first = self._own if array in self._allocated else []
            flat, rest = merged_loops.as_one(step, array, inside)
            return Spot(flat, first, rest, far=self._asks and is_held)
        flat, rest = merged_loops.as_one(step, place.value, place.results)
        return Spot(flat, [], rest, far=self._asks and any(uses(e, range(len(self._rows))) for e in rest))


def _touches(one: Pass, root: ir.Value) -> bool:
    return any(place.root == root for step in one.steps for place in step.nest.buffers)


def row_of(buffer: ir.Value, axes: int) -> tuple[ir.MemRefType, list[ir.Value]]:
    """The type of a row of an allocated ``buffer``, whose first ``axes`` tell which, and the sizes that it leaves open."""
    whole = ir.MemRefType(buffer.type)
    before, inside = (sum(whole.is_dynamic_dim(axis) for axis in axes_) for axes_ in (range(axes), range(axes, whole.rank)))
    sizes = list(buffer.owner.operation.operands)[before : before + inside]
    return ir.MemRefType.get(list(whole.shape)[axes:], whole.element_type), sizes


def settle(members: list[ir.Operation], roots: set[ir.Value], private: set[ir.Value], loop: ir.Operation) -> None:
    """Erase ``members``, which the ``loop`` now does, and ``private`` buffers; others of ``roots`` are freed after the loop."""
    for member in members:
        member.erase()
    for root in roots:
        for use in list(root.uses):
            user = use.owner.operation
            if user.name == "memref.dealloc" and user.block == loop.block:
                if root in private:
                    user.erase()
                elif user.is_before_in_block(loop):
                    user.move_after(loop)
    for root in private:
        _erase_unused(root)


def _erase_unused(value: ir.Value) -> None:
    for use in list(value.uses):
        user = use.owner.operation
        if len(user.results) == 1 and user.name != "memref.dim":
            _erase_unused(user.results[0])
    if not list(value.uses):
        value.owner.operation.erase()
