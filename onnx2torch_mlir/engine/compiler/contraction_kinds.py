"""What tells contractions apart: how many dims of each kind they have, and whether something follows their sums.

Dims are of four kinds: *batches* move all three operands; *rows* the left operand and the result; *columns* the right
operand and, densely, the result; *segments* (all that is summed up) the left operand, densely in the innermost, and the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler.code_text import words

BLOCK_ROWS = 96
BLOCK_COLUMNS = 64
"""Of blocks, which threads share; their sums have to stay in the first-level cache."""
FLAT_BLOCK_ROWS = 24
"""Of blocks along rows: so few that the result is written in about the order in which it lies in memory."""


def of_tail(tail: bool) -> list[tuple[str, str]]:
    """What is handed on where a tail follows: its function, the array that it writes, and the words that it reads besides.

    It is a pointer, so that all that is around tiles is there once, whatever follows.
    """
    return [(f"%tail{name}", "!llvm.ptr") for name in ("", "_out", "_words")] if tail else []


def call_of_tail(sums: str, block: Sequence[str]) -> str:
    """A call of the tail (contraction_tails.py) for a block of ``sums``, whose rows are `BLOCK_COLUMNS` apart.

    ``block``: first row, rows, first column, columns, all columns, without their ``%``.
    """
    (function, _), *more = of_tail(True)
    given = [(sums, "!llvm.ptr"), *words(block), *more]
    return f"llvm.call {function}({', '.join(v for v, _ in given)}) : !llvm.ptr, ({', '.join(t for _, t in given)}) -> ()"


@dataclass(frozen=True)
class Kind:
    """How many dims of each kind a contraction has, and whether a tail follows it.

    ``segments`` are those of the left operand, of which each may stand for several; ``unpacked`` are those of the right
    operand, 0 where it is already packed, with ``codes`` as codes of a few bits.
    """

    batches: int
    rows: int
    segments: int
    unpacked: int
    tail: bool = False
    codes: bool = False

    @property
    def packed(self) -> bool:
        """Whether the right operand is already packed."""
        return self.unpacked == 0

    @property
    def tail_of_tiles(self) -> bool:
        """Whether the tail follows each register tile; that of coded columns follows a block."""
        return self.tail and not self.codes

    @property
    def name(self) -> str:
        """The function of this kind."""
        tail = "_tail" if self.tail else ""
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
