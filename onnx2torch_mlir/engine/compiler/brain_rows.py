"""Rows of floats that are bfloat16, found again as such: a number that was rounded to one has nothing in its lower half.

Programs in bfloat16 round every result, and their sums are of float32, so that what a product reads are such numbers. Whether
all are is looked at when the program runs. The processor's products (brain_products.py) take subnormal numbers for zeros: rows
with any of these stay floats.
"""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import coded_words, narrowed_rows
from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES, constants, header_word, masked_load
from onnx2torch_mlir.engine.layout import FLOAT_CODES

_LANES = 16
_FLOATS, _INTS, _HALVES = (f"vector<{_LANES}x{kind}>" for kind in ("f32", "i32", "i16"))
_PER_LINE = LINE_BYTES // 2
_MAGNITUDE = (1 << 31) - 1
_SMALLEST_NORMAL = 1 << 23
_FEWEST_ROWS = 3
"""Fewer meet packed columns as floats (coded_columns.py): what takes time there is to read these."""


def made(rows: int) -> list[str]:
    """``%narrow``: what says whether the rows, which have so many dims, are bfloat16, and has them as such if so
    (`narrowed_rows.made`).

    A row has an odd number of lines, or rows would lie a multiple of 4 KiB apart, and drive each other out of the cache.
    """
    row_bytes = [
        *constants(per_line=_PER_LINE, line=LINE_BYTES, fewest_narrow=_FEWEST_ROWS, brain=FLOAT_CODES["bf16"]),
        "%enough_lines = arith.ceildivsi %kn0, %per_line : i64",
        "%lines = arith.ori %enough_lines, %one : i64",
        "%row_bytes = arith.muli %lines, %line : i64",
    ]
    may_be = [
        *header_word("%type", "%header", coded_words.TYPE),
        *header_word("%subnormal", "%header", coded_words.SAME),
        "%are_brain = arith.cmpi eq, %type, %brain : i64",
        "%all_normal = arith.cmpi eq, %subnormal, %none : i64",
        "%are_many = arith.cmpi sge, %ms, %fewest_narrow : i64",
        "%multiplied = arith.andi %are_brain, %all_normal : i1",
        "%may_be = arith.andi %multiplied, %are_many : i1",
    ]
    return narrowed_rows.made("o2m_brain_rows", rows, row_bytes, may_be)


def functions() -> str:
    """@o2m_brain_rows, which makes a range of rows bfloat16, and what shares them among threads."""
    before = [
        *constants(lanes=_LANES),
        "%rest = arith.remui %k, %lanes : i64",
        "%whole = arith.subi %k, %rest : i64",
        "%is_ragged = arith.cmpi ne, %rest, %none : i64",
        f"%limit = vector.broadcast %rest : i64 to vector<{_LANES}xi64>",
        f"%lane = arith.constant dense<[{', '.join(map(str, range(_LANES)))}]> : vector<{_LANES}xi64>",
        f"%mask = arith.cmpi slt, %lane, %limit : vector<{_LANES}xi64>",
        f"%zero = arith.constant dense<0.0> : {_FLOATS}",
        f"%no_bits = arith.constant dense<0> : {_INTS}",
        f"%all_bits = arith.constant dense<-1> : {_INTS}",
        f"%half = arith.constant dense<16> : {_INTS}",
        f"%magnitude = arith.constant dense<{_MAGNITUDE}> : {_INTS}",
        f"%single = arith.constant dense<1> : {_INTS}",
        f"%largest_subnormal = arith.constant {_SMALLEST_NORMAL - 1} : i32",
        "%low_half = arith.constant 65535 : i32",
        "%nothing = arith.constant 0 : i32",
    ]
    row = narrowed_rows.while_narrow(
        [
            "%r:2 = scf.for %s = %none to %whole step %lanes iter_args(%bits = %no_bits, %least = %all_bits)"
            f" -> ({_INTS}, {_INTS}) : i64 {{",
            "%p = llvm.getelementptr %from[%s] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
            f"%v = llvm.load %p {{alignment = 4 : i64}} : !llvm.ptr -> {_FLOATS}",
            *_looked_at("%bits", "%least", "%s"),
            f"scf.yield %all, %lowest : {_INTS}, {_INTS}",
            "}",
            f"%e:2 = scf.if %is_ragged -> ({_INTS}, {_INTS}) {{",
            "%p = llvm.getelementptr %from[%whole] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
            masked_load("%v", "%p", "%mask", _LANES),
            *_looked_at("%r#0", "%r#1", "%whole"),
            f"scf.yield %all, %lowest : {_INTS}, {_INTS}",
            "} else {",
            f"scf.yield %r#0, %r#1 : {_INTS}, {_INTS}",
            "}",
            f"%bits_of_all = vector.reduction <or>, %e#0 : {_INTS} into i32",
            f"%least_of_all = vector.reduction <minui>, %e#1 : {_INTS} into i32",
            "%lower = arith.andi %bits_of_all, %low_half : i32",
            "%are_rounded = arith.cmpi eq, %lower, %nothing : i32",
            "%are_normal = arith.cmpi uge, %least_of_all, %largest_subnormal : i32",
            "%found = arith.andi %are_rounded, %are_normal : i1",
        ]
    )
    return narrowed_rows.functions("o2m_brain_rows", before, row)


def _looked_at(bits: str, least: str, place: str) -> list[str]:
    """The upper halves of ``%v`` go to number ``place`` of the row; ``%all`` is every bit so far, ``%lowest`` the least
    magnitude less 1, which of a zero is the largest number."""
    return [
        f"%w = arith.bitcast %v : {_FLOATS} to {_INTS}",
        f"%upper = arith.shrui %w, %half : {_INTS}",
        f"%halves = arith.trunci %upper : {_INTS} to {_HALVES}",
        f"%to = llvm.getelementptr %start[{place}] : (!llvm.ptr, i64) -> !llvm.ptr, i16",
        f"llvm.store %halves, %to {{alignment = 2 : i64}} : {_HALVES}, !llvm.ptr",
        f"%all = arith.ori {bits}, %w : {_INTS}",
        f"%unsigned = arith.andi %w, %magnitude : {_INTS}",
        f"%less = arith.subi %unsigned, %single : {_INTS}",
        f"%lowest = arith.minui {least}, %less : {_INTS}",
    ]
