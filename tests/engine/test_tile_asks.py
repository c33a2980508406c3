"""What tiles ask for: the addresses that the text names, computed here."""

import re

import pytest

from onnx2torch_mlir.engine.compiler import register_tile, tile_asks
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from tests.engine.computed_text import computed


def asked(lines, **values):
    """The addresses that ``lines`` ask for, in their order, where names have these ``values``."""
    return computed(lines, **values)[1]


@pytest.mark.parametrize("rows", [2, 3, 4, 6, 7, 8, 12])
def test_a_line_of_each_row_of_the_next_tile_is_asked_for(rows):
    """Row i of this tile begins at 1000 i, and is where that of the next one ends up that is as far behind it as all are."""
    found = {f"oa{row}": 1000 * row for row in range(rows)} | {f"a{row}": 1000 * row for row in range(rows)}
    lines = tile_asks.next_tile(rows) + tile_asks.next_rows("line", rows, "%line", level=2)
    for line in (0, 16, 48):
        places = asked(lines, line=line, number=4, **found)
        assert places == [1000 * (rows + row) + 4 * line for row in range(rows)]


def test_rows_that_meet_one_vector_of_columns_come_into_the_first_level_cache():
    unit = VectorUnit(16, 32, fetches_ahead=True, loses_rows=True)
    for halves, hint in ((1, 3), (2, 2)):
        # The next panel is other tiles' too.
        assert _levels(unit, TileSize(1, 8, halves)) == {("next", "2"), ("asked", str(hint))}


def test_rows_are_asked_for_only_where_the_processor_loses_them():
    assert _levels(VectorUnit(16, 32, fetches_ahead=True), TileSize(1, 8, 2)) == {("next", "2")}


def test_the_next_panel_is_not_asked_for_where_nobody_is_to():
    unit = VectorUnit(8, 16, fetches_ahead=True, loses_rows=True, panel_askers=0)
    assert _levels(unit, TileSize(1, 6, 2)) == {("asked", "2")}


@pytest.mark.parametrize("unaligned", range(0, 64, 4))
def test_the_second_tile_asks_for_all_lines_of_the_next_panel_where_columns_lie_apart(unaligned):
    unit, places = VectorUnit(16, 32, fetches_ahead=True), list[set[int]]()
    for tile in range(3):
        lines = tile_asks.to_columns_beside(unit) + tile_asks.columns_beside("n", "%at", 32)
        found = asked(lines, tile_of_panel=tile, at=6400 + unaligned, one=1, none=0)
        places.append({place // 64 for place in found})
    own, following = ({(6400 + unaligned + 4 * (first + k)) // 64 for k in range(32)} for first in (0, 32))
    assert places == [own, following, own]


def test_only_tiles_of_columns_that_are_left_where_they_lie_ask_beside_them():
    """Not the first, which asks for its own, nor where processors fetch nothing ahead or panels are narrow."""
    ahead, apart = VectorUnit(16, 32, fetches_ahead=True), TileSize(1, 8, 2, apart=True)
    units = [ahead, VectorUnit(16, 32), VectorUnit(8, 16, fetches_ahead=True)]
    sizes = [apart, apart._replace(apart=False), apart._replace(apart=False, asks=True), TileSize(1, 1, 2)]
    assert ["beside" in register_tile.tile(unit, apart) for unit in units] == [True, False, False]
    assert ["beside" in register_tile.tile(ahead, size) for size in sizes] == [True, False, False, False]


def _levels(unit: VectorUnit, size: TileSize) -> set[tuple[str, str]]:
    """Of which of the next panel and of the next rows a tile asks for lines, and how near."""
    asks = r"%(?:u(next)|line(asked))\w+\) <{cache = 1 : i32, hint = (\d) : i32, rw = 0"
    return {(panel or rows, level) for panel, rows, level in re.findall(asks, register_tile.tile(unit, size))}


@pytest.mark.parametrize("tiles", [1, 4])
def test_tiles_ask_for_the_next_panel(tiles):
    """As many as do, each of 32 columns and 64 steps, ask for as many bytes as these have, without gaps."""
    unit = VectorUnit(16, 32, panel_askers=tiles)
    panel = 4 * 32 * 64
    lines = [
        *tile_asks.to_next_panel(unit),
        *tile_asks.part_of_next_panel(unit, 4),
        "%u0at = llvm.getelementptr %b[%gone] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        *tile_asks.next_panel(unit, "u", 4),
    ]
    places = {
        place
        for tile in range(tiles)
        for gone in range(0, panel, 4 * 4 * 32)
        for place in asked(lines, b=640, following=640 + panel, tile_of_panel=tile, gone=gone)
    }
    assert places == set(range(640 + panel, 640 + 2 * panel, 64))


def test_a_step_asks_for_the_same_step_of_the_next_panel():
    ahead = VectorUnit(16, 32, fetches_ahead=True)
    assert tile_asks.words_of_next_panel(VectorUnit(16, 32), "%first", 32) == []
    assert tile_asks.words_of_next_panel(VectorUnit(8, 16, fetches_ahead=True, panel_askers=0), "%first", 16) == []
    values = {"first": 256, "k": 3, "steps": 10, "width": 32}
    assert asked(tile_asks.words_of_next_panel(ahead, "%first", 32), **values) == [256 + 128 * 13, 256 + 128 * 13 + 64]
    assert asked(tile_asks.words_of_next_panel(ahead, "%first", 8), **values | {"width": 8}) == [256 + 32 * 13]


def test_results_and_columns_are_asked_for_by_lines():
    assert asked(tile_asks.result("w", "%row", 32), row=640) == [640, 704]
    packed, apart = {"at": 128, "step": 128}, {"at": 5, "step": 4000}
    assert asked(tile_asks.columns("n", "%at", "%step", 32, one_row=False), **packed) == [13 * 128, 13 * 128 + 64]
    assert asked(tile_asks.columns("n", "%at", "%step", 16, one_row=True), **packed) == [41 * 128]
    assert asked(tile_asks.columns("n", "%at", "%step", 32, one_row=False), **apart) == [5 + 48000, 5 + 48064]


def test_far_columns_may_lie_across_lines():
    assert asked(tile_asks.far_columns("n", "%from", 32), **{"from": 100, "later": 1000}) == [1100, 1164, 1100 + 31 * 4]
