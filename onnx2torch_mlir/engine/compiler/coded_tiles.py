"""Tiles of packed codes (packed_codes.py) times rows that turned out to be narrower numbers (narrowed_rows.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx2torch_mlir.engine.compiler import coded_words, narrowed_rows, segment_loops
from onnx2torch_mlir.engine.compiler.code_text import (
    bytes_behind,
    called,
    column_masks,
    constants,
    declared,
    header_word,
    masked_load,
    stored_halves,
    words,
)
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

TILE = [
    *((f"%{name}", "!llvm.ptr") for name in ("header", "a", "rows", "b", "c")),
    *words(["far", "columns", "steps"]),
    ("%add", "i1"),
]
"""What a tile takes: the header of the codes, its first row, the table of rows from that on (of which the second entry of each
is its place in the result), a panel of columns, the result; how many bytes apart rows are; how many columns there are and how
many steps the tile takes along the sum; whether to add to the result."""
PANELS = [
    *((f"%{name}", "!llvm.ptr") for name in ("header", "narrow", "rows", "b", "c")),
    *words(["i", "m", "n", "k"]),
    ("%add", "i1"),
]
"""What `panels` take: the header, what has the rows (`narrowed_rows.made`), their table, columns and the result; which row is
the first, how many there are, how many columns, the sum's length, and whether to add to the result."""


def call(function: str, moved: Mapping[str, str]) -> str:
    """A call of what takes `PANELS`, each argument by its own name unless it is ``moved``."""
    return called(function, [(moved.get(name, name), type_) for name, type_ in PANELS])


def panels(
    unit: VectorUnit, name: str, steps: Sequence[str], heights: Sequence[int], tile: Callable[[int, str], list[str]]
) -> str:
    """@name(`PANELS`), which does what @o2m_coded_panels does: all tiles of one panel after the other.

    ``steps`` compute ``%steps``; a ``tile`` of some rows is called by the words for that, of what it is given.
    """
    moved = {"%a": "%first_row", "%rows": "%row_place", "%b": "%bj", "%c": "%cj"}
    given = [(moved.get(argument, argument), type_) for argument, type_ in TILE]

    def at_rows(rows: int) -> str:
        lines = [
            "%before = arith.addi %i, %row : i64",
            "%passed = arith.muli %before, %far : i64",
            bytes_behind("%first_row", "%first", "%passed"),
            *tile(rows, f"({', '.join(v for v, _ in given)}) : ({', '.join(t for _, t in given)}) -> ()"),
        ]
        return "\n".join(lines)

    lines = [
        f"func.func private @{name}({declared(PANELS)}) {{",
        *constants(none=0, one=1, width=unit.columns, head=narrowed_rows.HEAD_BYTES),
        *header_word("%panel_bytes", "%header", coded_words.PANEL),
        *header_word("%far", "%narrow", narrowed_rows.FAR),
        bytes_behind("%first", "%narrow", "%head"),
        *steps,
        "scf.for %j = %none to %n step %width : i64 {",
        "%panel = arith.divui %j, %width : i64",
        "%skipped = arith.muli %panel, %panel_bytes : i64",
        bytes_behind("%bj", "%b", "%skipped"),
        "%left_over = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left_over, %width : i64",
        "%cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        *segment_loops.down_rows(heights, "%m", at_rows),
        "}",
        "return",
        "}",
    ]
    return "\n".join(lines)


class Tile:
    """A function that computes a tile: some rows, and two vectors of columns."""

    def __init__(self, unit: VectorUnit, rows: int) -> None:
        self.unit, self.rows = unit, rows
        self.floats, self.ints = (f"vector<{unit.lanes}x{kind}>" for kind in ("f32", "i32"))
        self.cells = [(row, half) for row in range(rows) for half in range(2)]

    @property
    def types(self) -> str:
        """Those of all sums."""
        return ", ".join([self.floats] * len(self.cells))

    def begun(self) -> list[str]:
        """``%a0`` …: the rows; ``%c0_0`` …: where the sums go; ``%start#0`` …: the sums so far."""
        lines = [f"%zero = arith.constant dense<0.0> : {self.floats}", *column_masks(self.unit.lanes)]
        for row in range(self.rows):
            before = f"%a{row - 1}" if row else "%a"
            lines += [
                bytes_behind(f"%a{row}", before, "%far" if row else "%none"),
                f"%oc{row}_at = llvm.getelementptr %rows[{2 * row + 1}] : (!llvm.ptr) -> !llvm.ptr, i64",
                f"%oc{row} = llvm.load %oc{row}_at : !llvm.ptr -> i64",
                bytes_behind(f"%c{row}_0", "%c", f"%oc{row}"),
                f"%c{row}_1 = llvm.getelementptr %c{row}_0[{self.unit.lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            ]
        lines.append(f"%start:{len(self.cells)} = scf.if %add -> ({self.types}) {{")
        lines += [
            masked_load(f"%l{row}_{half}", f"%c{row}_{half}", f"%m{half}", self.unit.lanes) for row, half in self.cells
        ]
        return [
            *lines,
            f"scf.yield {', '.join(f'%l{row}_{half}' for row, half in self.cells)} : {self.types}",
            "} else {",
            f"scf.yield {', '.join(['%zero'] * len(self.cells))} : {self.types}",
            "}",
        ]

    def stored(self, sums: Sequence[str]) -> list[str]:
        """The sums go where they belong; ``%lanes`` is there."""
        return stored_halves(dict(zip(self.cells, sums, strict=True)), self.unit.lanes, "f32", known="%lanes")
