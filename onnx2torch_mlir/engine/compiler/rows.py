"""Nests over the same rows become one loop over rows: softmax, norms, and whatever else lies around a reduction.

A row is what the loops inside the shared outer parallel loops run over. One row after another goes through all nests of a
group while it lies in the nearest cache; buffers that only the group uses hold one row instead of all. Which nests share a pass
over the row says row_passes.py, the code is written by row_code.py. What does not fit stays a nest of its own.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import row_code
from onnx2torch_mlir.engine.compiler.distinct_memory import distinct
from onnx2torch_mlir.engine.compiler.extents import Equal, Length
from onnx2torch_mlir.engine.compiler.loop_order import accesses, extents, interchange, iterators
from onnx2torch_mlir.engine.compiler.nests import Nest, Place, is_dense_along, nest_of, row_axes, row_loops, turning, uses
from onnx2torch_mlir.engine.compiler.repeated_code import RepeatedCode
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import functions, named, symbol

_FEWEST = 8
"""Rows of fewer elements gain nothing: loops over them do not vectorise."""

_MOST_BUFFERS = 24

_HARMLESS = (
    *("memref.alloc", "memref.dealloc", "memref.dim", "memref.expand_shape", "memref.collapse_shape", "memref.cast"),
    *("memref.subview", "memref.reinterpret_cast", "memref.transpose", "memref.get_global"),
    *("builtin.unrealized_conversion_cast", "llvm.mlir.poison", "llvm.insertvalue", "llvm.getelementptr"),
)
"""What may lie between the nests of a group, besides arithmetic: it neither reads nor writes elements."""


@dataclass
class Group:
    """Nests over the same ``rows``, one after the other in a block."""

    rows: list[Length]
    """How many there are along each of their dims; dims of one place do not count, unless there is but one row. None where
    everything is reduced."""
    nests: list[Nest] = field(default_factory=list)
    _buffers: set[ir.Value] = field(default_factory=set)
    _written: set[ir.Value] = field(default_factory=set)

    def join(self, nest: Nest, equal: Equal) -> bool:
        """Let the nest join, unless some row of the group would then depend on another row of what the group writes, or on
        something else that it writes; whether it did."""
        places = nest.buffers
        buffers = row_code.touched([nest]) - self._buffers
        written = {place.root for place in places if place.written and place.root is not None} - self._written
        every, every_written = self._buffers | buffers, self._written | written
        if len(every) > _MOST_BUFFERS:
            return False
        before = ((member, place) for member in self.nests for place in member.buffers if place.root in written)
        here = ((nest, place) for place in places if place.root in every_written)
        if not all(is_by_row(member, place, self.rows, equal) for member, place in (*before, *here)):
            return False
        pairs = itertools.chain(itertools.product(every_written, buffers), itertools.product(written, every - buffers))
        if not all(one == other or distinct(one, other) for one, other in pairs):
            return False
        self.nests.append(nest)
        self._buffers, self._written = every, every_written
        return True


def fuse(module: ir.Module) -> list[ir.Operation]:
    """Fuse the nests of @main (on memrefs, named operations generalized); the loops over rows that they became."""
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    blocks = dict.fromkeys(generic.block for generic in named(main, "linalg.generic"))
    repeated = RepeatedCode("rows")
    return [loop for block in blocks for run in _runs(block) for loop in _fuse_run(run, repeated)]


def _runs(block: ir.Block) -> list[list[ir.Operation]]:
    """The generics of a block that nothing else which touches memory separates."""
    runs: list[list[ir.Operation]] = [[]]
    for view in list(block.operations):
        operation = view.operation
        if operation.name == "linalg.generic":
            runs[-1].append(operation)
        elif not is_harmless(operation):
            runs.append([])
    return [run for run in runs if run]


def is_harmless(operation: ir.Operation) -> bool:
    """Whether an operation neither reads nor writes elements."""
    return operation.name in _HARMLESS or operation.name.startswith(("arith.", "math."))


def _fuse_run(run: list[ir.Operation], repeated: RepeatedCode) -> list[ir.Operation]:
    equal = Equal()
    for generic in run:
        _put_rows_outside(generic)
    nests = [nest_of(generic, equal) for generic in run]
    loops: list[ir.Operation] = []
    start = 0
    while start < len(nests):
        group = _group_from(nests, start, equal)
        if group is None:
            start += 1
            continue
        loops.append(row_code.write(group.rows, group.nests, equal, repeated))
        start += len(group.nests)
    return loops


def _put_rows_outside(generic: ir.Operation) -> None:
    """Let what is added up come after the loops over rows, if neighbours in memory are added up innermost; else, where rows are
    added up, each times a number (a single row times a matrix), let vectors of their columns be, if registers hold these: the
    loop over columns becomes the innermost."""
    reductions = iterators(generic)
    last = len(reductions) - 1
    if not reductions or not reductions[last]:
        return
    operands = accesses(generic)
    dense = [dim for dim in range(last + 1) if all(access.step(dim) in (0, 1) for access in operands)]
    if last in dense:
        interchange(generic, sorted(range(last + 1), key=lambda dim: reductions[dim]))
        return
    lengths = extents(operands, last + 1)
    columns = [
        dim for dim in dense if not reductions[dim] and operands[-1].step(dim) == 1 and _are_held(lengths[dim])
    ]
    if columns:
        interchange(generic, [*(dim for dim in range(last + 1) if dim != columns[-1]), columns[-1]])


def _group_from(nests: list[Nest | None], start: int, equal: Equal) -> Group | None:
    """The longest group that begins with nest ``start``, if it is worth it."""
    seed = next((n for n in nests[start:] if n is None or any(n.reductions)), None)
    if seed is None:
        return None
    rows = [equal.find(seed.lengths[dim]) for dim in turning(seed, equal) if dim < seed.parallel]
    group = Group(rows or [1] * min(seed.parallel, 1))
    for nest in nests[start:]:
        if nest is None or not fits(nest, group, equal) or not group.join(nest, equal):
            break
    several = len(group.nests) > 1 or _adds_up_columns(seed)
    return group if seed in group.nests and several and is_long(group, equal) else None


def _adds_up_columns(nest: Nest) -> bool:
    """Whether a nest gains by itself: its sums are columns that registers hold, which LLVM's loops keep in memory."""
    return any(nest.reductions) and not nest.reductions[-1] and _are_held(nest.lengths[-1])


def _are_held(columns: Length | None) -> bool:
    """Whether registers hold a number for each of so many columns."""
    return isinstance(columns, int) and columns > 1 and of_host().holds(columns)


def is_long(group: Group, equal: Equal) -> bool:
    """Whether rows have enough elements for it to pay."""
    longest = 1
    for nest in group.nests:
        count = 1
        for dim in _inside(nest, group, equal):
            found = equal.find(nest.lengths[dim])
            count *= found if isinstance(found, int) else _FEWEST
        longest = max(longest, count)
    return longest >= _FEWEST


def fits(nest: Nest, group: Group, equal: Equal) -> bool:
    """Whether the nest's outer loops are those of the group, and what is inside runs along memory."""
    if row_loops(nest, group.rows, equal) is None or len(nest.operation.results):
        return False
    # What is done with each element would be left to one thread.
    if not group.rows and not all(nest.reductions[dim] for dim in turning(nest, equal)):
        return False
    plain = all(
        isinstance(result, ir.AffineDimExpr | ir.AffineConstantExpr) for place in nest.buffers for result in place.results
    )
    if not plain or any(place.written and place.root is None for place in nest.places):
        return False
    # What a pass adds up is written once, after its innermost loop: running sums are not.
    summed = [dim for dim, reduces in enumerate(nest.reductions) if reduces]
    if any(place.written and any(uses(result, summed) for result in place.results) for place in nest.places):
        return False
    inside = _inside(nest, group, equal)
    if inside and not is_dense_along(nest, inside[-1]):
        return False
    everywhere = set(turning(nest, equal))
    return not any(nest.reductions) or any(
        {result.position for result in place.results if isinstance(result, ir.AffineDimExpr)} >= everywhere
        for place in nest.places
        if not place.written
    )


def _inside(nest: Nest, group: Group, equal: Equal) -> list[int]:
    """The loops inside a row."""
    return [dim for dim in turning(nest, equal) if dim not in (row_loops(nest, group.rows, equal) or [])]


def is_by_row(nest: Nest, place: Place, rows: list[Length], equal: Equal) -> bool:
    """Whether the nest meets, in each of its ``rows``, just that row of a buffer."""
    loops = row_loops(nest, rows, equal)
    if place.root is None or place.indices is None or loops is None:
        return False
    count = row_axes(place.root, rows, equal)
    several = {*turning(nest, equal), *loops}
    moving = [e.position for e in place.indices[:count] if isinstance(e, ir.AffineDimExpr) and e.position in several]
    return moving == loops and not any(uses(expression, loops) for expression in place.indices[count:])
