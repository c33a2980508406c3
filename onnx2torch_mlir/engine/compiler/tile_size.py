"""Which register tiles there are, and what their functions are given: register_tile.py has the text of one."""

from __future__ import annotations

from typing import NamedTuple


class TileSize(NamedTuple):
    """How many nested segments (at least 1), rows, and vectors of columns (2 or 1) a tile has.

    The first that meets some columns may be another than those that follow: one that ``packs`` reads its columns from where
    they lie apart and writes them side by side; one that ``asks`` wants them from far away, where all read them as they lie.
    A step of columns is as far from the next one as in a packed panel, which a tile knows: one that is ``apart`` is told any
    distance, and needs a quarter more instructions for a step. One of a ``few`` columns is of few_columns.py.
    """

    segments: int
    rows: int
    halves: int
    packs: bool = False
    asks: bool = False
    few: int = 0
    apart: bool = False

    @property
    def is_first(self) -> bool:
        """Whether it is for the first rows alone."""
        return self.packs or self.asks

    @property
    def name(self) -> str:
        """The function."""
        kind = "_packing" if self.packs else "_asking" if self.asks else "" if self.halves == 2 else "_narrow"
        kind = f"_few{self.few}" if self.few else kind
        return f"o2m_tile_f32_{self.segments}_{self.rows}{kind}{'_apart' if self.apart else ''}"

    @property
    def is_general(self) -> bool:
        """Whether columns may be any distance apart: a tile of one row has registers enough for that in any case."""
        return self.apart or self.asks or self.rows == 1


def tile_types(segments: int, *, packs: bool = False) -> list[str]:
    """The types of the arguments of a function, which does a run of such tiles, one below the other.

    The left operand; the table of its rows, from the first tile's first (each the byte offset of a row of the left operand, and
    of one of the result); the columns; the result at the first column; the next panel, of which a tile is to ask for a part on
    behalf of those that meet it; the words of what is done with whole sums (plain_tails.py), or null; how many columns there
    are to store, and the number of the first, or of the first row where whole sums are finished by numbers of the rows; whether
    to add to what the result holds, whether to ask for where it goes, and whether for the next tile's rows; how many bytes
    apart the columns are from one step along the sum to the next; how many tiles there are, and how many of the panel came
    before; by how much the number that was told grows from row to row. Then for each segment its count and, but for the
    innermost, its step in bytes in the left operand. One that ``packs`` is told where the columns lie and how many bytes apart
    they do so there; all of them are stored.
    """
    head = ["!llvm.ptr"] * 6 + ["i64", "i64", "i1", "i1", "i1"] + ["i64"] * 4
    return head + ["i64"] * (2 * segments - 1) + (["!llvm.ptr", "i64"] if packs else [])
