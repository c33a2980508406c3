"""The loops around register tiles of one panel of packed columns: down all rows, and for a single row along all panels.

Where a tail follows the sums (contraction_tails.py), each tile's are given to it as soon as they are whole, or the tile does it
(plain_tails.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from onnx2torch_mlir.engine.compiler import plain_tail_text, segment_loops, tail_text, tile_rows
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, called, product, word_at
from onnx2torch_mlir.engine.compiler.contraction_panels import PART, declaration, in_two, sizes
from onnx2torch_mlir.engine.compiler.tile_size import TileSize, tile_types
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 4
_TILES_BEFORE_TAIL = 4
"""Below each other, whose sums a tail's function is then given at once: more would leave the first-level cache before."""


def tile_loop(unit: VectorUnit, segments: int, tiles: Collection[TileSize]) -> str:
    """@o2m_tiles_S: all tiles of ``m`` rows and one panel of packed columns, with those ``tiles`` that there are.

    They all have the same number of segments, at least S.
    """
    first = [size for size in tiles if size.is_first]
    first_here, most = list[str](), "%most_of_run"
    if first:
        most = "%most_here"
        first_here = [
            "%begins_here = arith.cmpi eq, %tile, %none : i64",
            "%is_first = arith.andi %fresh, %begins_here : i1",
            "%most_here = arith.select %is_first, %one, %most_of_run : i64",
        ]
    lines = [
        declaration("tiles", segments),
        "%none = arith.constant 0 : i64",
        "%two = arith.constant 2 : i64",
        f"%packed_step = arith.constant {unit.columns * _BYTES} : i64",
        "%one = arith.constant 1 : i64",
        product("panel", ["%packed_step", *(f"%n{i}" for i in range(segments))]),
        bytes_behind("%following", "%b", "%panel"),
        "%yes = arith.constant true",
        "%begins = arith.xori %add, %yes : i1",
        *tail_text.follows(),
        "%calls = arith.andi %last, %has_tail : i1",
        "%finish_here = arith.select %last, %finish, %no_tail : !llvm.ptr",
        *plain_tail_text.by_rows("%finish_here"),
        "%is_direct = arith.xori %calls, %yes : i1",
        "%at_once = arith.andi %calls, %begins : i1",
        "%first_place = llvm.getelementptr %table[1] : (!llvm.ptr) -> !llvm.ptr, i64",
        "%first_offset = llvm.load %first_place : !llvm.ptr -> i64",
        *tile_rows.shares(unit),
        f"%before_tail = arith.constant {_TILES_BEFORE_TAIL} : i64",
        "%most_of_run = arith.select %calls, %before_tail, %tiles : i64",
        "%end:2 = scf.while (%tile_at = %none, %i_at = %none) : (i64, i64) -> (i64, i64) {",
        "%goes_on = arith.cmpi slt, %tile_at, %tiles : i64",
        "scf.condition(%goes_on) %tile_at, %i_at : i64, i64",
        "} do {",
        "^run(%tile: i64, %i: i64):",
        *first_here,
        *tile_rows.run(most),
        "%row_of_tile = arith.addi %row, %i : i64",
        "%term = arith.select %is_by_rows, %row_of_tile, %column : i64",
        "%entry = arith.muli %i, %two : i64",
        "%rows = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        # Sums that a tail follows go where those of the tile before went: it is in the first-level cache.
        "%place = llvm.getelementptr %rows[1] : (!llvm.ptr) -> !llvm.ptr, i64",
        "%offset = llvm.load %place : !llvm.ptr -> i64",
        "%less = arith.subi %first_offset, %offset : i64",
        "%moved = arith.select %at_once, %less, %none : i64",
        bytes_behind("%here", "%c", "%moved"),
        "%which = arith.index_cast %rows_of_tile : i64 to index",
    ]
    usual = [size for size in tiles if not size.is_first and not size.few]
    every, of_any_step = (
        _by_width(segments, [size for size in usual if size.apart == apart or size.rows == 1]) for apart in (False, True)
    )
    lines += [
        f"%lanes = arith.constant {unit.lanes} : i64",
        "%is_narrow = arith.cmpi sle, %columns, %lanes : i64",
        "%is_step_of_panel = arith.cmpi eq, %by_step, %packed_step : i64",
        "%are_packed = arith.xori %in_place, %yes : i1",
        "%are_of_panel = arith.andi %is_step_of_panel, %are_packed : i1",
    ]
    every = ["scf.if %are_of_panel {", *every, "} else {", *of_any_step, "}"]
    for size in first:
        lines += _whether_first(size)
        every = [f"scf.if %{size.name} {{", _call_tile(segments, size, "%rows"), "} else {", *every, "}"]
    few = [size for size in tiles if size.few]
    if few:
        # Packed ones that lie so near each other.
        lines += [
            f"%near = arith.constant {unit.lanes * _BYTES} : i64",
            "%are_near = arith.cmpi ult, %by_step, %near : i64",
            "%is_few = arith.andi %are_near, %are_packed : i1",
        ]
        of_few = _by_number(few, "%columns", lambda known: _down_rows(segments, known))
        every = ["scf.if %is_few {", *of_few, "} else {", *every, "}"]
    lines += every
    lines += [
        "scf.if %calls {",
        bytes_behind("%sums", "%here", "%offset"),
        tail_text.call("%sums", ["row_of_tile", "count", "column", "columns", "across"]),
        "}",
    ]
    return "\n".join([*lines, "scf.yield %tile_after, %after : i64, i64", "}", "return", "}"])


def _whether_first(size: TileSize) -> list[str]:
    """``%`` and the tile's name: whether it is what is to be called for the rows at hand."""
    if size.packs:
        return [f"%{size.name} = arith.andi %is_first, %are_packed : i1"]
    return [
        f"%rows_that_ask = arith.constant {size.rows} : i64",
        "%as_many = arith.cmpi eq, %rows_of_tile, %rows_that_ask : i64",
        "%may_ask = arith.andi %in_place, %as_many : i1",
        f"%{size.name} = arith.andi %is_first, %may_ask : i1",
    ]


def _by_width(segments: int, tiles: Collection[TileSize]) -> list[str]:
    """The call of one of these tiles, by whether the columns are narrow and by ``%which`` rows."""
    wide, narrow = ({size.rows: size for size in tiles if size.halves == halves} for halves in (2, 1))
    every = _switch(segments, wide)
    return ["scf.if %is_narrow {", *_switch(segments, wide | narrow), "} else {", *every, "}"] if narrow else every


def _switch(segments: int, tiles: Mapping[int, TileSize]) -> list[str]:
    """The call of the tile of ``%which`` rows; where there is none, of that of one row for each."""
    lines = ["scf.index_switch %which"]
    for rows, size in sorted(tiles.items()):
        lines += [f"case {rows} {{", _call_tile(segments, size, "%rows"), "scf.yield", "}"]
    lines += [
        "default {",
        _call_tile(segments, tiles[1], "%rows", {"%run": "%count"}),
        "scf.yield",
        "}",
    ]
    return lines


def _down_rows(segments: int, tiles: Mapping[int, TileSize]) -> list[str]:
    """Calls of tiles of a few columns for ``%count`` rows.

    They finish nothing: `plain_tails.plain` is not asked for a few columns.
    """

    def run(rows: int, place: str, number: str) -> str:
        return _call_tile(segments, tiles[rows], place, {"%run": number})

    return segment_loops.runs_down_rows(sorted(tiles, reverse=True), "%count", run)


def _by_number(few: Collection[TileSize], columns: str, call: Callable[[Mapping[int, TileSize]], list[str]]) -> list[str]:
    """The ``call`` for a few ``columns``, of the tiles for their number by their rows."""
    known = {number: {size.rows: size for size in few if size.few == number} for number in {size.few for size in few}}
    *others, most = sorted(known)
    if not others:
        return call(known[most])
    lines = [f"%number_of_few = arith.index_cast {columns} : i64 to index", "scf.index_switch %number_of_few"]
    for head, number in [*((f"case {number}", number) for number in others), ("default", most)]:
        lines += [f"{head} {{", *call(known[number]), "scf.yield", "}"]
    return lines


def _call_tile(segments: int, size: TileSize, rows: str, moved: Mapping[str, str] | None = None) -> str:
    lacking = ["%one", "%none"] * (size.segments - segments)
    pointers = ["%a", "%b", "%here", "%following", "%finish_here"]
    own = [*pointers, "%columns", "%term", "%add", "%is_direct", "%meets", "%by_step", "%run", "%tile", "%by_rows"]
    a, *others = (moved.get(name, name) for name in own) if moved else own
    values = [a, rows, *others, *lacking]
    values += [*(f"%{name}" for name in sizes(segments)), *(["%source", "%apart"] if size.packs else [])]
    return called(size.name, list(zip(values, tile_types(size.segments, packs=size.packs), strict=True)))


def row(unit: VectorUnit, segments: int, tile: TileSize, few: Collection[TileSize] = ()) -> str:
    """@o2m_row_S: what @o2m_panels_S does of packed columns, for a single row: what lies between panels and tiles, which are
    done in a fraction of a microsecond then, is left out. The ``tile`` is that of one row; so are those of ``few`` columns."""
    moved = {"%b": "%bj", "%c": "%here", "%column": "%at", "%finish_here": "%finish"}
    moved |= {"%run": "%one", "%tile": "%none", "%is_direct": "%asks"}
    of_tile = moved | ({**PART, "%here": "%c_of_part"} if few else {})
    one = [
        f"%term = arith.select %is_by_rows, %row, {of_tile['%column']} : i64",
        _call_tile(segments, tile, "%table", of_tile),
    ]
    if few:
        of_few = _by_number(few, "%columns_of_part", lambda known: [_call_tile(segments, known[1], "%table", of_tile)])
        one = [one[0], "scf.if %is_few {", *of_few, "} else {", one[1], "}"]
    place = ["row", "one", *(of_tile.get(name, name).removeprefix("%") for name in ("%column", "%columns")), "across"]
    one += [
        "scf.if %has_tail {",
        bytes_behind("%sums", of_tile["%c"], "%offset"),
        tail_text.call("%sums", place),
        "}",
    ]
    lines = [
        declaration("row", segments),
        *tail_text.follows(),
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%asks = arith.constant {'false' if unit.fetches_ahead else 'true'}",
        *plain_tail_text.by_rows("%finish"),
        f"%width = arith.constant {unit.columns} : i64",
        f"%by_step = arith.constant {unit.columns * _BYTES} : i64",
        product("panel", ["%by_step", *(f"%n{i}" for i in range(segments))]),
        word_at("place", "%table", 1),
        "%offset = llvm.load %place : !llvm.ptr -> i64",
        "%end = scf.for %j = %none to %n step %width iter_args(%bj = %b) -> (!llvm.ptr) : i64 {",
        "%left = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left, %width : i64",
        "%here = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        bytes_behind("%following", "%bj", "%panel"),
        "%at = arith.addi %column, %j : i64",
        *(in_two(unit, "%panel", moved, one) if few else one),
        "scf.yield %following : !llvm.ptr",
        "}",
    ]
    return "\n".join([*lines, "return", "}"])
