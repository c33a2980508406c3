"""How rows fall into blocks, and into register tiles: for a number that is known, and as text."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.contraction_kinds import COLUMNS_THAT_STAY, FEW_BLOCKS, FLAT_BLOCK_ROWS
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

STEP = 2
"""Blocks of rows are multiples of it, for so are most tiles; it divides the largest."""
_ODD = 4
"""Up to so many rows a tile for each number of them pays."""


def even_parts(count: int, most: int, step: int = 1) -> set[int]:
    """How many are in each part, if so many fall into parts of at most ``most``: all the same multiple of ``step``, but for the
    last."""
    if not count:
        return set()
    even = -(-count // -(-count // most))
    even += -even % step
    if even >= count:
        return {count}
    return {even, count - (-(-count // even) - 1) * even}


def parts_of_rows(unit: VectorUnit, rows: int, packed_bytes: int | None, *, codes: bool = False) -> set[int]:
    """How many rows the blocks have into which so many fall, with so many bytes of packed columns, or ``codes``; see
    `Blocks.count`."""
    if codes:
        return even_parts(rows, unit.block_rows, STEP)
    stay = {packed_bytes <= COLUMNS_THAT_STAY} if packed_bytes is not None else {True, False}
    are_few = rows <= (FEW_BLOCKS - 1) * unit.block_rows
    most = {FLAT_BLOCK_ROWS if by_rows and are_few else unit.block_rows for by_rows in stay}
    return {part for each in most for part in even_parts(rows, each, STEP)}


def height(rows: int) -> int:
    """How many rows the tile has that does so many: odd numbers of more than a few have none of their own, and do the last row
    twice (row_tables.py). LLVM compiles half as many tiles."""
    return rows if rows <= _ODD else rows + rows % 2


def heights(unit: VectorUnit, rows: int) -> set[int]:
    """How many rows the tiles have into which so many fall; see `tile_loops.tile_loop`."""
    if not rows:
        return set()
    pairs, tiles = -(-rows // 2), -(-rows // unit.rows)
    each, more = divmod(pairs, tiles)
    sizes = [2 * (each + 1)] * more + [2 * each] * (tiles - more)
    sizes[-1] = height(sizes[-1] - rows % 2)
    return set(sizes)


def shares(unit: VectorUnit) -> list[str]:
    """``%tiles`` that ``%m`` rows make; ``%shares``, how many pairs of rows each has, and how many have one more, the first.

    ``%one`` and ``%two`` have to be there.
    """
    return [
        f"%height = arith.constant {unit.rows} : i64",
        # A tile of few rows takes longer than its share, for it waits for its sums: all are of about as many.
        "%tiles = arith.ceildivsi %m, %height : i64",
        "%tiles_or_one = arith.maxsi %tiles, %one : i64",
        "%pairs = arith.ceildivsi %m, %two : i64",
        # To divide takes as long as a step of a tile, and most often there are one or two.
        "%several = arith.cmpi sgt, %tiles_or_one, %two : i64",
        "%shares:2 = scf.if %several -> (i64, i64) {",
        "%quotient = arith.divui %pairs, %tiles_or_one : i64",
        "%remainder = arith.remui %pairs, %tiles_or_one : i64",
        "scf.yield %quotient, %remainder : i64, i64",
        "} else {",
        "%second = arith.subi %tiles_or_one, %one : i64",
        "%half = arith.shrui %pairs, %second : i64",
        "%other = arith.andi %pairs, %second : i64",
        "scf.yield %half, %other : i64, i64",
        "}",
    ]


def run(most: str) -> list[str]:
    """Of the tiles that `shares` says, from number ``%tile``, whose first row is ``%i``: ``%run``, how many follow each other
    that have as many rows, but ``most``; ``%rows_of_tile`` (`height_of`); ``%count``, how many rows they all do;
    ``%tile_after`` and ``%after``, the tile and the row behind them."""
    return [
        "%has_more = arith.cmpi slt, %tile, %shares#1 : i64",
        "%one_more = arith.addi %shares#0, %one : i64",
        "%pairs_here = arith.select %has_more, %one_more, %shares#0 : i64",
        "%even = arith.muli %pairs_here, %two : i64",
        "%rest = arith.subi %m, %i : i64",
        "%of_one = arith.minsi %rest, %even : i64",
        *height_of("rows_of_tile", "%of_one"),
        "%until = arith.select %has_more, %shares#1, %tiles : i64",
        "%all_here = arith.subi %until, %tile : i64",
        # The last may have fewer.
        "%but_last = arith.subi %all_here, %one : i64",
        "%before_last = arith.muli %but_last, %even : i64",
        "%rest_of_last = arith.subi %rest, %before_last : i64",
        "%of_last = arith.minsi %rest_of_last, %even : i64",
        *height_of("rows_of_last", "%of_last"),
        "%is_like_others = arith.cmpi eq, %rows_of_last, %rows_of_tile : i64",
        "%alike = arith.select %is_like_others, %all_here, %but_last : i64",
        f"%run = arith.minsi %alike, {most} : i64",
        "%rows_of_run = arith.muli %run, %even : i64",
        "%count = arith.minsi %rest, %rows_of_run : i64",
        "%tile_after = arith.addi %tile, %run : i64",
        "%after = arith.addi %i, %rows_of_run : i64",
    ]


def first_is_full(unit: VectorUnit) -> list[str]:
    """``%is_full``: whether the first of the tiles that ``%m`` rows make, the highest, has as many as a tile can; see `shares`.

    ``%one`` has to be there.
    """
    return [
        f"%height = arith.constant {unit.rows} : i64",
        "%two = arith.constant 2 : i64",
        "%tiles = arith.ceildivsi %m, %height : i64",
        "%tiles_or_one = arith.maxsi %tiles, %one : i64",
        "%pairs = arith.ceildivsi %m, %two : i64",
        "%pairs_of_first = arith.ceildivsi %pairs, %tiles_or_one : i64",
        f"%most_pairs = arith.constant {unit.rows // 2} : i64",
        "%is_full = arith.cmpi eq, %pairs_of_first, %most_pairs : i64",
    ]


def full_rows(unit: VectorUnit) -> list[str]:
    """``%full_rows``: how many of ``%m`` rows the first tiles do that have as many as a tile can; see `shares`."""
    return [
        f"%full_height = arith.constant {unit.rows} : i64",
        f"%full_pairs = arith.constant {unit.rows // 2} : i64",
        "%full_two = arith.constant 2 : i64",
        "%full_none = arith.constant 0 : i64",
        "%full_most = arith.ceildivsi %m, %full_height : i64",
        "%full_room = arith.muli %full_most, %full_pairs : i64",
        "%full_wanted = arith.ceildivsi %m, %full_two : i64",
        # Each of the last tiles lacks one pair, or all lack some.
        "%full_lacking = arith.subi %full_room, %full_wanted : i64",
        "%full_first = arith.subi %full_most, %full_lacking : i64",
        "%full_tiles = arith.maxsi %full_first, %full_none : i64",
        "%full_even = arith.muli %full_tiles, %full_height : i64",
        "%full_rows = arith.minsi %full_even, %m : i64",
    ]


def height_of(name: str, rows: str) -> list[str]:
    """``%name``: `height` of so many rows."""
    return [
        f"%{name}_few = arith.constant {_ODD} : i64",
        f"%{name}_more = arith.cmpi sgt, {rows}, %{name}_few : i64",
        f"%{name}_odd = arith.andi {rows}, %one : i64",
        f"%{name}_next = arith.addi {rows}, %{name}_odd : i64",
        f"%{name} = arith.select %{name}_more, %{name}_next, {rows} : i64",
    ]
