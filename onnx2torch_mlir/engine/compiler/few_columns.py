"""The last few columns of packed weights: with vectors along the sum, for a vector of columns would be empty for the most part.

Of 67 columns three are left behind four vectors of sixteen. They are packed by themselves (packed_weights.py): of each run of
the innermost segment, the numbers of a vector of steps side by side, of one column after the other. For a tile such columns lie
a few numbers apart from one step to the next, which tells them from others. A tile has a vector of partial sums for each row
and column, which are added up at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from onnx2torch_mlir.engine.compiler import run_sums
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, masked_load
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, all_known
from onnx2torch_mlir.engine.compiler.register_tile import Tile
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import Packing

_BYTES = 4
_MOST = 0.4
"""What part of a vector they fill at most."""
_PAYS = 1.5
"""By how much more steps a vector of columns takes than vectors along the sum are to take."""


def apart(unit: VectorUnit, found: Contraction, packing: Packing) -> Packing:
    """How the weights of a contraction are packed if the last few columns are by themselves, where there are some and that
    pays; else, or if there is another reason to pack them in another way, as before."""
    if packing.codes or packing.parts > 1 or found.known_rows == 1:
        return packing
    lengths = all_known(found.known_segments if not packing.windows else [found.fixed_length(found.segments[-1])])
    few = count(unit, packing.columns[0], lengths)
    return replace(packing, few=few, run=lengths[-1]) if few and lengths else packing


def count(unit: VectorUnit, columns: int, lengths: list[int] | None) -> int:
    """How many of so many columns are packed by themselves, for segments of these lengths."""
    few = columns % unit.lanes
    if columns < unit.lanes or not 0 < few <= _MOST * unit.lanes or not lengths or not all(lengths):
        return 0
    vectors = math.prod(lengths[:-1]) * -(-lengths[-1] // unit.lanes)
    taken = (few + 1) * vectors + 2 * (few + 1)
    return few if math.prod(lengths) >= _PAYS * taken else 0


def heights(unit: VectorUnit, few: int) -> list[int]:
    """Rows of the tiles that there are, the highest first: as many as registers hold partial sums for, beside a vector of each
    column and one of a row; and one."""
    fitting = (unit.registers - 1 - few) // few
    return sorted({min(unit.rows, fitting - fitting % 2), 1}, reverse=True)


def tile(unit: VectorUnit, size: TileSize) -> str:
    """The text of a tile (`tile_size.tile_types`)."""
    return _Tile(unit, size).text()


class _Tile(Tile):
    def __init__(self, unit: VectorUnit, size: TileSize) -> None:
        super().__init__(unit, size)
        self.few = size.few
        self.cells = [(row, column) for row in range(size.rows) for column in range(size.few)]

    def _masks(self) -> None:
        self.emit(
            *run_sums.end_of_run(self.unit.lanes, f"%n{self.segments - 1}"),
            f"%bytes = arith.constant {_BYTES} : i64",
            "%past_bytes = arith.muli %past, %bytes : i64",
            f"%vector_bytes = arith.constant {_BYTES * self.unit.lanes} : i64",
        )

    def _asks(self) -> None:
        """Nothing is asked for in advance: these columns are few, and the rows have been met."""

    def _initial(self) -> list[str]:
        return ["%zero"] * len(self.cells)

    def _dense(self, first: str, sums: list[str], b: str) -> tuple[list[str], str]:
        rows = [f"%run{row}" for row in range(self.rows)]
        for row, name in enumerate(rows):
            self.emit(f"{name} = llvm.getelementptr %a{row}[{first}] : (!llvm.ptr, i64) -> !llvm.ptr, f32")

        def step(tag: str, place: str, before: Sequence[str], masked: bool) -> list[str]:
            return self._along(tag, place, rows, before, b, masked=masked)

        found = run_sums.along_run(self.emit, self.unit.lanes, sums, step)
        self.emit(f"%passed = arith.muli %n{self.segments - 1}, %by_step : i64", bytes_behind("%after", b, "%passed"))
        return found, "%after"

    def _along(self, tag: str, place: str, rows: list[str], sums: Sequence[str], b: str, *, masked: bool) -> list[str]:
        """The products of a vector of each row by one of each column, added to the ``sums``."""
        self.emit(f"%{tag}far = arith.muli {place}, %by_step : i64", bytes_behind(f"%{tag}b0", b, f"%{tag}far"))
        step = "%past_bytes" if masked else "%vector_bytes"
        for column in range(1, self.few):
            self.emit(bytes_behind(f"%{tag}b{column}", f"%{tag}b{column - 1}", step))
        for row, source in enumerate(rows):
            self.emit(f"%{tag}a{row} = llvm.getelementptr {source}[{place}] : (!llvm.ptr, i64) -> !llvm.ptr, f32")

        def loaded(name: str, source: str) -> str:
            self.emit(
                masked_load(name, source, "%mask", self.unit.lanes)
                if masked
                else f"{name} = llvm.load {source} {{alignment = 4 : i64}} : !llvm.ptr -> {self.vector}"
            )
            return name

        columns = [loaded(f"%{tag}y{column}", f"%{tag}b{column}") for column in range(self.few)]
        found = []
        for row in range(self.rows):
            x = loaded(f"%{tag}x{row}", f"%{tag}a{row}")
            for column, y in enumerate(columns):
                found.append(f"%{tag}s{row}_{column}")
                self.emit(f"{found[-1]} = math.fma {x}, {y}, {sums[len(found) - 1]} : {self.vector}")
        return found

    def _store(self, sums: list[str]) -> None:
        """The sums of each row, side by side; those of some rows are added up together."""
        part, together = f"vector<{self.few}xf32>", self.unit.lanes // self.few
        self.emit(f"%nothing = arith.constant dense<0.0> : {part}")
        # All are loaded before one is stored: the last row may be there twice.
        for row in range(self.rows):
            self._row("c", row)
            self.emit(
                f"%old{row} = scf.if %add -> ({part}) {{",
                f"%there{row} = llvm.load %c{row} {{alignment = 4 : i64}} : !llvm.ptr -> {part}",
                f"scf.yield %there{row} : {part}",
                "} else {",
                f"scf.yield %nothing : {part}",
                "}",
            )
        for first in range(0, self.rows, together):
            rows = range(first, min(first + together, self.rows))
            total = run_sums.added_up(self.emit, sums[first * self.few : rows.stop * self.few], self.unit.lanes, f"t{first}_")
            for row in rows:
                lanes = list(range((row - first) * self.few, (row - first + 1) * self.few))
                self.emit(
                    f"%new{row} = vector.shuffle {total}, {total} {lanes} : {self.vector}, {self.vector}",
                    f"%sum{row} = arith.addf %new{row}, %old{row} : {part}",
                    f"llvm.store %sum{row}, %c{row} {{alignment = 4 : i64}} : {part}, !llvm.ptr",
                )
