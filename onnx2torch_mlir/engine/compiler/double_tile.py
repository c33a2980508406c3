"""Tiles of sums of products of float64, rows by two vectors of columns, and what packs these columns (double_products.py)."""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.compiler import segment_loops
from onnx2torch_mlir.engine.compiler.code_text import (
    bytes_behind,
    column_masks,
    constants,
    declared,
    masked_load,
    masked_store,
    words,
)
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 8


def heights(unit: VectorUnit) -> list[int]:
    """Rows of tiles, powers of two, the highest first: their sums fill half of the registers."""
    return [rows for rows in (8, 4, 2, 1) if 4 * rows <= unit.registers]


def lanes_of(unit: VectorUnit) -> int:
    """Numbers of float64 in a register."""
    return unit.lanes // 2


def _segments(count: int, *sides: str) -> list[str]:
    return [f"k{letter}{i}" for i in range(count) for letter in ("n", *sides)]


def tile_arguments(segments: int) -> list[tuple[str, str]]:
    """The left operand, the table of rows from the tile's first, the packed columns, and the result at the first of them; how
    many of them there are; whether sums are added to the result."""
    pointers = [(f"%{name}", "!llvm.ptr") for name in ("a", "rows", "b", "c")]
    return [*pointers, ("%columns", "i64"), ("%add", "i1"), *words(_segments(segments, "a"))]


def tile_name(segments: int, rows: int) -> str:
    """The function of a tile."""
    return f"o2m_tile_f64_{segments}_{rows}"


def tile(unit: VectorUnit, segments: int, rows: int) -> str:
    """The text of a tile of so many rows."""
    return _Tile(unit, segments, rows).text()


class _Tile:
    def __init__(self, unit: VectorUnit, segments: int, rows: int) -> None:
        self.lanes, self.segments, self.rows = lanes_of(unit), segments, rows
        self.vector = f"vector<{self.lanes}xf64>"
        self.cells = [(row, half) for row in range(rows) for half in range(2)]
        self.lines: list[str] = []

    def emit(self, *lines: str) -> None:
        self.lines.extend(lines)

    def text(self) -> str:
        kinds = ", ".join([self.vector] * len(self.cells))
        last = self.segments - 1
        self.emit(
            f"func.func private @{tile_name(self.segments, self.rows)}({declared(tile_arguments(self.segments))}) {{",
            *constants(none=0, one=1, width=2 * self.lanes * _BYTES),
            f"%zero = arith.constant dense<0.0> : {self.vector}",
            *column_masks(self.lanes),
            f"%run = arith.muli %kn{last}, %width : i64",
            *segment_loops.places_of_rows(self.rows),
        )
        for row in range(self.rows):
            self.emit(f"%c{row}_0 = llvm.getelementptr %c{row}[0] : (!llvm.ptr) -> !llvm.ptr, f64")
            self.emit(f"%c{row}_1 = llvm.getelementptr %c{row}[{self.lanes}] : (!llvm.ptr) -> !llvm.ptr, f64")
        self.emit(f"%start:{len(self.cells)} = scf.if %add -> ({kinds}) {{")
        for row, half in self.cells:
            self.emit(masked_load(f"%i{row}_{half}", f"%c{row}_{half}", f"%m{half}", self.lanes, "f64", _BYTES))
        self.emit(f"scf.yield {', '.join(f'%i{row}_{half}' for row, half in self.cells)} : {kinds}", "} else {")
        self.emit(f"scf.yield {', '.join(['%zero'] * len(self.cells))} : {kinds}", "}")
        start = [f"%start#{i}" for i in range(len(self.cells))]
        rows = [f"%a{row}" for row in range(self.rows)]
        sums = segment_loops.around(self.emit, last, rows, start, self.vector, self._inner)
        for (row, half), value in zip(self.cells, sums, strict=True):
            self.emit(masked_store(value, f"%c{row}_{half}", f"%m{half}", self.lanes, "f64", _BYTES))
        self.emit("return", "}")
        return "\n".join(self.lines)

    def _inner(self, rows: Sequence[str], sums: Sequence[str], at: str) -> tuple[list[str], str]:
        """Step by step along the innermost segment: a number of each row, two vectors of columns."""
        last, kinds = self.segments - 1, ", ".join([self.vector] * len(sums))
        held = [f"%h{i}" for i in range(len(sums))]
        given = ", ".join(f"{h} = {s}" for h, s in zip(held, sums, strict=True))
        self.emit(
            bytes_behind("%here", "%b", at),
            f"%r:{len(sums)} = scf.for %k = %none to %kn{last} step %one iter_args({given}) -> ({kinds}) : i64 {{",
            f"%behind = arith.muli %k, %ka{last} : i64",
            "%passed = arith.muli %k, %width : i64",
            bytes_behind("%p0", "%here", "%passed"),
            f"%p1 = llvm.getelementptr %p0[{self.lanes}] : (!llvm.ptr) -> !llvm.ptr, f64",
            *(f"%b{half} = llvm.load %p{half} {{alignment = 8 : i64}} : !llvm.ptr -> {self.vector}" for half in range(2)),
        )
        for number, row in enumerate(rows):
            self.emit(
                bytes_behind(f"%q{number}", row, "%behind"),
                f"%x{number} = llvm.load %q{number} : !llvm.ptr -> f64",
                f"%w{number} = vector.broadcast %x{number} : f64 to {self.vector}",
            )
        after = []
        for (row_number, half), total in zip(self.cells, held, strict=True):
            after.append(f"%s{row_number}_{half}")
            self.emit(f"{after[-1]} = math.fma %w{row_number}, %b{half}, {total} : {self.vector}")
        self.emit(f"scf.yield {', '.join(after)} : {kinds}", "}", f"%after = arith.addi {at}, %run : i64")
        return [f"%r#{i}" for i in range(len(sums))], "%after"


def pack_arguments(segments: int) -> list[tuple[str, str]]:
    """Where columns go, and where the first of them lies; how many there are, and their step; the segments."""
    return [("%to", "!llvm.ptr"), ("%b", "!llvm.ptr"), *words(["columns", "nb", *_segments(segments, "b")])]


def pack(unit: VectorUnit, segments: int) -> str:
    """@o2m_pack_f64_S: the columns of a panel side by side, zeros beyond the last."""
    lanes = lanes_of(unit)
    vector = f"vector<{lanes}xf64>"
    lines = [
        f"func.func private @o2m_pack_f64_{segments}({declared(pack_arguments(segments))}) {{",
        *constants(none=0, one=1, bytes=_BYTES, all=2 * lanes, width=2 * lanes * _BYTES),
        f"%zero = arith.constant dense<0.0> : {vector}",
        "%nothing = arith.constant 0.0 : f64",
        "%dense = arith.cmpi eq, %nb, %bytes : i64",
        *column_masks(lanes),
    ]
    place, source = "%to", "%b"
    for i in range(segments):
        lines += [
            f"%end{i} = scf.for %i{i} = %none to %kn{i} step %one iter_args(%t{i} = {place}) -> (!llvm.ptr) : i64 {{",
            f"%f{i} = arith.muli %i{i}, %kb{i} : i64",
            bytes_behind(f"%b{i}", source, f"%f{i}"),
        ]
        place, source = f"%t{i}", f"%b{i}"
    lines.append("scf.if %dense {")
    for half in range(2):
        lines += [
            f"%q{half} = llvm.getelementptr {source}[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f64",
            f"%u{half} = llvm.getelementptr {place}[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f64",
            masked_load(f"%v{half}", f"%q{half}", f"%m{half}", lanes, "f64", _BYTES),
            f"llvm.store %v{half}, %u{half} {{alignment = 8 : i64}} : {vector}, !llvm.ptr",
        ]
    lines += [
        "} else {",
        "scf.for %j = %none to %all step %one : i64 {",
        "%is_there = arith.cmpi slt, %j, %columns : i64",
        "%fj = arith.muli %j, %nb : i64",
        bytes_behind("%bj", source, "%fj"),
        f"%tj = llvm.getelementptr {place}[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f64",
        "%v = scf.if %is_there -> (f64) {",
        "%found = llvm.load %bj : !llvm.ptr -> f64",
        "scf.yield %found : f64",
        "} else {",
        "scf.yield %nothing : f64",
        "}",
        "llvm.store %v, %tj : f64, !llvm.ptr",
        "}",
        "}",
        bytes_behind("%next", place, "%width"),
    ]
    done = "%next"
    for i in reversed(range(segments)):
        lines += [f"scf.yield {done} : !llvm.ptr", "}"]
        done = f"%end{i}"
    return "\n".join([*lines, "return", "}"])
