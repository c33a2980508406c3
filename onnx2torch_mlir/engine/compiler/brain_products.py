"""Packed columns that are bfloat16 (packed_codes.py) times rows that are, too (brain_rows.py), by ``vdpbf16ps``.

Neighbours along the sum share a word of each column, and of each row, so that one instruction adds both products to a sum of
float32. It takes subnormal numbers for zeros, whose products with a normal number may be none: such operands are left to tiles
of floats. A matrix unit does the same faster (brain_matrices.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx2torch_mlir.engine.compiler import brain_floats, brain_matrices, coded_tiles, tile_asks
from onnx2torch_mlir.engine.compiler.code_text import constants, declared
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_NAME = "o2m_coded_pairs"


def call(unit: VectorUnit, moved: Mapping[str, str]) -> str:
    """A call of what multiplies bfloat16 (`coded_tiles.PANELS`), each argument by its own name unless it is ``moved``."""
    return brain_matrices.call(moved) if unit.has_brain_matrices else coded_tiles.call(_NAME, moved)


def functions(unit: VectorUnit) -> str:
    """What `call` calls."""
    if unit.has_brain_matrices:
        return brain_matrices.functions(unit)
    heights = sorted({unit.rows, 4, 2, 1}, reverse=True)
    steps = [*constants(pair=2), "%steps = arith.ceildivsi %k, %pair : i64"]

    def tile(rows: int, given: str) -> list[str]:
        return [f"func.call @{_Tile(unit, rows).name}{given}"]

    return "\n".join([*(_Tile(unit, rows).text() for rows in heights), coded_tiles.panels(unit, _NAME, steps, heights, tile)])


class _Tile(coded_tiles.Tile):
    """The function of a tile: some rows, and two vectors of columns."""

    @property
    def name(self) -> str:
        return f"o2m_pair_tile_{self.rows}"

    def text(self) -> str:
        """All of it."""
        lanes, width = self.unit.lanes, self.unit.columns
        pairs, dot = f"vector<{2 * lanes}xbf16>", f"{brain_floats.INSTRUCTIONS}dpbf16ps.{32 * lanes}"
        held = {cell: f"%h{cell[0]}_{cell[1]}" for cell in self.cells}
        given = ", ".join(f"{name} = %start#{i}" for i, name in enumerate(held.values()))
        lines = [
            f"func.func private @{self.name}({declared(coded_tiles.TILE)}) {{",
            *constants(none=0, one=1, lanes=lanes, width=width),
            *self.begun(),
            # After the scales of the panel, which are 1.
            f"%codes = llvm.getelementptr %b[{width}] : (!llvm.ptr) -> !llvm.ptr, i32",
            f"%all:{len(self.cells)} = scf.for %k = %none to %steps step %one iter_args({given}) -> ({self.types}) : i64 {{",
            "%gone = arith.muli %k, %width : i64",
            "%b0_at = llvm.getelementptr %codes[%gone] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
            f"%b1_at = llvm.getelementptr %b0_at[{lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
            *tile_asks.words_of_next_panel(self.unit, "%codes", width),
            *(f"%b{half} = llvm.load %b{half}_at {{alignment = 4 : i64}} : !llvm.ptr -> {pairs}" for half in range(2)),
        ]
        for row in range(self.rows):
            lines += [
                f"%p{row} = llvm.getelementptr %a{row}[%k] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
                f"%x{row} = llvm.load %p{row} {{alignment = 4 : i64}} : !llvm.ptr -> i32",
                f"%w{row} = vector.broadcast %x{row} : i32 to {self.ints}",
                f"%y{row} = vector.bitcast %w{row} : {self.ints} to {pairs}",
            ]
            for half in range(2):
                taken = f"({held[row, half]}, %y{row}, %b{half}) : ({self.floats}, {pairs}, {pairs}) -> {self.floats}"
                lines.append(f'%s{row}_{half} = llvm.call_intrinsic "{dot}"{taken}')
        return "\n".join(
            [
                *lines,
                f"scf.yield {', '.join(f'%s{row}_{half}' for row, half in self.cells)} : {self.types}",
                "}",
                *self.stored([f"%all#{i}" for i in range(len(self.cells))]),
                "return",
                "}",
            ]
        )
