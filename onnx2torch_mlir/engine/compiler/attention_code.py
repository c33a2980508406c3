"""The loop of an attention: blocks of rows, each of which goes from scores to products while it lies in the nearest caches.

The columns of both right operands are packed before, those of all batches. A thread holds the scores of one block of rows,
and what becomes of them, where the next block's follow.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, func, memref, scf

from onnx2torch_mlir.engine.compiler import column_packing, profiling, threads
from onnx2torch_mlir.engine.compiler.attention import FEWEST_ROWS, Found
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction
from onnx2torch_mlir.engine.compiler.contraction_rows import MOST_ROWS, RowsKind
from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address
from onnx2torch_mlir.engine.compiler.nests import row_axes
from onnx2torch_mlir.engine.compiler.parallel_loops import parallel, thread_count, worker
from onnx2torch_mlir.engine.compiler.repeated_code import RepeatedCode, alike
from onnx2torch_mlir.engine.compiler.row_code import Writer, row_of, settle
from onnx2torch_mlir.engine.compiler.scalar_code import Scalar, constant, emit
from onnx2torch_mlir.engine.compiler.tile_rows import even_parts
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.compiler.walks import bytes_on, index_of, word_of

_BYTES = 4
_HELD = 256 << 10
"""Bytes of scores that a thread holds: they stay in the second-level cache beside the columns that they meet."""


def kinds_of(found: Found) -> set[RowsKind]:
    """The functions of rows that the code of an attention calls."""
    return {_kind(contraction) for contraction in (found.scores, found.products)}


def packed_of(found: Found) -> set[tuple[int, int]]:
    """The numbers of segments and batches of the columns that it packs."""
    return {(len(contraction.segments), len(contraction.batches)) for contraction in (found.scores, found.products)}


def _kind(found: Contraction) -> RowsKind:
    return RowsKind(len(found.batches), len(found.rows), len(found.merged()))


def write(found: Found, unit: VectorUnit, context: ir.Value, repeated: RepeatedCode) -> ir.Operation:
    """Replace an attention by one loop where its products are, which is returned; ``context`` is the call's.

    Where only the run tells how many rows there are, nests and sums stay beside it for few of them.
    """
    products, members, roots = found.products.generic, found.members, found.roots
    profiling.bring(members)
    with ir.InsertionPoint(products), products.location:
        if found.scores.known_rows is not None:
            group = alike(found.rows, found.every, found.private, [context])
            loop = repeated.written(group, products, lambda: _Code(found, unit, context).loop())
            settle(members, roots, found.private, loop)
            return loop
        sizes = Sizes(found.scores)
        rows = sizes.count_of(found.scores.rows)
        many = arith.CmpIOp(arith.CmpIPredicate.sge, rows, sizes.number(FEWEST_ROWS)).result
        branch = scf.IfOp(many, [], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            end = scf.YieldOp([])
        with ir.InsertionPoint(end):
            loop = _Code(found, unit, context).loop()
        for member in members:
            member.detach_from_parent()
            branch.else_block.append(member)
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp([])
    settle([], roots, set(), branch.operation)
    return loop


@dataclass(frozen=True)
class _Columns:
    """Packed columns of all batches: where, how many of each, and the bytes of a batch."""

    buffer: ir.Value
    place: ir.Value
    count: Scalar
    far: Scalar


@dataclass(frozen=True)
class _Block:
    """Rows that a turn of the loop is for: a batch, the first row and how many; the thread that does it."""

    batch: Scalar
    first: Scalar
    count: Scalar
    thread: ir.Value


class _Code:
    """Emits at the insertion point."""

    def __init__(self, found: Found, unit: VectorUnit, context: ir.Value) -> None:
        self._found, self._unit, self._context = found, unit, context
        self._sums = (found.scores, found.products)
        self._sizes = tuple(Sizes(contraction) for contraction in self._sums)
        self._tile = _number(unit.rows)
        self._row_bytes = self._count(0, [found.scores.column or 0]) * _BYTES

    def loop(self) -> ir.Operation:
        """The loop, and all around it."""
        found = self._found
        columns = [self._columns(number) for number in (0, 1)]
        source, target = address(found.scores.value(found.scores.left)), address(found.products.value(2))
        rows, batches = self._count(0, found.scores.rows), self._count(0, found.scores.batches)
        height = self._height(rows)
        writer = Writer(found.rows, found.nests, found.private - {found.given, found.made}, found.equal)
        rooms = {found.given: self._room(found.given, height)}
        shared = writer.may_share(found.given, found.made)
        rooms[found.made] = rooms[found.given] if shared else self._room(found.made, height)
        loop = parallel([_index(batches), _index(_ceiling(rows, height))])
        body = loop.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_terminator(body):
            writer.enter()
            batch, block_number = (_word(argument) for argument in body.arguments)
            first = block_number * height
            block = _Block(batch, first, emit("arith.minsi", rows - first, height), worker())
            given, made = (self._held(rooms[root], block, height) for root in (found.given, found.made))
            self._sum(0, source, columns[0], given, block)
            self._nests(writer, rooms, block)
            self._sum(1, made, columns[1], target, block)
        for buffer in {*rooms.values(), *(each.buffer for each in columns)}:
            memref.DeallocOp(buffer)
        writer.free()
        return loop

    def _count(self, number: int, dims: list[int]) -> Scalar:
        return Scalar(self._sizes[number].count_of(dims))

    def _step(self, number: int, operand: int, dim: int) -> Scalar:
        return Scalar(self._sizes[number].step(operand, dim))

    def _columns(self, number: int) -> _Columns:
        """The columns of a sum's right operand, packed."""
        found, right = self._sums[number], self._sums[number].right
        dims = [] if found.column is None else [found.column]
        count = self._count(number, dims)
        step = self._step(number, right, dims[0]) if dims else _number(_BYTES)
        batches = self._count(number, found.batches)
        panels = _ceiling(count, _number(self._unit.columns))
        each = self._count(number, found.segments) * self._unit.columns
        panel = each * _BYTES
        buffer = _allocated([], ir.F32Type.get(), [_index(each * panels * batches)])
        place, source = address(buffer), address(found.value(right))
        words = [panel, panels, count, step]
        for dim in (*found.segments, *found.batches):
            words += [self._count(number, [dim]), self._step(number, right, dim)]
        name = threads.spread_name(column_packing.batches_name(len(found.segments), len(found.batches)))
        _call(name, [self._context, (panels * batches).value, each.value, place, source], words)
        return _Columns(buffer, place, count, panel * panels)

    def _height(self, rows: Scalar) -> Scalar:
        """The rows of a block: as even as they are in whole tiles."""
        one, tile = _number(1), self._tile
        fitting = emit("arith.divui", _number(_HELD), emit("arith.maxsi", self._row_bytes, one))
        tiles = emit("arith.maxsi", emit("arith.divui", emit("arith.minsi", fitting, _number(MOST_ROWS)), tile), one)
        some = emit("arith.maxsi", rows, one)
        return _ceiling(_ceiling(some, _ceiling(some, tiles * tile)), tile) * tile

    def _room(self, root: ir.Value, height: Scalar) -> ir.Value:
        """Where each thread holds those rows of a buffer that are a block's."""
        type_, sizes = row_of(root, row_axes(root, self._found.rows, self._found.equal))
        first = [thread_count(self._found.products.generic), _index(height)]
        return _allocated([ir.ShapedType.get_dynamic_size(), *type_.shape], type_.element_type, [*first, *sizes])

    def _held(self, room: ir.Value, block: _Block, height: Scalar) -> ir.Value:
        """A pointer to the rows that a thread holds, as if all rows before the block's were there too."""
        before = _word(block.thread) * height - block.first
        return bytes_on(address(room), (before * self._row_bytes).value)

    def _nests(self, writer: Writer, rooms: dict[ir.Value, ir.Value], block: _Block) -> None:
        """What lies between the sums, for each row of a block."""
        scores = self._found.scores
        outer = _places(block.batch, [self._count(0, [dim]) for dim in scores.batches])
        loop = scf.ForOp(index(0), _index(block.count), index(1))
        with ir.InsertionPoint(loop.body):
            here = loop.induction_variable
            writer.held = {root: (room, [block.thread, here]) for root, room in rooms.items()}
            inner = _places(block.first + _word(here), [self._count(0, [dim]) for dim in scores.rows])
            writer.row([_index(place) for place in (*outer, *inner)])
            scf.YieldOp([])

    def _sum(self, number: int, left: ir.Value, columns: _Columns, result: ir.Value, block: _Block) -> None:
        """The sums of a block's rows. Scores are held, and so is what products are made of: batch upon batch, row by row."""
        found = self._sums[number]
        free = found.left if number == 0 else 2
        words = [block.batch, block.first, block.count, columns.count, columns.far]
        for position, dim in enumerate((*found.batches, *found.rows)):
            below = found.rows[position - len(found.batches) + 1 :]
            held = self._row_bytes * self._count(number, below) if position >= len(found.batches) else _number(0)
            steps = [self._step(number, free, dim), held]
            words += [self._count(number, [dim]), *(steps if number == 0 else reversed(steps))]
        *outer, inner = found.merged()
        words += [word for group in outer for word in (self._count(number, group), self._step(number, found.left, group[-1]))]
        _call(_kind(found).name, [left, columns.place, result], [*words, self._count(number, inner)])


def rows_of_blocks(rows: int | None, tile: int) -> set[int] | None:
    """How many rows blocks may have (`_height`) if so many fall into them and tiles have ``tile``; None if nobody knows."""
    if rows is None:
        return None
    found = set()
    for tiles in range(1, max(MOST_ROWS // tile, 1) + 1):
        height = -(-max(even_parts(rows, tiles * tile), default=0) // tile) * tile
        found |= {min(height, rows), rows % height} if height else set()
    return found


def _places(number: Scalar, counts: list[Scalar]) -> list[Scalar]:
    """The place along each dim of so many, outer ones first, of the one with this number."""
    places: list[Scalar] = []
    for count in reversed(counts[1:]):
        places.insert(0, emit("arith.remui", number, count))
        number = emit("arith.divui", number, count)
    return [number, *places] if counts else []


def _allocated(inner: list[int], element: ir.Type, sizes: list[ir.Value]) -> ir.Value:
    """An array of the first of ``sizes`` along its first axis, then of ``inner`` ones, where open of the other ``sizes``."""
    type_ = ir.MemRefType.get([ir.ShapedType.get_dynamic_size(), *inner], element)
    buffer: ir.Value = memref.AllocOp(type_, sizes, []).result
    return buffer


def _call(name: str, first: list[ir.Value], words: list[Scalar]) -> None:
    func.CallOp([], ir.FlatSymbolRefAttr.get(name), [*first, *(word.value for word in words)])


def _ceiling(one: Scalar, other: Scalar) -> Scalar:
    return emit("arith.ceildivsi", one, other)


def _number(value: int) -> Scalar:
    return constant(value, ir.IntegerType.get_signless(64))


def _word(value: ir.Value) -> Scalar:
    return Scalar(word_of(value))


def _index(value: Scalar) -> ir.Value:
    return index_of(value.value)
