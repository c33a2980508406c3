"""Packed columns that are codes (packed_codes.py) times rows that are bytes (byte_rows.py): a block's sums in i32, then scaled.

Neighbouring steps share a word of each column's codes, so that a mask leaves four bytes of it, which are summed up with four
bytes of a row: these lie in that order. What a zero point takes from a sum is known from the row's sum alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx2torch_mlir.engine.compiler import byte_rows, coded_tiles, coded_words
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, constants, declared, header_word
from onnx2torch_mlir.engine.compiler.coded_columns import by_type
from onnx2torch_mlir.engine.compiler.integer_tile import add_fours
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_NAME = "o2m_coded_bytes"
_FEW = 2


def call(moved: Mapping[str, str]) -> str:
    """A call of @o2m_coded_bytes, each argument by its own name unless it is ``moved``."""
    return coded_tiles.call(_NAME, moved)


def functions(unit: VectorUnit) -> str:
    """@o2m_coded_bytes (`coded_tiles.panels`) and its tiles."""
    bits, heights = byte_rows.bits_known(unit), _heights(unit)
    blocks = [
        *header_word("%type", "%header", coded_words.TYPE),
        *header_word("%block", "%header", coded_words.BLOCK),
        "%steps = arith.ceildivsi %k, %block : i64",
    ]

    def tile(rows: int, given: str) -> list[str]:
        return by_type(bits, lambda each: [f"func.call @{_Tile(unit, each, rows).name}{given}"])

    tiles = [_Tile(unit, each, rows).text() for each in bits for rows in heights]
    return "\n".join([*tiles, coded_tiles.panels(unit, _NAME, blocks, heights, tile)])


def _heights(unit: VectorUnit) -> list[int]:
    """Rows of tiles, the highest first: a row takes two registers of integer sums and two of float sums, beside two of codes,
    of their bytes and of scales each, a mask, and the bytes of a row."""
    return sorted({(unit.registers - 8) // 4, _FEW, 1}, reverse=True)


class _Tile(coded_tiles.Tile):
    """The function of a tile: some rows, and two vectors of columns whose codes have so many bits; a step is a block."""

    def __init__(self, unit: VectorUnit, bits: int, rows: int) -> None:
        super().__init__(unit, rows)
        self.bits = bits

    @property
    def name(self) -> str:
        return f"o2m_byte_tile_{self.bits}_{self.rows}"

    def text(self) -> str:
        """All of it."""
        held = ", ".join(f"%t{row}_{half} = %start#{i}" for i, (row, half) in enumerate(self.cells))
        after = ", ".join(f"%y{row}_{half}" for row, half in self.cells)
        low_bits = sum((1 << self.bits) - 1 << byte for byte in range(0, 32, 8))
        lines = [
            f"func.func private @{self.name}({declared(coded_tiles.TILE)}) {{",
            *constants(none=0, one=1, lanes=self.unit.lanes, per=32 // self.bits),
            f"%ones = arith.constant dense<1> : vector<{2 * self.unit.lanes}xi16>",
            f"%low_bits = arith.constant dense<{low_bits - (low_bits >> 31 << 32)}> : {self.ints}",
            *byte_rows.record_bytes(),
            *header_word("%coded", "%header", coded_words.RECORD),
            "%groups = arith.divui %block, %per : i64",
            *self.begun(),
            f"%all:{len(self.cells) + 2} = scf.for %number = %none to %steps step %one"
            f" iter_args(%column = %b, %at = %none, {held}) -> (!llvm.ptr, i64, {self.types}) : i64 {{",
            *coded_words.read_record(self.unit, self.bits, "%header", "%column"),
            *self._sums_of_block(),
            *self._scaled(),
            bytes_behind("%next_column", "%column", "%coded"),
            "%next_at = arith.addi %at, %record : i64",
            f"scf.yield %next_column, %next_at, {after} : !llvm.ptr, i64, {self.types}",
            "}",
            *self.stored([f"%all#{i + 2}" for i in range(len(self.cells))]),
        ]
        return "\n".join([*lines, "return", "}"])

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
        lines.append(f"%whole:{len(self.cells)} = scf.if %own -> ({self.types}) {{")
        for row, half in self.cells:
            lines.append(f"%o{row}_{half} = math.fma %z{half}, %less{row}, %f{row}_{half} : {self.floats}")
        lines += [
            f"scf.yield {', '.join(f'%o{row}_{half}' for row, half in self.cells)} : {self.types}",
            "} else {",
            f"scf.yield {', '.join(f'%f{row}_{half}' for row, half in self.cells)} : {self.types}",
            "}",
        ]
        for i, (row, half) in enumerate(self.cells):
            lines += [
                f"%e{row}_{half} = arith.mulf %whole#{i}, %s{half} : {self.floats}",
                f"%y{row}_{half} = math.fma %e{row}_{half}, %d{row}, %t{row}_{half} : {self.floats}",
            ]
        return lines
