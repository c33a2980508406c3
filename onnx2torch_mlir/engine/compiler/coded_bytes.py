"""Packed columns that are codes (packed_codes.py) times rows that are bytes (byte_rows.py): a block's sums in i32, then scaled.

Neighbouring steps share a word of each column's codes, so that a mask leaves four bytes of it, which are summed up with four
bytes of a row: these lie in that order. What a zero point takes from a sum is known from the row's sum alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx2torch_mlir.engine.compiler import byte_rows, coded_words, segment_loops
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
from onnx2torch_mlir.engine.compiler.coded_columns import by_type
from onnx2torch_mlir.engine.compiler.integer_tile import add_fours
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_FEW = 2
_TILE = [
    *((f"%{name}", "!llvm.ptr") for name in ("header", "a", "rows", "b", "c")),
    *words(["far", "columns", "blocks"]),
    ("%add", "i1"),
]
"""What a tile takes: the header of the codes, its first row's bytes, the table of rows from that on (of which the second entry
of each is its place in the result), a panel of columns, the result; how many bytes apart rows are; how many columns and how
many blocks there are; whether to add to the result."""
_ARGUMENTS = [
    *((f"%{name}", "!llvm.ptr") for name in ("header", "bytes", "rows", "b", "c")),
    *words(["i", "m", "n", "k"]),
    ("%add", "i1"),
]
"""The same of @o2m_coded_bytes, for ``m`` rows from number ``i`` of ``bytes`` (`byte_rows.made`) on, and ``n`` columns."""


def call(moved: Mapping[str, str]) -> str:
    """A call of @o2m_coded_bytes, each argument by its own name unless it is ``moved``."""
    return called("o2m_coded_bytes", [(moved.get(name, name), type_) for name, type_ in _ARGUMENTS])


def functions(unit: VectorUnit) -> str:
    """@o2m_coded_bytes, which does what @o2m_coded_panels does, and its tiles."""
    tiles = [_Tile(unit, bits, rows).text() for bits in byte_rows.bits_known(unit) for rows in _heights(unit)]
    return "\n".join([*tiles, _panels(unit)])


def _heights(unit: VectorUnit) -> list[int]:
    """Rows of tiles, the highest first: a row takes two registers of integer sums and two of float sums, beside two of codes,
    of their bytes and of scales each, a mask, and the bytes of a row."""
    return sorted({(unit.registers - 8) // 4, _FEW, 1}, reverse=True)


def _panels(unit: VectorUnit) -> str:
    """The text of @o2m_coded_bytes: all tiles of one panel after the other."""

    def tile(rows: int) -> str:
        moved = {"%a": "%row_bytes", "%rows": "%place", "%b": "%bj", "%c": "%cj"}
        given = [(moved.get(name, name), type_) for name, type_ in _TILE]
        bits = byte_rows.bits_known(unit)
        return "\n".join(
            [
                "%before = arith.addi %i, %row : i64",
                "%passed = arith.muli %before, %far : i64",
                bytes_behind("%row_bytes", "%first", "%passed"),
                *by_type(bits, lambda each: [called(_Tile(unit, each, rows).name, given)]),
            ]
        )

    lines = [
        f"func.func private @o2m_coded_bytes({declared(_ARGUMENTS)}) {{",
        *constants(none=0, one=1, width=unit.columns, head=byte_rows.HEAD_BYTES),
        *header_word("%block", "%header", coded_words.BLOCK),
        *header_word("%panel_bytes", "%header", coded_words.PANEL),
        *header_word("%type", "%header", coded_words.TYPE),
        *header_word("%far", "%bytes", byte_rows.FAR),
        bytes_behind("%first", "%bytes", "%head"),
        "%blocks = arith.ceildivsi %k, %block : i64",
        "scf.for %j = %none to %n step %width : i64 {",
        "%panel = arith.divui %j, %width : i64",
        "%skipped = arith.muli %panel, %panel_bytes : i64",
        bytes_behind("%bj", "%b", "%skipped"),
        "%left_over = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left_over, %width : i64",
        "%cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        *segment_loops.down_rows(_heights(unit), "%m", tile),
        "}",
        "return",
        "}",
    ]
    return "\n".join(lines)


class _Tile:
    """The function of a tile: some rows, and two vectors of columns whose codes have so many bits."""

    def __init__(self, unit: VectorUnit, bits: int, rows: int) -> None:
        self.unit, self.bits, self.rows = unit, bits, rows
        self.floats, self.ints = (f"vector<{unit.lanes}x{kind}>" for kind in ("f32", "i32"))
        self.cells = [(row, half) for row in range(rows) for half in range(2)]

    @property
    def name(self) -> str:
        return f"o2m_byte_tile_{self.bits}_{self.rows}"

    def text(self) -> str:
        """All of it."""
        floats = ", ".join([self.floats] * len(self.cells))
        held = ", ".join(f"%t{row}_{half} = %start#{i}" for i, (row, half) in enumerate(self.cells))
        after = ", ".join(f"%y{row}_{half}" for row, half in self.cells)
        low_bits = sum((1 << self.bits) - 1 << byte for byte in range(0, 32, 8))
        lines = [
            f"func.func private @{self.name}({declared(_TILE)}) {{",
            *constants(none=0, one=1, lanes=self.unit.lanes, per=32 // self.bits),
            f"%zero = arith.constant dense<0.0> : {self.floats}",
            f"%ones = arith.constant dense<1> : vector<{2 * self.unit.lanes}xi16>",
            f"%low_bits = arith.constant dense<{low_bits - (low_bits >> 31 << 32)}> : {self.ints}",
            *column_masks(self.unit.lanes),
            *byte_rows.record_bytes(),
            *header_word("%coded", "%header", coded_words.RECORD),
            "%groups = arith.divui %block, %per : i64",
            *self._places(),
            f"%start:{len(self.cells)} = scf.if %add -> ({floats}) {{",
            *self._loads(),
            f"scf.yield {', '.join(f'%l{row}_{half}' for row, half in self.cells)} : {floats}",
            "} else {",
            f"scf.yield {', '.join(['%zero'] * len(self.cells))} : {floats}",
            "}",
            f"%all:{len(self.cells) + 2} = scf.for %number = %none to %blocks step %one"
            f" iter_args(%column = %b, %at = %none, {held}) -> (!llvm.ptr, i64, {floats}) : i64 {{",
            *coded_words.read_record(self.unit, self.bits, "%header", "%column"),
            *self._sums_of_block(),
            *self._scaled(),
            bytes_behind("%next_column", "%column", "%coded"),
            "%next_at = arith.addi %at, %record : i64",
            f"scf.yield %next_column, %next_at, {after} : !llvm.ptr, i64, {floats}",
            "}",
            *self._stores(),
        ]
        return "\n".join([*lines, "return", "}"])

    def _places(self) -> list[str]:
        """``%a0`` …: the rows' bytes; ``%c0_0`` …: where the sums go."""
        lines = []
        for row in range(self.rows):
            before = f"%a{row - 1}" if row else "%a"
            lines += [
                bytes_behind(f"%a{row}", before, "%far" if row else "%none"),
                f"%oc{row}_at = llvm.getelementptr %rows[{2 * row + 1}] : (!llvm.ptr) -> !llvm.ptr, i64",
                f"%oc{row} = llvm.load %oc{row}_at : !llvm.ptr -> i64",
                bytes_behind(f"%c{row}_0", "%c", f"%oc{row}"),
                f"%c{row}_1 = llvm.getelementptr %c{row}_0[{self.unit.lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            ]
        return lines

    def _loads(self) -> list[str]:
        return [
            masked_load(f"%l{row}_{half}", f"%c{row}_{half}", f"%m{half}", self.unit.lanes) for row, half in self.cells
        ]

    def _stores(self) -> list[str]:
        """The sums go where they belong."""
        sums = {cell: f"%all#{i + 2}" for i, cell in enumerate(self.cells)}
        return stored_halves(sums, self.unit.lanes, "f32", known="%lanes")

    def _sums_of_block(self) -> list[str]:
        """``%n0_0`` …: of a block, the sums of products of bytes, less what a zero point takes that all columns have."""
        quads, four = 8 // self.bits, f"vector<{4 * self.unit.lanes}xi8>"
        kinds = ", ".join([self.ints] * len(self.cells))
        lines = []
        for row in range(self.rows):
            lines += [
                bytes_behind(f"%r{row}", f"%a{row}", "%at"),
                f"%from{row}_at = llvm.getelementptr %r{row}[{byte_rows.LESS_ZERO}] : (!llvm.ptr) -> !llvm.ptr, i32",
                f"%from{row}_word = llvm.load %from{row}_at : !llvm.ptr -> i32",
                f"%from{row} = vector.broadcast %from{row}_word : i32 to {self.ints}",
                f"%x{row} = llvm.getelementptr %r{row}[{byte_rows.RECORD_HEAD}] : (!llvm.ptr) -> !llvm.ptr, i8",
            ]
        given = ", ".join(f"%h{row}_{half} = %from{row}" for row, half in self.cells)
        lines += [
            f"%n:{len(self.cells)} = scf.for %g = %none to %groups step %one iter_args({given}) -> ({kinds}) : i64 {{",
            *coded_words.words_of(self.unit, self.bits, "%g"),
            "%xfar = arith.muli %g, %per : i64",
        ]
        for row in range(self.rows):
            lines.append(bytes_behind(f"%g{row}", f"%x{row}", "%xfar"))
        sums = {cell: f"%h{cell[0]}_{cell[1]}" for cell in self.cells}
        for quad in range(quads):
            for half in range(2):
                lines += self._bytes(quad, half)
            for row in range(self.rows):
                tag = f"{quad}_{row}"
                lines += [
                    f"%q{tag}_at = llvm.getelementptr %g{row}[{quad}] : (!llvm.ptr) -> !llvm.ptr, i32",
                    f"%q{tag}_word = llvm.load %q{tag}_at : !llvm.ptr -> i32",
                    f"%q{tag}_all = vector.broadcast %q{tag}_word : i32 to {self.ints}",
                    f"%q{tag} = vector.bitcast %q{tag}_all : {self.ints} to {four}",
                ]
                for half in range(2):
                    name = f"%p{tag}_{half}"
                    lines += add_fours(self.unit, name, sums[row, half], f"%u{quad}_{half}", f"%q{tag}")
                    sums[row, half] = name
        return [*lines, f"scf.yield {', '.join(sums[cell] for cell in self.cells)} : {kinds}", "}"]

    def _bytes(self, quad: int, half: int) -> list[str]:
        """``%u``: every fourth byte's worth of the codes in a vector of words."""
        name, lines = f"{quad}_{half}", list[str]()
        word = f"%v{half}"
        if quad:
            lines += [
                f"%by{name} = arith.constant dense<{quad * self.bits}> : {self.ints}",
                f"%w{name} = arith.shrui {word}, %by{name} : {self.ints}",
            ]
            word = f"%w{name}"
        if self.bits < 8:
            lines.append(f"%k{name} = arith.andi {word}, %low_bits : {self.ints}")
            word = f"%k{name}"
        return [*lines, f"%u{name} = vector.bitcast {word} : {self.ints} to vector<{4 * self.unit.lanes}xi8>"]

    def _scaled(self) -> list[str]:
        """``%y0_0`` …: the sums with those of a block, times the scales of its columns and of its rows."""
        floats = ", ".join([self.floats] * len(self.cells))
        lines = []
        for row in range(self.rows):
            for name, word in (("d", byte_rows.STEP), ("less", byte_rows.LESS)):
                lines += [
                    f"%{name}{row}_at = llvm.getelementptr %r{row}[{word}] : (!llvm.ptr) -> !llvm.ptr, f32",
                    f"%{name}{row}_word = llvm.load %{name}{row}_at : !llvm.ptr -> f32",
                    f"%{name}{row} = vector.broadcast %{name}{row}_word : f32 to {self.floats}",
                ]
        for i, (row, half) in enumerate(self.cells):
            lines.append(f"%f{row}_{half} = arith.sitofp %n#{i} : {self.ints} to {self.floats}")
        lines.append(f"%whole:{len(self.cells)} = scf.if %own -> ({floats}) {{")
        for row, half in self.cells:
            lines.append(f"%o{row}_{half} = math.fma %z{half}, %less{row}, %f{row}_{half} : {self.floats}")
        lines += [
            f"scf.yield {', '.join(f'%o{row}_{half}' for row, half in self.cells)} : {floats}",
            "} else {",
            f"scf.yield {', '.join(f'%f{row}_{half}' for row, half in self.cells)} : {floats}",
            "}",
        ]
        for i, (row, half) in enumerate(self.cells):
            lines += [
                f"%e{row}_{half} = arith.mulf %whole#{i}, %s{half} : {self.floats}",
                f"%y{row}_{half} = math.fma %e{row}_{half}, %d{row}, %t{row}_{half} : {self.floats}",
            ]
        return lines
