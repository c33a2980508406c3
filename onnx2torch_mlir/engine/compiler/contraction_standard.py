"""The functions that sums of products of most programs call, the most usual first: see standard_code.py.

Of the texts that contraction_driver.py and column_packing.py make, those that do not depend on much of a program.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import (
    call_memory,
    column_packing,
    contraction_driver,
    contraction_panels,
    contraction_rows,
    plain_tail_text,
    register_tile,
    row_tables,
    threads,
    tile_loops,
    winograd_code,
    winograd_forms,
)
from onnx2torch_mlir.engine.compiler.contraction_kinds import Kind
from onnx2torch_mlir.engine.compiler.contraction_rows import RowsKind
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

DECLARED = "\n".join([threads.SIGNATURES, call_memory.SIGNATURES, contraction_panels.signature("tiles", 2)])
"""What they call besides each other."""


def groups(unit: VectorUnit) -> list[list[str]]:
    """Of products with weights of one row and of many, of products that are packed, of convolutions, and of attention.

    The last are those that fewer programs have; tiles are alone, for they take longest.
    """
    one, many, fewer = (tuple(TileSize(level, rows, 2) for level in (1, 2)) for rows in (1, unit.rows, unit.rows - 2))

    def tile(size: TileSize) -> str:
        return register_tile.tile(unit, size)

    def kind(rows: int, segments: int, unpacked: int = 0) -> str:
        return contraction_driver.contract(unit, Kind(0, rows, segments, unpacked))

    return [
        [contraction_panels.panel(unit, 1)],
        [contraction_panels.panels(unit, 1)],
        [row_tables.rows(0), row_tables.rows(1)],
        [tile(one[0])],
        [tile_loops.row(unit, 1, one[0])],
        [plain_tail_text.FUNCTION],
        [kind(0, 1)],
        [kind(1, 1)],
        [tile(many[0])],
        [column_packing.functions_for(unit, 1)],
        [row_tables.rows(2)],
        [contraction_panels.panel(unit, 2)],
        [contraction_panels.panels(unit, 2)],
        [kind(2, 2)],
        [contraction_rows.function(RowsKind(1, 1, 1))],
        [column_packing.functions_for_batches(1, 1)],
        [winograd_code.functions(unit, winograd_forms.FLOATS)],
        [kind(2, 1)],
        [tile(fewer[0])],
        [kind(1, 1, unpacked=1)],
        [tile_loops.tile_loop(unit, 1, {one[0], many[0]})],
        [tile(one[1])],
        [tile(many[1])],
        [tile_loops.row(unit, 2, one[1])],
        [tile(fewer[1])],
    ]
