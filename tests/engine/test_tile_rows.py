"""Runs of tiles that have as many rows: what the text says, computed here."""

import pytest

from onnx2torch_mlir.engine.compiler import tile_rows
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from tests.engine.computed_text import computed

MANY = 1000


def runs(unit, rows, most=MANY):
    """Of so many rows: first row and tile of each run of at most so many tiles, how many it has, how many rows these, and how
    many all."""
    tiles = -(-rows // unit.rows)
    each, more = divmod(-(-rows // 2), tiles)
    shares = {"shares#0": each, "shares#1": more, "tiles": tiles, "m": rows, "one": 1, "two": 2, "most": most}
    tile = row = 0
    while tile < tiles:
        found, _ = computed(tile_rows.run("%most"), tile=tile, i=row, **shares)
        yield row, tile, found["run"], found["rows_of_tile"], found["count"]
        tile, row = found["tile_after"], found["after"]


@pytest.mark.parametrize("most", [1, 3, MANY])
@pytest.mark.parametrize("unit", [VectorUnit(4, 16), VectorUnit(8, 16), VectorUnit(16, 32)], ids=str)
def test_runs_do_all_rows_once_by_tiles_that_there_are(unit, most):
    for rows in range(1, 300):
        found, done, tiles = list(runs(unit, rows, most)), 0, 0
        for row, tile, run, height, count in found:
            assert (row, tile) == (done, tiles) and 1 <= run <= most
            # The last row may be there twice.
            assert run * height - count in ((0, 1) if row + count == rows else (0,))
            done, tiles = done + count, tiles + run
        assert done == rows and tiles == -(-rows // unit.rows)
        assert {height for *_, height, _ in found} == tile_rows.heights(unit, rows)
        assert len(found) <= 3 + tiles // most


def test_the_last_tile_is_alone_where_it_has_fewer_rows():
    unit = VectorUnit(16, 32)
    assert list(runs(unit, 60)) == [(0, 0, 5, 12, 60)]
    assert list(runs(unit, 59)) == [(0, 0, 5, 12, 59)]
    assert list(runs(unit, 50)) == [(0, 0, 5, 10, 50)]
    assert list(runs(unit, 52)) == [(0, 0, 1, 12, 12), (12, 1, 4, 10, 40)]
    assert list(runs(VectorUnit(4, 16), 9)) == [(0, 0, 1, 6, 6), (6, 1, 1, 3, 3)]
    assert list(runs(VectorUnit(4, 16), 7)) == [(0, 0, 1, 4, 4), (4, 1, 1, 3, 3)]
