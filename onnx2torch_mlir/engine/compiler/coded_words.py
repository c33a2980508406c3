"""What packed codes (packed_codes.py) are as floats, in registers: integers less their zero points, or floats of 16 bits."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.code_text import header_word
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import FLOAT_CODES

BITS, BLOCK, RECORD, OWN, SAME, PANEL, BATCH, TYPE = range(8)
"""The words of the header (layout.CODES_HEADER)."""
_HALF = 16
_UPPER = -1 << 16
_BY_STEP = FLOAT_CODES["f16"]
"""The type of which the codes of neighbouring steps do not share words: instructions widen vectors of them."""
_CHOOSES = "llvm.x86.avx512.permvar.sf.512"
"""Of 16 numbers those that the lowest four bits of each word name (AVX-512)."""


def bits_of(type_: int) -> int:
    """How many bits a code of a type has, whose number is that of `layout.CODES_HEADER`."""
    return _HALF if type_ in FLOAT_CODES.values() else type_


def has_table(unit: VectorUnit, type_: int) -> bool:
    """Whether codes are looked up, in a table of all numbers that they stand for."""
    return unit.looks_up and bits_of(type_) <= 4


def read_record(unit: VectorUnit, type_: int, header: str, place: str) -> list[str]:
    """Of the record of a block at ``place``: %s0, %s1 (scales), %z0, %z1 (zero points), %codes, and their %table.

    A zero point that all have is in the table: the others are 0 then.
    """
    lanes, vector = unit.lanes, f"vector<{unit.lanes}xf32>"
    lines = [
        *header_word("%zeros", header, OWN),
        *header_word("%same", header, SAME),
        "%no_zeros = arith.constant 0 : i64",
        "%own = arith.cmpi ne, %zeros, %no_zeros : i64",
        "%same32 = arith.trunci %same : i64 to i32",
        "%same_zero = arith.bitcast %same32 : i32 to f32",
        f"%all_same = vector.broadcast %same_zero : f32 to {vector}",
        f"%before = arith.constant {4 * unit.columns} : i64",
        "%zero_bytes = arith.muli %zeros, %before : i64",
        "%code_bytes = arith.addi %zero_bytes, %before : i64",
        f"%zero_at = llvm.getelementptr {place}[%zero_bytes] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        f"%codes = llvm.getelementptr {place}[%code_bytes] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
    ]
    without = "%all_same"
    if has_table(unit, type_):
        numbers = ", ".join(f"{code % (1 << bits_of(type_))}.0" for code in range(unit.lanes))
        without = "%no_zero"
        lines += [
            f"%no_zero = arith.constant dense<0.0> : {vector}",
            f"%all_codes = arith.constant dense<[{numbers}]> : {vector}",
            f"%in_table = arith.select %own, %no_zero, %all_same : {vector}",
            f"%table = arith.subf %all_codes, %in_table : {vector}",
        ]
    for half in range(2):
        lines += [
            f"%s{half}_at = llvm.getelementptr {place}[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            f"%s{half} = llvm.load %s{half}_at {{alignment = 4 : i64}} : !llvm.ptr -> {vector}",
            f"%z{half}_at = llvm.getelementptr %zero_at[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            f"%z{half}_own = llvm.load %z{half}_at {{alignment = 4 : i64}} : !llvm.ptr -> {vector}",
            f"%z{half} = arith.select %own, %z{half}_own, {without} : {vector}",
        ]
    return lines


def words_of(unit: VectorUnit, type_: int, group: str) -> list[str]:
    """%v0 and %v1: the words of group ``group`` of a block's steps; of floats %group, where they are, step by step."""
    lines = [f"%gwidth = arith.constant {unit.columns} : i64", f"%gfar = arith.muli {group}, %gwidth : i64"]
    if type_ == _BY_STEP:
        return [*lines, "%group = llvm.getelementptr %codes[%gfar] : (!llvm.ptr, i64) -> !llvm.ptr, i32"]
    for half in range(2):
        lines += [
            f"%v{half}_from = llvm.getelementptr %codes[%gfar] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
            f"%v{half}_at = llvm.getelementptr %v{half}_from[{half * unit.lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
            f"%v{half} = llvm.load %v{half}_at {{alignment = 4 : i64}} : !llvm.ptr -> vector<{unit.lanes}xi32>",
        ]
    return lines


def decoded(unit: VectorUnit, type_: int, place: int, half: int, *, own: bool = True) -> list[str]:
    """%w = the code at ``place`` in the words %v, less its zero point (in the table unless columns have their ``own``)."""
    ints, vector, bits = f"vector<{unit.lanes}xi32>", f"vector<{unit.lanes}xf32>", bits_of(type_)
    name, value = f"{place}_{half}", f"%v{half}"
    if type_ == _BY_STEP:
        return _widened(unit, f"%w{name}", "%group", place * unit.columns + half * unit.lanes)
    if bits == _HALF:
        return _of_word(unit, f"%w{name}", value, upper=bool(place))
    lines = []
    if place:
        lines += [
            f"%by{name} = arith.constant dense<{place * bits}> : {ints}",
            f"%r{name} = arith.shrui {value}, %by{name} : {ints}",
        ]
        value = f"%r{name}"
    if has_table(unit, type_):
        chosen = f"%f{name}" if own else f"%w{name}"
        lines.append(f'{chosen} = llvm.call_intrinsic "{_CHOOSES}"(%table, {value}) : ({vector}, {ints}) -> {vector}')
        return [*lines, *([f"%w{name} = arith.subf {chosen}, %z{half} : {vector}"] if own else [])]
    if place < 32 // bits - 1:
        lines += [
            f"%mask{name} = arith.constant dense<{(1 << bits) - 1}> : {ints}",
            f"%a{name} = arith.andi {value}, %mask{name} : {ints}",
        ]
        value = f"%a{name}"
    return [
        *lines,
        f"%f{name} = arith.sitofp {value} : {ints} to {vector}",
        f"%w{name} = arith.subf %f{name}, %z{half} : {vector}",
    ]


def decoded_rest(unit: VectorUnit, type_: int) -> list[str]:
    """%ew0 and %ew1 = the codes at %place in the last words, less their zero points."""
    ints, vector, bits = f"vector<{unit.lanes}xi32>", f"vector<{unit.lanes}xf32>", bits_of(type_)
    if type_ == _BY_STEP:
        lines = [
            "%skipped = arith.muli %place, %gwidth : i64",
            "%here = llvm.getelementptr %group[%skipped] : (!llvm.ptr, i64) -> !llvm.ptr, i16",
        ]
        for half in range(2):
            lines += _widened(unit, f"%ew{half}", "%here", half * unit.lanes)
        return lines
    if bits == _HALF:
        # Of two, it is the first.
        return [line for half in range(2) for line in _of_word(unit, f"%ew{half}", f"%v{half}", upper=False)]
    lines = [
        f"%bits = arith.constant {bits} : i64",
        "%by = arith.muli %place, %bits : i64",
        "%by32 = arith.trunci %by : i64 to i32",
        f"%byv = vector.broadcast %by32 : i32 to {ints}",
        f"%emask = arith.constant dense<{(1 << bits) - 1}> : {ints}",
    ]
    for half in range(2):
        if has_table(unit, type_):
            lines += [
                f"%er{half} = arith.shrui %v{half}, %byv : {ints}",
                f'%ef{half} = llvm.call_intrinsic "{_CHOOSES}"(%table, %er{half}) : ({vector}, {ints}) -> {vector}',
                f"%ew{half} = arith.subf %ef{half}, %z{half} : {vector}",
            ]
            continue
        lines += [
            f"%er{half} = arith.shrui %v{half}, %byv : {ints}",
            f"%ea{half} = arith.andi %er{half}, %emask : {ints}",
            f"%ef{half} = arith.sitofp %ea{half} : {ints} to {vector}",
            f"%ew{half} = arith.subf %ef{half}, %z{half} : {vector}",
        ]
    return lines


def _of_word(unit: VectorUnit, name: str, words: str, *, upper: bool) -> list[str]:
    """``name`` = the bfloat16 in the upper or the lower half of each of ``words``."""
    ints, vector = f"vector<{unit.lanes}xi32>", f"vector<{unit.lanes}xf32>"
    return [
        f"{name}_by = arith.constant dense<{_UPPER if upper else _HALF}> : {ints}",
        f"{name}_bits = arith.{'andi' if upper else 'shli'} {words}, {name}_by : {ints}",
        f"{name} = arith.bitcast {name}_bits : {ints} to {vector}",
    ]


def _widened(unit: VectorUnit, name: str, group: str, place: int) -> list[str]:
    """``name`` = the float16 numbers from number ``place`` of the group at ``group`` on."""
    vector, narrow = f"vector<{unit.lanes}xf32>", f"vector<{unit.lanes}xf16>"
    return [
        f"{name}_at = llvm.getelementptr {group}[{place}] : (!llvm.ptr) -> !llvm.ptr, i16",
        f"{name}_half = llvm.load {name}_at {{alignment = 2 : i64}} : !llvm.ptr -> {narrow}",
        f"{name} = arith.extf {name}_half : {narrow} to {vector}",
    ]
