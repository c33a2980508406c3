"""Which register tiles the sums of products of a program need: how many segments, rows and vectors of columns they have.

For each there is a function (register_tile.py), and all of them would be most of what LLVM compiles. Where sizes are known few
are ever called. The loops around tiles (contraction_panels.py) do rows for which there is none one by one: what is found here
decides how fast a program is, not what it computes; but a few columns that are packed by themselves need a tile for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from onnx2torch_mlir.engine.compiler import columns_in_place, contraction_panels, few_columns, tile_rows
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, all_known
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit


@dataclass
class NeededTiles:
    """Those of a program, as its contractions are looked at."""

    unit: VectorUnit
    sizes: set[TileSize] = field(default_factory=set)

    def add_blocks(self, found: Contraction, *, is_packed: bool, codes: bool, few: int) -> None:
        """What is called for a contraction that goes by blocks of rows (contraction_blocks.py), with its columns packed or
        not, as ``codes``, or a ``few`` of them by themselves."""
        rows, lengths, columns = found.known_rows, found.known_segments, _columns(found)
        known = all_known(lengths)
        bytes_ = None if columns is None or known is None else contraction_panels.packed_bytes(self.unit, columns, known)
        parts = None if rows is None else tile_rows.parts_of_rows(self.unit, rows, bytes_, codes=codes)
        if is_packed:
            self.add(lengths, parts, columns, few)
            return
        self.sizes |= columns_in_place.first_tiles(self.unit, found, rows, bytes_)
        width, lie = self.unit.columns, columns_in_place.lie(self.unit, found, rows, bytes_)
        packed = columns if columns is None or not lie else columns % width
        if packed != 0:
            self.add(lengths, parts, packed)
        if lie is not False and (columns is None or columns >= width):
            self.add(lengths, parts, width, apart=True)

    def add_rows(self, found: Contraction, rows: Iterable[int] | None) -> None:
        """What is called for a contraction of which so many rows meet all columns at a time, None if that is not known."""
        self.add(found.known_segments, rows, _columns(found))

    def add(
        self,
        lengths: Sequence[int | None],
        rows: Iterable[int] | None,
        columns: int | None,
        few: int = 0,
        *,
        apart: bool = False,
    ) -> None:
        """What is called for segments of these lengths, for these numbers of rows, and so many columns, a ``few`` of which are
        by themselves; whether steps are any distance ``apart``."""
        unit = self.unit
        rest = None if columns is None else (columns - few) % unit.columns
        is_narrow = rest is not None and 0 < rest <= unit.lanes
        vectors = {1} if is_narrow else {2}
        if columns is None or columns - few > unit.columns:
            vectors.add(2)
        known = all_known(lengths)
        every = {tile_rows.height(count) for count in range(1, unit.rows + 1)}
        for count in [None] if rows is None else rows:
            heights = every if count is None else tile_rows.heights(unit, count)
            levels = list(range(1, len(lengths) + 1) if known is None else contraction_panels.levels(unit, known, count))
            self.sizes |= {
                # A vector of columns before a few lies nearer together than those of a panel.
                TileSize(level, height, number, apart=height > 1 and (apart or (number == 1 and few > 0)))
                for level in levels
                for height in heights
                for number in vectors
            }
            of_few = few_columns.heights(unit, few) if few else []
            self.sizes |= {TileSize(level, height, 1, few=few) for level in levels for height in of_few}


def _columns(found: Contraction) -> int | None:
    return 1 if found.column is None else found.fixed_length(found.column)
