"""Which contractions read dense columns where they lie, as far as the types tell; `Blocks.in_place` decides when they run."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import contraction_panels, tile_rows
from onnx2torch_mlir.engine.compiler.contraction_kinds import COLUMNS_THAT_STAY
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, all_known
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_FEW = 12
"""Rows that read columns where they lie on any processor."""


def most_rows(unit: VectorUnit) -> int:
    """How many rows read columns where they lie, though these do not stay in the cache.

    Where panels are narrow, or the processor does not fetch ahead by itself, packing them pays as soon as there is more than a
    tile or two (64 rows of 256 numbers times 3136 columns: 1.35 times as fast on Cascade Lake, 1.18 times on Zen 3; 24 rows
    1.07 and 1.13 times; but 8 rows 0.91 times on Zen 3), and also where they stay in the cache (512 rows of 256 numbers times
    196 columns: 1.3 times as fast on Cascade Lake, 1.18 times on Zen 3).
    """
    return unit.block_rows if unit.leaves_columns else max(unit.rows, _FEW)


def first_tile_packs(unit: VectorUnit) -> bool:
    """Whether the first tile that meets columns which are to be packed does so, as it reads them.

    Of narrow panels what packs several at a time takes 3 to 6 % less of the whole product (512 rows of 512 numbers times 512
    columns, 64 of 256 times 3136, on Zen 3).
    """
    return unit.has_wide_panels


def first_tiles(unit: VectorUnit, found: Contraction, rows: int | None, packed_bytes: int | None) -> set[TileSize]:
    """The tiles for the first rows that meet columns which are not packed before, for so many rows and bytes of packed columns,
    where these are known; see `Blocks.columns` (contraction_blocks.py)."""
    if not _may_be_dense(found) or (packed_bytes is not None and packed_bytes <= COLUMNS_THAT_STAY):
        return set()
    packing = {contraction_panels.packing_tile(unit)} if first_tile_packs(unit) else set()
    asking = {contraction_panels.asking_tile(unit)}
    if rows is None:
        return packing | asking
    first = max(tile_rows.parts_of_rows(unit, rows, packed_bytes), default=0)
    if unit.rows not in tile_rows.heights(unit, first):
        return set()
    return asking if rows <= most_rows(unit) else packing


def lie(unit: VectorUnit, found: Contraction, rows: int | None, packed_bytes: int | None) -> bool | None:
    """Whether all rows, so many if that is known, read whole panels of columns where they lie, of so many bytes if they were
    packed; None where only the run tells. See `Blocks.in_place` (contraction_blocks.py)."""
    if not _may_be_dense(found):
        return False
    stay = None if packed_bytes is None else packed_bytes <= COLUMNS_THAT_STAY
    stay = stay if unit.leaves_columns else False
    are_few = None if rows is None else rows <= most_rows(unit)
    if stay is False and are_few is False:
        return False
    is_dense = found.column is not None and found.operands[found.right].step(found.column) == 1
    return True if is_dense and (stay or are_few) else None


def are_near(unit: VectorUnit, found: Contraction) -> bool:
    """Whether the types tell that the columns are dense and stay in the cache: then all rows read them there."""
    lengths = all_known(found.known_segments)
    if found.column is None or lengths is None or not _may_be_dense(found):
        return False
    columns, step = found.fixed_length(found.column), found.operands[found.right].step(found.column)
    return columns is not None and step == 1 and contraction_panels.packed_bytes(unit, columns, lengths) <= COLUMNS_THAT_STAY


def _may_be_dense(found: Contraction) -> bool:
    """Whether columns may lie side by side, those of each step along the only sum as far from those of the next."""
    right = found.operands[found.right]
    return found.column is not None and len(found.segments) == 1 and right.step(found.column) in (None, 1)
