"""What tells contractions apart: how many dims of each kind they have, and what follows their sums.

Dims are of four kinds: *batches* move all three operands; *rows* the left operand and the result; *columns* the right
operand and, densely, the result; *segments* (all that is summed up) the left operand, densely in the innermost, and the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler.code_text import called, words

BLOCK_ROWS = 96
BLOCK_COLUMNS = 64
"""Of blocks, which threads share; their sums have to stay in the first-level cache."""
FLAT_BLOCK_ROWS = 24
"""Of blocks along rows: so few that the result is written in about the order in which it lies in memory."""


@dataclass(frozen=True)
class Tail:
    """A function of a block of sums (contraction_tails.py), and the types of what it takes besides the block.

    The block is a pointer to the sums, of which rows are `BLOCK_COLUMNS` apart, its first row and how many there are, its
    first column and how many there are, and the number of all columns.
    """

    name: str
    types: tuple[str, ...]

    @property
    def declaration(self) -> str:
        """The function without its body."""
        return f"func.func private @{self.name}({', '.join(['!llvm.ptr', *['i64'] * 5, *self.types])})"

    def call(self, sums: str, block: Sequence[str]) -> str:
        """A call of it for ``block``: first row, rows, first column, columns, all columns, without their ``%``."""
        return called(self.name, [(sums, "!llvm.ptr"), *words(block), *of_tail(self)])


def of_tail(tail: Tail | None) -> list[tuple[str, str]]:
    """What is handed on to a tail besides its block: names and types."""
    return [] if tail is None else [(f"%t{i}", type_) for i, type_ in enumerate(tail.types)]


@dataclass(frozen=True)
class Kind:
    """How many dims of each kind a contraction has, and what follows it.

    ``segments`` are those of the left operand, of which each may stand for several; ``unpacked`` are those of the right
    operand, 0 where it is already packed, with ``codes`` as codes of a few bits.
    """

    batches: int
    rows: int
    segments: int
    unpacked: int
    tail: Tail | None = None
    codes: bool = False

    @property
    def packed(self) -> bool:
        """Whether the right operand is already packed."""
        return self.unpacked == 0

    @property
    def tail_of_tiles(self) -> Tail | None:
        """The tail that follows each register tile; that of coded columns follows a block."""
        return None if self.codes else self.tail

    @property
    def name(self) -> str:
        """The function of this kind."""
        tail = "" if self.tail is None else f"_{self.tail.name}"
        right = "codes" if self.codes else str(self.unpacked)
        return f"o2m_contract_f32_{self.batches}_{self.rows}_{self.segments}_{right}{tail}"

    def arguments(self) -> list[str]:
        """The names of the i64 arguments, after the context, the three pointers and ``add``."""
        found = [f"{letter}{i}" for i in range(self.batches) for letter in ("bn", "ba", "bb", "bc")]
        found += [f"{letter}{i}" for i in range(self.rows) for letter in ("mn", "ma", "mc")]
        found += ["n"] if self.packed else ["n", "nb"]
        found += [f"{letter}{i}" for i in range(self.segments) for letter in ("kn", "ka")]
        found += [f"{letter}{i}" for i in range(self.unpacked) for letter in ("rn", "rb")]
        return found
