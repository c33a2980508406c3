"""The functions that sums of products of most programs call, the most usual first: see standard_code.py.

Of the texts that contraction_driver.py and column_packing.py make, those that do not depend on much of a program.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Texts(NamedTuple):
    """A group's texts, and whether only programs that have convolutions need them; those have others of tiles than products."""

    texts: list[str]
    of_windows: bool = False


def groups(unit: VectorUnit) -> list[Texts]:
    """Of products with weights of one row and of many, of products that are packed, of convolutions, and of attention.

    The last are those that fewer programs have; tiles are alone, for they take longest. In a group are texts that all programs
    need that need the largest of them.
    """
    one, many, fewer = (tuple(TileSize(level, rows, 2) for level in (1, 2)) for rows in (1, unit.rows, unit.rows - 2))

    def tile(size: TileSize) -> str:
        return register_tile.tile(unit, size)

    def row(segments: int) -> str:
        return tile_loops.row(unit, segments, one[1])

    def kind(rows: int, segments: int, unpacked: int = 0) -> str:
        return contraction_driver.contract(unit, Kind(0, rows, segments, unpacked))

    return [
        Texts([contraction_panels.panel(unit, 1), contraction_panels.panels(unit, 1)]),
        Texts([row_tables.rows(1)]),
        Texts([tile(one[0])]),
        Texts([tile_loops.row(unit, 1, one[0])]),
        Texts([plain_tail_text.FUNCTION]),
        Texts([row_tables.rows(0), kind(0, 1)]),
        Texts([kind(1, 1)]),
        Texts([tile(many[0])]),
        Texts([column_packing.functions_for(unit, 1)]),
        Texts([row_tables.rows(2)], of_windows=True),
        Texts(
            [contraction_panels.panel(unit, 2), contraction_panels.panels(unit, 2), row(2), kind(2, 2)], of_windows=True
        ),
        Texts([contraction_rows.function(RowsKind(1, 1, 1))]),
        Texts([column_packing.functions_for_batches(1, 1)]),
        Texts([winograd_code.functions(unit, winograd_forms.FLOATS)], of_windows=True),
        Texts([row(1), kind(2, 1)], of_windows=True),
        Texts([tile(fewer[0])]),
        Texts([kind(1, 1, unpacked=1)]),
        Texts([tile_loops.tile_loop(unit, 1, {one[0], many[0]})]),
        Texts([tile(one[1])], of_windows=True),
        Texts([tile(many[1])], of_windows=True),
        Texts([tile(fewer[1])], of_windows=True),
    ]
