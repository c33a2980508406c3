"""Pieces of blocks of rows: threads take blocks, and pieces of the last ones, so that none waits for another's whole block.

Two threads with 24 blocks each end up to half a block apart, for one of them was held up: 1 % of 128 by 768 by 3072 products.
To take a piece for itself costs little, but the columns have to come into the cache again of whoever takes a part of a block.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.compiler import tile_rows
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit


def runs(locate: Sequence[str], body: Sequence[str], *, back: bool = False) -> list[str]:
    """The items ``%begin`` to ``%end``, pieces of blocks, those of one block at a time; from the last to the first where
    ``%back`` says so, if there are such.

    For block ``%t``, pieces ``%first`` to before ``%behind``, ``locate`` finds the rows ``%i`` to before ``%row_behind``, and
    ``body`` does them; ``%others``: whether they are not those of the block before. ``%one`` has to be there.
    """
    item, low, high = "%at", ["%low_item = arith.maxsi %at, %begin_of_block : i64"], "%end"
    if back:
        item, high = "%some_item", "%high_bound"
        low = [
            "%low_bound = arith.select %back, %begin, %at : i64",
            "%low_item = arith.maxsi %low_bound, %begin_of_block : i64",
        ]
    return [
        *(["%both_ends = arith.addi %begin, %end : i64"] if back else []),
        "%no_row = arith.constant -1 : i64",
        "%end_of_all:3 = scf.while (%at = %begin, %known = %no_row, %known_behind = %no_row)",
        ": (i64, i64, i64) -> (i64, i64, i64) {",
        "%goes_on = arith.cmpi slt, %at, %end : i64",
        "scf.condition(%goes_on) %at, %known, %known_behind : i64, i64, i64",
        "} do {",
        "^run(%at: i64, %known: i64, %known_behind: i64):",
        *(_from_behind() if back else []),
        f"%t = arith.divui {item}, %pieces : i64",
        "%begin_of_block = arith.muli %t, %pieces : i64",
        "%end_of_block = arith.addi %begin_of_block, %pieces : i64",
        *low,
        f"%high_item = arith.minsi %end_of_block, {high} : i64",
        "%first = arith.subi %low_item, %begin_of_block : i64",
        "%behind = arith.subi %high_item, %begin_of_block : i64",
        *locate,
        "%begin_elsewhere = arith.cmpi ne, %i, %known : i64",
        "%end_elsewhere = arith.cmpi ne, %row_behind, %known_behind : i64",
        "%others = arith.ori %begin_elsewhere, %end_elsewhere : i1",
        # The last pieces of lower blocks are empty.
        "%are_some = arith.cmpi slt, %i, %row_behind : i64",
        "scf.if %are_some {",
        *body,
        "}",
        "%in_run = arith.subi %high_item, %low_item : i64",
        "%after_run = arith.addi %at, %in_run : i64",
        "scf.yield %after_run, %i, %row_behind : i64, i64, i64",
        "}",
    ]


def _from_behind() -> list[str]:
    """``%some_item`` of the next block, and ``%high_bound``, before which its items end."""
    return [
        "%mirrored = arith.subi %both_ends, %at : i64",
        "%before_mirrored = arith.subi %mirrored, %one : i64",
        "%some_item = arith.select %back, %before_mirrored, %at : i64",
        "%high_bound = arith.select %back, %mirrored, %end : i64",
    ]


def rows(unit: VectorUnit) -> list[str]:
    """``%i`` and ``%row_behind``: of the ``%m`` rows from ``%block_row`` on, those from piece ``%first`` to before ``%behind``;
    and how many they are, ``%mh``. A piece has ``%rows_of_piece``, those of some tiles, or all.

    Pieces are cut between tiles that are the same in one piece: among the first, which have as many rows as a tile can. The
    rows that are left are the next piece, and those behind it are empty.
    """
    lines = tile_rows.full_rows(unit)
    for piece in ("first", "behind"):
        lines += [
            f"%rows_before_{piece} = arith.muli %{piece}, %rows_of_piece : i64",
            f"%{piece}_is_left = arith.cmpi sgt, %rows_before_{piece}, %full_rows : i64",
            f"%row_of_{piece} = arith.select %{piece}_is_left, %m, %rows_before_{piece} : i64",
        ]
    return [
        *lines,
        "%i = arith.addi %block_row, %row_of_first : i64",
        "%row_behind = arith.addi %block_row, %row_of_behind : i64",
        "%mh = arith.subi %row_behind, %i : i64",
    ]
