"""Rows of floats that may turn out to be narrower numbers when the program runs: made once, before blocks of columns meet them.

What is narrower are bytes (byte_rows.py) or bfloat16 (brain_rows.py). The first row that is not says so to all threads, and the
rows are multiplied as floats.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.compiler import row_tables, threads
from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES, bytes_behind, constants, declared, header_word, words

HEAD_BYTES = LINE_BYTES
"""Before the rows, of which the words of 64 bits are `ARE_NARROW` and `FAR`."""
ARE_NARROW, FAR = 0, 1
"""Whether all rows are narrower numbers, and how many bytes a row of them has."""
ARGUMENTS = [*((f"%{name}", "!llvm.ptr") for name in ("header", "a", "table", "narrow")), *words(["k"])]
"""Of what makes a range of rows: the header of packed codes, the left operand, the table of its rows, where they go, the sum's
length."""


def made(function: str, rows: int, row_bytes: Sequence[str], may_be: Sequence[str]) -> list[str]:
    """``%narrow``: what says whether the rows, which have so many dims, are narrower numbers, and has them if so.

    ``function`` makes a range of rows, of ``%row_bytes`` each, where they ``%may_be``. ``%ctx``, ``%header``, ``%a``, ``%ms``,
    ``%kn0``, ``%none`` and ``%one`` are there, and what `row_tables.write` reads.
    """
    return [
        *constants(entry_bytes=row_tables.ENTRY_BYTES, head=HEAD_BYTES),
        *row_bytes,
        *may_be,
        "%rows_or_none = arith.select %may_be, %ms, %none : i64",
        "%all_rows = arith.muli %row_bytes, %rows_or_none : i64",
        "%with_head = arith.addi %all_rows, %head : i64",
        "%narrow = func.call @o2m_alloc(%ctx, %with_head) : (!llvm.ptr, i64) -> !llvm.ptr",
        "%may_be_word = arith.extui %may_be : i1 to i64",
        "llvm.store %may_be_word, %narrow : i64, !llvm.ptr",
        f"%row_bytes_at = llvm.getelementptr %narrow[{FAR}] : (!llvm.ptr) -> !llvm.ptr, i64",
        "llvm.store %row_bytes, %row_bytes_at : i64, !llvm.ptr",
        "scf.if %may_be {",
        "%table_size = arith.muli %ms, %entry_bytes : i64",
        "%table = func.call @o2m_alloc(%ctx, %table_size) : (!llvm.ptr, i64) -> !llvm.ptr",
        row_tables.write("m", rows, ("ma", "ma"), ("%table", "%none", "%ms")),
        threads.on_all(function, "%ms, %kn0", [("%kn0" if name == "%k" else name, t) for name, t in ARGUMENTS]),
        "func.call @o2m_free(%ctx, %table) : (!llvm.ptr, !llvm.ptr) -> ()",
        "}",
    ]


def are_narrow() -> list[str]:
    """``%are_narrow``: whether the rows are as ``%narrow`` says; ``%none`` is there."""
    return [*header_word("%narrow_word", "%narrow", ARE_NARROW), "%are_narrow = arith.cmpi ne, %narrow_word, %none : i64"]


def functions(name: str, before: Sequence[str], row: Sequence[str]) -> str:
    """@name(`ARGUMENTS`), which makes rows ``begin`` to ``end``, and what shares them among threads.

    A ``row`` is made of what is at ``%from``, and goes to ``%start``; ``before`` comes what all of them need. ``%none``,
    ``%one`` and ``%two`` are there.
    """
    lines = [
        f"func.func private @{name}({declared(ARGUMENTS)}, {threads.RANGE}) {{",
        *constants(none=0, one=1, two=2, head=HEAD_BYTES),
        *header_word("%far", "%narrow", FAR),
        *before,
        bytes_behind("%first", "%narrow", "%head"),
        "scf.for %row = %begin to %end step %one : i64 {",
        "%entry = arith.muli %row, %two : i64",
        "%place = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        "%offset = llvm.load %place : !llvm.ptr -> i64",
        bytes_behind("%from", "%a", "%offset"),
        "%before = arith.muli %row, %far : i64",
        bytes_behind("%start", "%first", "%before"),
        *row,
        "}",
        "return",
        "}",
    ]
    return "\n".join([*lines, threads.spread(name, [type_ for _, type_ in ARGUMENTS])])


def while_narrow(make: Sequence[str]) -> list[str]:
    """As long as no row is known that is not narrow: ``make`` some, and say so if not all of them are ``%found`` to be."""
    return [
        "%known = llvm.load %narrow atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64",
        "%goes = arith.cmpi ne, %known, %none : i64",
        "scf.if %goes {",
        *make,
        "scf.if %found {",
        "} else {",
        "llvm.store %none, %narrow atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr",
        "}",
        "}",
    ]
