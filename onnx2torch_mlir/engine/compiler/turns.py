"""Copies whose result is dense along another axis than what is copied: squares of numbers are turned in registers.

A loop that reads numbers far apart to write them side by side, or the other way round, takes a line of the cache for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf

from onnx2torch_mlir.engine.compiler import woven_lines
from onnx2torch_mlir.engine.compiler.code_text import masked_load, masked_store, stored_if, turned
from onnx2torch_mlir.engine.compiler.dense_copies import Copy, match, moved
from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address
from onnx2torch_mlir.engine.compiler.parallel_loops import TURN, parallel
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import append, functions, index_of, named, symbol, word_of

_MOST_ROWS = 16
"""Of a square, so that it stays in registers."""
_SQUARES_OF_COLUMNS = 4
"""Beside each other that a thread turns at a time: whole lines of the cache, wherever the result begins."""


def replace(module: ir.Module) -> list[ir.Operation]:
    """Replace the copies of @main that turn dense axes by loops over squares, or over lines of few numbers; these loops."""
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    loops: list[ir.Operation] = []
    texts: dict[str, str] = {}
    for copy in map(match, named(main, "linalg.generic")):
        if copy is None:
            continue
        weave = woven_lines.of(copy)
        if weave is not None:
            texts.setdefault(weave.function, weave.text())
            loops.append(weave.write())
        elif _is_wide(copy):
            texts.setdefault(_function(copy.width), _square(copy.width))
            loops.append(_write(copy))
    for text in texts.values():
        append(module, text)
    return loops


def _is_wide(copy: Copy) -> bool:
    """Whether no side is known to be less than half a square's."""
    least = max(_side(copy.width) // 2, 2)
    sides = [copy.fixed_length(dim) for dim in (copy.across, copy.along)]
    return all(side is None or side >= least for side in sides)


def _function(width: int) -> str:
    return f"{TURN}{width}"


def _side(width: int) -> int:
    """How many elements of so many bytes a row of a square has, and a column."""
    return min(4 * of_host().lanes // width, _MOST_ROWS)


def _write(copy: Copy) -> ir.Operation:
    """The loops over outer dims and squares, in the place of the nest.

    They are shared among threads along the side that is longer, as what makes an image's pixels and what reads them is.
    """
    lanes = _side(copy.width)
    generic = copy.generic
    with ir.InsertionPoint(generic), generic.location:
        sizes = Sizes(copy)
        squares = _Squares(
            lanes,
            _function(copy.width),
            [address(value) for value in generic.operands],
            [[sizes.step(operand, dim) for dim in (*copy.outer, copy.across, copy.along)] for operand in (0, 1)],
            sizes.count(copy.across),
            sizes.count(copy.along),
        )
        turns = [index_of(sizes.count(dim)) for dim in copy.outer]
        high, long = (copy.fixed_length(dim) for dim in (copy.across, copy.along))
        by_columns = high is not None and long is not None and long > high
        count, size = (squares.columns, lanes * _SQUARES_OF_COLUMNS) if by_columns else (squares.rows, lanes)
        loop = parallel([*turns, index_of(arith.CeilDivSIOp(count, sizes.number(size)).result)])
        body = loop.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_terminator(body):
            *outer, part = (word_of(turn) for turn in body.arguments)
            first = arith.MulIOp(part, sizes.number(size)).result
            if by_columns:
                behind = index_of(arith.MinSIOp(arith.AddIOp(first, sizes.number(size)).result, count).result)
                with _loop(index(0), index_of(squares.rows), lanes) as row, _loop(index_of(first), behind, lanes) as column:
                    squares.turn(outer, row, column)
            else:
                with _loop(index(0), index_of(squares.columns), lanes) as column:
                    squares.turn(outer, first, column)
    generic.erase()
    return loop


@dataclass(frozen=True)
class _Squares:
    """What is turned: the pointers to what is copied and to the result, their steps in bytes, and how many rows and columns."""

    lanes: int
    function: str
    places: list[ir.Value]
    steps: list[list[ir.Value]]
    rows: ir.Value
    columns: ir.Value

    def turn(self, outer: list[ir.Value], row: ir.Value, column: ir.Value) -> None:
        """A call at the insertion point for the square that begins at this row and column."""
        row, column = (_before_the_end(at, of, self.lanes) for at, of in ((row, self.rows), (column, self.columns)))
        source, target = (moved(place, [*outer, row], step) for place, step in zip(self.places, self.steps, strict=True))
        source, target = (moved(place, [column], step[-1:]) for place, step in zip((source, target), self.steps, strict=True))
        height, width = arith.SubIOp(self.rows, row).result, arith.SubIOp(self.columns, column).result
        given = [target, source, height, width, self.steps[1][-2], self.steps[0][-1]]
        func.CallOp([], ir.FlatSymbolRefAttr.get(self.function), given)


@contextmanager
def _loop(first: ir.Value, behind: ir.Value, step: int) -> Iterator[ir.Value]:
    """A loop at the insertion point; inside of it the place, as a word."""
    loop = scf.ForOp(first, behind, index(step))
    with ir.InsertionPoint(loop.body):
        yield word_of(loop.induction_variable)
        scf.YieldOp([])


def _before_the_end(place: ir.Value, count: ir.Value, lanes: int) -> ir.Value:
    """Where a square begins: what does not fill the last one is copied with its neighbours, once more."""
    zero, width = (arith.ConstantOp(place.type, number).result for number in (0, lanes))
    last = arith.MaxSIOp(arith.SubIOp(count, width).result, zero).result
    value: ir.Value = arith.MinSIOp(place, last).result
    return value


def _square(width: int) -> str:
    """@o2m_turn, with the bytes of an element, (to, from, rows, columns, bytes between rows of the result, bytes between
    columns of what is copied).

    At most as many of each as a square has are copied; a column of what is copied is dense, and so is a row of the
    result. Fewer, where there are no more in all.
    """
    lanes, element = _side(width), f"i{8 * width}"
    vector, mask, wide = f"vector<{lanes}x{element}>", f"vector<{lanes}xi1>", f"vector<{lanes}xi64>"
    numbers = range(lanes)
    lines = [
        f"func.func private @{_function(width)}"
        "(%to: !llvm.ptr, %from: !llvm.ptr, %rows: i64, %columns: i64, %ts: i64, %fs: i64) {",
        *(f"%n{i} = arith.constant {i} : i64" for i in numbers),
        f"%lanes = arith.constant {lanes} : i64",
        f"%lane = arith.constant dense<[{', '.join(map(str, numbers))}]> : {wide}",
        f"%zero = arith.constant dense<0> : {vector}",
        "%high = arith.cmpi sge, %rows, %lanes : i64",
        "%long = arith.cmpi sge, %columns, %lanes : i64",
        "%whole = arith.andi %high, %long : i1",
        *(line for i in numbers for line in _place("f", "%from", "%fs", i) + _place("t", "%to", "%ts", i)),
        "scf.if %whole {",
        *(f"%v{i} = llvm.load %f{i} {{alignment = {width} : i64}} : !llvm.ptr -> {vector}" for i in numbers),
    ]
    turns, names = turned("w", [f"%v{i}" for i in numbers], lanes, element, width)
    lines += turns
    lines += [f"llvm.store {names[i]}, %t{i} {{alignment = {width} : i64}} : {vector}, !llvm.ptr" for i in numbers]
    lines += ["} else {"]
    lines.append(f"%none = arith.constant dense<false> : {mask}")
    for side, count in (("r", "%rows"), ("c", "%columns")):
        lines += [
            f"%{side}all = vector.broadcast {count} : i64 to {wide}",
            f"%{side}mask = arith.cmpi slt, %lane, %{side}all : {wide}",
            *(f"%{side}is{i} = arith.cmpi slt, %n{i}, {count} : i64" for i in numbers),
        ]
    for i in numbers:
        lines += [
            f"%rm{i} = arith.select %cis{i}, %rmask, %none : {mask}",
            masked_load(f"%u{i}", f"%f{i}", f"%rm{i}", lanes, element, width),
        ]
    turns, names = turned("x", [f"%u{i}" for i in numbers], lanes, element, width)
    lines += turns
    for i in numbers:
        lines += stored_if(f"%ris{i}", masked_store(names[i], f"%t{i}", "%cmask", lanes, element, width))
    return "\n".join([*lines, "}", "return", "}"])


def _place(tag: str, base: str, step: str, number: int) -> list[str]:
    return [
        f"%{tag}far{number} = arith.muli %n{number}, {step} : i64",
        f"%{tag}{number} = llvm.getelementptr {base}[%{tag}far{number}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
    ]
