"""What tells contractions apart: how many dims of each kind they have. And how large the blocks of their sums are.

Dims are of four kinds: *batches* move all three operands; *rows* the left operand and the result; *columns* the right
operand and, densely, the result; *segments* (all that is summed up) the left operand, densely in the innermost, and the right.
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_COLUMNS = 64
"""Of blocks, which threads share, and which have `VectorUnit.block_rows`; their sums have to stay in the first-level cache."""
HALF_OF_COLUMNS = BLOCK_COLUMNS // 2
"""Of blocks that are halved, for there are few of them."""
FEW_BLOCKS = 32
"""Fewer are made smaller, for threads to have about as much to do: of three, one of two would do twice the other's."""
FLAT_BLOCK_ROWS = 24
"""Of blocks along rows where there are few: the result is written in about the order in which it lies in memory."""
COLUMNS_THAT_STAY = 512 << 10
"""Bytes of packed columns that stay in the second-level cache while one block of rows after the other meets them."""
FEW_ROWS = 4
"""Fewer are left to loops, where columns would have to be packed for them."""
PRODUCTS = 8
"""Products and sums that take as long as one operation on an element elsewhere (threads.py)."""


def segment_words(count: int) -> list[str]:
    """The names of the words that tell so many segments: each one's count and, but for the innermost, its step."""
    return [name for i in range(count) for name in ([f"kn{i}", f"ka{i}"] if i < count - 1 else [f"kn{i}"])]


@dataclass(frozen=True)
class Kind:
    """How many dims of each kind a contraction has.

    ``segments`` are those of the left operand, of which each may stand for several; ``unpacked`` are those of the right
    operand, 0 where it is already packed, with ``codes`` as codes of a few bits; ``narrow``: what the rows that are multiplied
    by codes may turn out to be (narrowed_rows.py), "bytes" or "pairs" of bfloat16.
    """

    batches: int
    rows: int
    segments: int
    unpacked: int
    codes: bool = False
    narrow: str = ""

    @property
    def packed(self) -> bool:
        """Whether the right operand is already packed."""
        return self.unpacked == 0

    @property
    def has_rows_alone(self) -> bool:
        """Whether there is another function for single rows (`tile_loops.row`)."""
        return self.packed and not self.codes

    @property
    def name(self) -> str:
        """The function of this kind."""
        right = self.narrow or ("codes" if self.codes else str(self.unpacked))
        return f"o2m_contract_f32_{self.batches}_{self.rows}_{self.segments}_{right}"

    def arguments(self) -> list[str]:
        """The names of the i64 arguments, after the context, the three pointers and ``add``."""
        found = [f"{letter}{i}" for i in range(self.batches) for letter in ("bn", "ba", "bb", "bc")]
        found += [f"{letter}{i}" for i in range(self.rows) for letter in ("mn", "ma", "mc")]
        found += ["n"] if self.packed else ["n", "nb"]
        found += [f"{letter}{i}" for i in range(self.segments) for letter in ("kn", "ka")]
        found += [f"{letter}{i}" for i in range(self.unpacked) for letter in ("rn", "rb")]
        return found
