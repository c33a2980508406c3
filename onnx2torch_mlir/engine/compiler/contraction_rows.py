"""Some rows of one batch of a sum of products whose columns are packed: for loops that do more with rows than that."""

from __future__ import annotations

from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler import contraction_panels, row_tables
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, declared, moved_by_batch, words
from onnx2torch_mlir.engine.compiler.contraction_blocks import own
from onnx2torch_mlir.engine.compiler.contraction_kinds import segment_words
from onnx2torch_mlir.engine.compiler.parallel_loops import SOME_ROWS

MOST_ROWS = 48
"""Rows of one call: each of them meets the packed columns while these are in the second-level cache."""


@dataclass(frozen=True)
class RowsKind:
    """How many dims of each kind (contraction_kinds.py) a sum of products has, of which some rows are asked for."""

    batches: int
    rows: int
    segments: int

    @property
    def name(self) -> str:
        """The function: @name(left operand, packed columns of all batches, result, words)."""
        return f"{SOME_ROWS}{self.batches}_{self.rows}_{self.segments}"

    @property
    def words(self) -> list[str]:
        """The names of its i64 arguments.

        The number of the batch and of its first row, and how many rows (at most `MOST_ROWS`); how many columns there are, and
        the bytes of a batch of them; for each dim of the batches and of the rows its count and its steps, in bytes, in the
        left operand and in the result; for each segment its count and, but for the innermost, its step in the left operand.
        """
        found = ["batch", "first", "count", "n", "far"]
        found += [f"b{letter}{i}" for i in range(self.batches) for letter in "nac"]
        found += [f"m{letter}{i}" for i in range(self.rows) for letter in "nac"]
        return found + segment_words(self.segments)


def function(kind: RowsKind) -> str:
    """The text of a kind's function; it calls what `contraction_panels.panels` and `row_tables.rows` make."""
    arguments = [*((name, "!llvm.ptr") for name in ("%a", "%b", "%c")), *words(kind.words)]
    moved = {"%a": "%a_", "%table": "%rows", "%m": "%count", "%b": "%bb", "%c": "%c_", "%add": "%no"}
    moved |= contraction_panels.of_segments(kind.segments) | contraction_panels.WITHOUT_TAIL
    lines = [
        f"func.func private @{kind.name}({declared(arguments)}) {{",
        "%no = arith.constant false",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        "%no_tail = llvm.mlir.zero : !llvm.ptr",
        *own("rows", (MOST_ROWS + 1) * row_tables.ENTRY_BYTES),
        *moved_by_batch(kind.batches, {"a": ("%a", "ba"), "c": ("%c", "bc")}),
        "%before = arith.muli %batch, %far : i64",
        bytes_behind("%bb", "%b", "%before"),
        row_tables.write_for_tiles("m", kind.rows, ("ma", "mc"), ("%rows", "%first", "%count")),
        contraction_panels.call("panels", kind.segments, moved),
    ]
    return "\n".join([*lines, "return", "}"])
