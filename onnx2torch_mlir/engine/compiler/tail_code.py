"""The function of a tail: what it computes of a block of sums, row by row (see contraction_tails.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS
from onnx2torch_mlir.engine.compiler.contraction_tails import Follower, spread_of
from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.flatten import assemble, element_bytes, value_of
from onnx2torch_mlir.engine.compiler.likeness import captured
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, iterator_types, map_attributes
from onnx2torch_mlir.engine.compiler.row_lanes import Values, Vectors, is_by_lanes, is_dense, vectors_at_once
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import ask_for, bytes_on, copied, index_of, is_memref


@dataclass(frozen=True)
class _Rows:
    """Where an operand's rows are: their elements, whether there is one for each column, a pointer, and the element with which
    row ``i`` of the block begins.

    That is ``first`` + i * ``step``, where each of ``wraps`` adds something. Without ``step`` it is always the same.
    """

    element: ir.Type
    by_column: bool
    base: ir.Value
    first: ir.Value | None = None
    step: ir.Value | None = None
    wraps: tuple[_Wrap, ...] = ()


class _Wrap(NamedTuple):
    """After ``count`` of a group, of which the block begins with number ``place``, it goes on ``jump`` elements farther."""

    count: ir.Value
    place: ir.Value
    jump: ir.Value


def write_body(
    found: Follower, of_block: list[ir.Value], told: list[ir.Value], free: list[ir.Value], widths: list[int]
) -> None:
    """The nest over the rows and columns of one block (sums, row, rows, column, columns, across); ``told``: all the rest.

    Where no widths are told, all are alike: several vectors take turns whatever the number of columns is.
    """
    nest = found.nest
    rest = iter(told)
    operands: list[_Rows | ir.Value] = [
        next(rest) if kind == "scalar" else _rows_of(found, position, of_block, rest)
        for position, kind in enumerate(found.kinds)
    ]
    mapping = {value: next(rest) for value in free}
    for value in captured(nest):
        if value not in mapping:
            mapping[value] = value.owner.operation.clone().results[0]
    asked = [kind in ("all", "spread") for kind in found.kinds]
    turns = 1 if widths else vectors_at_once(of_host())
    _by_width(widths, of_block[4], lambda columns: _rows(nest, operands, mapping, of_block[2], columns, asked, turns))


def _by_width(widths: list[int], columns: ir.Value, write: Callable[[ir.Value | int], None]) -> None:
    """Branches for the ``widths``, and one for others: a number that is known leaves no rest behind the vectors."""
    if not widths:
        write(columns)
        return
    is_it = arith.CmpIOp(arith.CmpIPredicate.eq, columns, value_of(widths[0])).result
    branch = scf.IfOp(is_it, [], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        write(widths[0])
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        _by_width(widths[1:], columns, write)
        scf.YieldOp([])


def _rows(
    nest: ir.Operation,
    operands: list[_Rows | ir.Value],
    mapping: dict[ir.Value, ir.Value],
    count: ir.Value,
    columns: ir.Value | int,
    asked: list[bool],
    turns: int,
) -> None:
    """The loop over ``count`` rows of so many columns; the next rows are ``asked`` for, where the width is known. Where it is
    not, ``turns`` vectors take turns."""
    rows = index_of(count)
    zero, one = (arith.ConstantOp(ir.IndexType.get(), i).result for i in (0, 1))
    width = columns if isinstance(columns, int) else ir.ShapedType.get_dynamic_size()
    sizes = [] if isinstance(columns, int) else [columns]
    ahead = {
        number: _product(operand.step, count)
        for number, operand in enumerate(operands)
        if asked[number] and isinstance(columns, int) and isinstance(operand, _Rows) and operand.step is not None
    }
    moving = [operand for operand in operands if isinstance(operand, _Rows) and operand.first is not None]
    carried = [value for operand in moving if operand.first is not None for value in (operand.first, *_places(operand))]
    loop = scf.ForOp(zero, rows, one, carried)
    with ir.InsertionPoint(loop.body):
        held = iter(loop.inner_iter_args)
        after: list[ir.Value] = []
        here: list[ir.Value] = []
        for number, operand in enumerate(operands):
            if not isinstance(operand, _Rows):
                here.append(operand)
                continue
            begin = None if operand.first is None else next(held)
            if begin is not None:
                after += _following(operand, begin, [next(held) for _ in operand.wraps])
            base = operand.base if begin is None else _moved(operand.base, begin, operand.element)
            type_ = ir.MemRefType.get([width] if operand.by_column else [], operand.element)
            here.append(assemble(type_, [base, *(sizes if operand.by_column else [])]))
            if number in ahead:
                there = _moved(base, ahead[number], operand.element)
                # Rows may be far apart, so that the processor does not foresee the next.
                ask_for(there, width * element_bytes(operand.element), writing=number == len(operands) - 1)
        _columns(nest, here, mapping, columns, turns)
        scf.YieldOp(after)


def _rows_of(found: Follower, position: int, block: list[ir.Value], rest: Iterator[ir.Value]) -> _Rows:
    """Where the rows of an operand are in a block of (sums, row, rows, column, columns, across)."""
    sums, row, _, column, _, across = block
    value, kind = found.nest.operands[position], found.kinds[position]
    element = ir.MemRefType(value.type).element_type
    if kind == "sums":
        return _Rows(element, True, sums, value_of(0), value_of(BLOCK_COLUMNS))
    base = next(rest)
    if kind == "spread":
        groups = len(spread_of(value) or [])
        return _spread(_Rows(element, True, base, column), row, [next(rest) for _ in range(2 * groups - 1)])
    if kind == "part":
        groups = len(found.parts_of_rows(position))
        return _spread(_Rows(element, False, base, value_of(0)), row, [next(rest) for _ in range(2 * groups - 1)])
    if kind == "all":
        return _Rows(element, True, base, _sum(_product(row, across), column), across)
    if kind == "row":
        return _Rows(element, False, base, row, value_of(1))
    if kind == "column":
        return _Rows(element, True, _moved(base, column, element))
    return _Rows(element, False, base)


def _spread(rows: _Rows, row: ir.Value, told: list[ir.Value]) -> _Rows:
    """``rows``, of which each block begins with number ``row``, in groups of which tail_calls.py ``told``."""
    steps, counts = told[::2], told[1::2]
    assert rows.first is not None
    first, rest = rows.first, row
    wraps = []
    for step, count, outer in zip(steps, counts, steps[1:], strict=False):
        place, rest = arith.RemUIOp(rest, count).result, arith.DivUIOp(rest, count).result
        first = _sum(first, _product(place, step))
        wraps.append(_Wrap(count, place, arith.SubIOp(outer, _product(count, step)).result))
    return replace(rows, first=_sum(first, _product(rest, steps[-1])), step=steps[0], wraps=tuple(wraps))


def _places(rows: _Rows) -> list[ir.Value]:
    return [wrap.place for wrap in rows.wraps]


def _following(rows: _Rows, begin: ir.Value, places: list[ir.Value]) -> list[ir.Value]:
    """Where the next row begins, and its places in its groups."""
    assert rows.step is not None
    after = [_sum(begin, rows.step)]
    zero, one = value_of(0), value_of(1)
    carry = one
    for wrap, place in zip(rows.wraps, places, strict=True):
        moved = _sum(place, carry)
        wraps = arith.CmpIOp(arith.CmpIPredicate.eq, moved, wrap.count).result
        after[0] = _sum(after[0], arith.SelectOp(wraps, wrap.jump, zero).result)
        after.append(arith.SelectOp(wraps, zero, moved).result)
        carry = arith.SelectOp(wraps, one, zero).result
    return after


def _columns(
    nest: ir.Operation, operands: list[ir.Value], outside: dict[ir.Value, ir.Value], count: ir.Value | int, turns: int
) -> None:
    """The nest along ``count`` columns of one row."""
    arrays = [value for value in operands if is_memref(value.type) and ir.MemRefType(value.type).rank]
    if is_by_lanes(nest) and all(map(is_dense, arrays)):
        _on_vectors(nest, operands, outside, count, turns)
        return
    column = ir.AffineExpr.get_dim(0)
    ranks = [ir.MemRefType(value.type).rank if is_memref(value.type) else 0 for value in operands]
    maps = map_attributes(ir.AffineMap.get(1, 0, [column] * rank) for rank in ranks)
    generic = GenericOp([], operands[:-1], operands[-1:], maps, iterator_types([False]))
    source = nest.regions[0].blocks[0]
    target = generic.regions[0].blocks.append(*[argument.type for argument in source.arguments])
    mapping = outside | dict(zip(source.arguments, target.arguments, strict=True))
    with ir.InsertionPoint(target):
        for operation in source.operations:
            copied(operation.operation, mapping)


def _on_vectors(
    nest: ir.Operation, operands: list[ir.Value], outside: dict[ir.Value, ir.Value], count: ir.Value | int, turns: int
) -> None:
    """The same by vectors: of loops of few turns LLVM makes none, now and then. Columns that fill no vector are masked."""
    unit = of_host()

    def turn(column: ir.Value, lanes: Vectors) -> None:
        block = nest.regions[0].blocks[0]
        given: list[Values | None] = []
        for value, argument in zip(operands, block.arguments, strict=True):
            if not list(argument.uses):
                given.append(None)
            elif not is_memref(value.type):
                given.append(lanes.same(value))
            else:
                moves = ir.MemRefType(value.type).rank == 1
                given.append(lanes.load(value, [column] if moves else [], moves))
        (result,) = lanes.body(block, given, lambda _: (column, True), outside)
        lanes.store(result, operands[-1], [column])

    if not isinstance(count, int):
        first, end = index(0), index_of(count)
        if turns > 1:
            step = index(turns * unit.lanes)
            whole = arith.SubIOp(end, arith.RemUIOp(end, step).result).result
            several = scf.ForOp(first, whole, step)
            with ir.InsertionPoint(several.body):
                turn(several.induction_variable, Vectors(unit.lanes, turns))
                scf.YieldOp([])
            first = whole
        loop = scf.ForOp(first, end, index(unit.lanes))
        with ir.InsertionPoint(loop.body):
            left = arith.SubIOp(end, loop.induction_variable).result
            turn(loop.induction_variable, Vectors(unit.lanes, 1, left))
            scf.YieldOp([])
        return
    full, rest = divmod(count, unit.lanes)
    for first in range(0, full, vectors_at_once(unit)):
        turn(index(first * unit.lanes), Vectors(unit.lanes, min(vectors_at_once(unit), full - first)))
    if rest:
        turn(index(full * unit.lanes), Vectors(unit.lanes, 1, index(rest)))


def _moved(base: ir.Value, elements: ir.Value, type_: ir.Type) -> ir.Value:
    return bytes_on(base, _product(elements, value_of(element_bytes(type_))))


def _sum(one: ir.Value, other: ir.Value) -> ir.Value:
    total: ir.Value = arith.AddIOp(one, other).result
    return total


def _product(one: ir.Value, other: ir.Value) -> ir.Value:
    total: ir.Value = arith.MulIOp(one, other).result
    return total
