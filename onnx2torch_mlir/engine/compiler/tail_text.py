"""What the text of a driver does about a tail (contraction_tails.py): it hands it on, places sums for it, and calls it.

A tail is given as a pointer to its function, null where nothing follows: so all that is around tiles is there once. What tiles
do themselves (plain_tail_text.py) is words without a function.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS

_BYTES = 4

ARGUMENTS = tuple((f"%tail{name}", "!llvm.ptr") for name in ("", "_out", "_words"))
"""What is handed on: the tail's function, the array that it writes, and the words that it reads besides."""


def follows(tail: str = ARGUMENTS[0][0], words: str = ARGUMENTS[2][0]) -> list[str]:
    """``%has_tail``: whether there is a function to call; ``%finish``: the words of what tiles do instead, or null;
    ``%is_followed``: whether there is one of both."""
    return [
        "%no_tail = llvm.mlir.zero : !llvm.ptr",
        f'%has_tail = llvm.icmp "ne" {tail}, %no_tail : !llvm.ptr',
        f'%is_followed = llvm.icmp "ne" {words}, %no_tail : !llvm.ptr',
        f"%finish = arith.select %has_tail, %no_tail, {words} : !llvm.ptr",
    ]


def steps(rows: int) -> list[str]:
    """``%mt0`` …: how far apart rows of so many dims are where tiles write them: in the result or, before a tail, in ``%sums``,
    whose rows are `BLOCK_COLUMNS` apart."""
    lines, step = [f"%sums_row = arith.constant {BLOCK_COLUMNS * _BYTES} : i64"], "%sums_row"
    for i in reversed(range(rows)):
        lines += [f"%mt{i} = arith.select %has_tail, {step}, %mc{i} : i64", f"%sums_step{i} = arith.muli {step}, %mn{i} : i64"]
        step = f"%sums_step{i}"
    return lines


def target() -> list[str]:
    """``%target``: where tiles write row 0, by these steps, if sums are those of row ``%i`` and column ``%j`` on."""
    return [
        "%rows_before = arith.muli %i, %sums_row : i64",
        "%back_to_first = arith.subi %none, %rows_before : i64",
        bytes_behind("%row_of_sums", "%sums", "%back_to_first"),
        "%row_of_result = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%target = arith.select %has_tail, %row_of_sums, %row_of_result : !llvm.ptr",
    ]


def call(sums: str, block: Sequence[str]) -> str:
    """A call of the tail for a block of ``sums``.

    ``block``: first row, rows, first column, columns, all columns, without their ``%``.
    """
    (function, _), *more = ARGUMENTS
    given = [(sums, "!llvm.ptr"), *words(block), *more]
    return f"llvm.call {function}({', '.join(v for v, _ in given)}) : !llvm.ptr, ({', '.join(t for _, t in given)}) -> ()"
