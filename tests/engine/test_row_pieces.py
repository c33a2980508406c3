"""Pieces of blocks: what the text says, computed here."""

import itertools

import pytest

from onnx2torch_mlir.engine.compiler import row_pieces, tile_rows
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from tests.engine.computed_text import computed

UNITS = [VectorUnit(4, 16), VectorUnit(8, 16), VectorUnit(16, 32), VectorUnit(16, 32, works_in_halves=True)]


def tiles(unit, rows):
    """First row and height of each tile that so many rows make."""
    each, more = divmod(-(-rows // 2), -(-rows // unit.rows))
    heights = [2 * (each + (number < more)) for number in range(-(-rows // unit.rows))]
    starts = list(itertools.accumulate(heights, initial=0))
    return [(start, min(height, rows - start)) for start, height in zip(starts, heights, strict=False)]


def piece(unit, rows, tiles_of_piece, first, behind, block_row=0):
    values = {"m": rows, "first": first, "behind": behind, "block_row": block_row, "rows_of_piece": tiles_of_piece * unit.rows}
    found, _ = computed(row_pieces.rows(unit), **values)
    assert found["mh"] == found["row_behind"] - found["i"]
    return found["i"], found["row_behind"]


@pytest.mark.parametrize("tiles_of_piece", [1, 2, 3])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_pieces_have_the_tiles_of_the_whole(unit, tiles_of_piece):
    for rows in range(1, 200):
        count = -(-rows // (tiles_of_piece * unit.rows))
        bounds = [piece(unit, rows, tiles_of_piece, number, number + 1, 1000) for number in range(count + 2)]
        assert bounds[0][0] == 1000 and bounds[count - 1][1] == bounds[-1][0] == bounds[-1][1] == 1000 + rows
        assert all(before == after for (_, before), (after, _) in itertools.pairwise(bounds))
        for first, behind in itertools.combinations(range(count + 1), 2):
            low, high = piece(unit, rows, tiles_of_piece, first, behind)
            if low < high:
                expected = [(start, height) for start, height in tiles(unit, rows) if low <= start < high]
                assert [(low + start, height) for start, height in tiles(unit, high - low)] == expected


def test_a_tile_is_a_piece_where_all_are_as_high():
    unit = VectorUnit(16, 32, works_in_halves=True)
    assert [piece(unit, 128, 1, number, number + 1) for number in range(16)] == [(8 * n, 8 * n + 8) for n in range(16)]
    # The last tile of 61 rows does 5.
    assert [piece(unit, 61, 1, number, number + 1) for number in (0, 6, 7)] == [(0, 8), (48, 56), (56, 61)]
    # All tiles of 12 rows are lower than a tile can be.
    assert [piece(unit, 12, 1, number, number + 1) for number in range(2)] == [(0, 12), (12, 12)]


def test_rows_of_blocks_that_are_not_cut():
    unit = VectorUnit(16, 32)
    values = {"m": 50, "first": 0, "behind": 1, "block_row": 96, "rows_of_piece": 96}
    found, _ = computed(row_pieces.rows(unit), **values)
    assert (found["i"], found["row_behind"]) == (96, 146)


def test_heights_of_all_tiles_are_those_of_a_program():
    """Or a piece would go by tiles that the program has not got."""
    for unit, rows in itertools.product(UNITS, range(1, 200)):
        for first in range(-(-rows // unit.rows)):
            low, high = piece(unit, rows, 1, first, first + 1)
            if low < high:
                assert tile_rows.heights(unit, high - low) <= tile_rows.heights(unit, rows)
