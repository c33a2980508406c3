"""Packed columns that are codes of a few bits with a scale for each block of steps, or floats of 16 bits (packed_codes.py).

Where there are many rows, the codes of a part of a panel become floats in a buffer that stays in the first-level cache, and
tiles of floats read them there; they are the numbers that the program asks for, bit by bit. A few rows meet codes in
registers, where AVX-512 looks up those of four bits and less: sums of a block are scaled at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from onnx2torch_mlir.engine.compiler import coded_words, contraction_panels
from onnx2torch_mlir.engine.compiler.code_text import (
    called,
    column_masks,
    declared,
    header_word,
    masked_load,
    masked_store,
    words,
)
from onnx2torch_mlir.engine.compiler.coded_words import bits_of, decoded, decoded_rest, has_table, read_record, words_of
from onnx2torch_mlir.engine.compiler.contraction_panels import WITHOUT_TAIL
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import FLOAT_CODES, INTEGERS

_INTEGERS = (2, 4, 8)
_PART = 256
"""Steps along the sum whose columns are in the buffer at once."""
_FEW, _FEW_LOOKED_UP = 2, 3
"""Rows that meet codes in registers: any codes, and those that are looked up."""
_OWN = {False: "", True: "_own"}
"""Of functions' names: of columns with zero points of their own, or whatever they have."""
HEADER_BYTES = 64


def can_be_read(unit: VectorUnit, codes: str) -> bool:
    """Whether there are instructions for codes (`Weights.codes`) of a kind; "" is none."""
    return codes in (INTEGERS, "bf16") or (codes == "f16" and unit.widens_halves)


def functions(unit: VectorUnit, codes: Set[str]) -> str:
    """@o2m_coded_panels and what it calls, but for the tiles of floats; ``codes`` are what it meets (`Weights.codes`)."""
    types = [each for kind in sorted(codes) for each in ((FLOAT_CODES[kind],) if kind in FLOAT_CODES else _INTEGERS)]
    texts = [_floats(unit, type_) for type_ in types]
    texts += [_row(unit, type_, own) for type_ in types for own in _zeros(unit, type_)]
    return "\n".join([*texts, _panels(unit, types)])


def _zeros(unit: VectorUnit, type_: int) -> tuple[bool, ...]:
    """Whether columns have zero points of their own: there are functions for both, where it makes a difference."""
    return (False, True) if has_table(unit, type_) else (True,)


def _floats(unit: VectorUnit, type_: int) -> str:
    """@o2m_coded_floats_T(header, to, record, from, groups): some groups of steps of a block as floats."""
    vector, per = f"vector<{unit.lanes}xf32>", 32 // bits_of(type_)
    lines = [
        f"func.func private @o2m_coded_floats_{type_}(%header: !llvm.ptr, %to: !llvm.ptr, %record: !llvm.ptr, %from: i64,"
        " %groups: i64) {",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        *read_record(unit, type_, "%header", "%record"),
        "scf.for %g = %none to %groups step %one : i64 {",
        "%here = arith.addi %from, %g : i64",
        *words_of(unit, type_, "%here"),
        f"%size = arith.constant {per * unit.columns} : i64",
        "%far = arith.muli %g, %size : i64",
        "%into = llvm.getelementptr %to[%far] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    for place in range(per):
        for half in range(2):
            name, cell = f"{place}_{half}", place * unit.columns + half * unit.lanes
            lines += [
                *decoded(unit, type_, place, half),
                f"%x{name} = arith.mulf %w{name}, %s{half} : {vector}",
                f"%p{name} = llvm.getelementptr %into[{cell}] : (!llvm.ptr) -> !llvm.ptr, f32",
                f"llvm.store %x{name}, %p{name} {{alignment = 4 : i64}} : {vector}, !llvm.ptr",
            ]
    return "\n".join([*lines, "}", "return", "}"])


def _row(unit: VectorUnit, type_: int, own: bool) -> str:
    """@o2m_coded_row_T(header, a, panel, c, columns, add, k): one row times the columns of a panel."""
    lanes, bits = unit.lanes, bits_of(type_)
    per = 32 // bits
    vector = f"vector<{lanes}xf32>"
    four = ", ".join([vector] * 4)
    lines = [
        f"func.func private @o2m_coded_row_{type_}{_OWN[own]}(%header: !llvm.ptr, %a: !llvm.ptr, %panel: !llvm.ptr,"
        " %c: !llvm.ptr, %columns: i64, %add: i1, %k: i64) {",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%per = arith.constant {per} : i64",
        f"%zero = arith.constant dense<0.0> : {vector}",
        *column_masks(lanes),
        f"%c1 = llvm.getelementptr %c[{lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
        *header_word("%block", "%header", coded_words.BLOCK),
        *header_word("%bytes", "%header", coded_words.RECORD),
        f"%start:2 = scf.if %add -> ({vector}, {vector}) {{",
        *(masked_load(f"%l{half}", place, f"%m{half}", lanes) for half, place in enumerate(("%c", "%c1"))),
        f"scf.yield %l0, %l1 : {vector}, {vector}",
        "} else {",
        f"scf.yield %zero, %zero : {vector}, {vector}",
        "}",
        "%all:3 = scf.for %k0 = %none to %k step %block iter_args(%t0 = %start#0, %t1 = %start#1, %record = %panel)"
        f" -> ({vector}, {vector}, !llvm.ptr) : i64 {{",
        *read_record(unit, type_, "%header", "%record"),
        "%left = arith.subi %k, %k0 : i64",
        "%steps = arith.minsi %left, %block : i64",
        "%groups = arith.divui %steps, %per : i64",
        "%x = llvm.getelementptr %a[%k0] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%sums:4 = scf.for %g = %none to %groups step %one"
        f" iter_args(%q0 = %zero, %q1 = %zero, %q2 = %zero, %q3 = %zero) -> ({four}) : i64 {{",
        *words_of(unit, type_, "%g"),
        "%xfar = arith.muli %g, %per : i64",
        "%xg = llvm.getelementptr %x[%xfar] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    held = [f"%q{i}" for i in range(4)]
    for place in range(per):
        lines += [
            f"%xp{place} = llvm.getelementptr %xg[{place}] : (!llvm.ptr) -> !llvm.ptr, f32",
            f"%xs{place} = llvm.load %xp{place} : !llvm.ptr -> f32",
            f"%xv{place} = vector.broadcast %xs{place} : f32 to {vector}",
        ]
        for half in range(2):
            name, cell = f"{place}_{half}", 2 * (place % 2) + half
            lines += [
                *decoded(unit, type_, place, half, own=own),
                f"%n{name} = math.fma %w{name}, %xv{place}, {held[cell]} : {vector}",
            ]
            held[cell] = f"%n{name}"
    lines += [
        f"scf.yield {', '.join(held)} : {four}",
        "}",
        "%done = arith.muli %groups, %per : i64",
        f"%whole0 = arith.addf %sums#0, %sums#2 : {vector}",
        f"%whole1 = arith.addf %sums#1, %sums#3 : {vector}",
        f"%rest:2 = scf.for %e = %done to %steps step %one iter_args(%u0 = %whole0, %u1 = %whole1)"
        f" -> ({vector}, {vector}) : i64 {{",
        *words_of(unit, type_, "%groups"),
        "%ex = llvm.getelementptr %x[%e] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%exs = llvm.load %ex : !llvm.ptr -> f32",
        f"%exv = vector.broadcast %exs : f32 to {vector}",
        "%place = arith.subi %e, %done : i64",
        *decoded_rest(unit, type_),
    ]
    for half in range(2):
        lines += [
            f"%en{half} = math.fma %ew{half}, %exv, %u{half} : {vector}",
        ]
    lines += [
        f"scf.yield %en0, %en1 : {vector}, {vector}",
        "}",
        *(f"%y{half} = math.fma %rest#{half}, %s{half}, %t{half} : {vector}" for half in range(2)),
        "%following = llvm.getelementptr %record[%bytes] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        f"scf.yield %y0, %y1, %following : {vector}, {vector}, !llvm.ptr",
        "}",
        *(masked_store(f"%all#{half}", place, f"%m{half}", lanes) for half, place in enumerate(("%c", "%c1"))),
    ]
    return "\n".join([*lines, "return", "}"])


def by_type(known: Sequence[int], call: Callable[[int], list[str]]) -> list[str]:
    """What is called for the codes' ``%type``."""
    lines = ["%type_is = arith.index_cast %type : i64 to index", "scf.index_switch %type_is"]
    for each in known:
        head = f"case {each}" if each != known[-1] else "default"
        lines += [f"{head} {{", *call(each), "scf.yield", "}"]
    return lines


_POINTERS = [(f"%{name}", "!llvm.ptr") for name in ("header", "a", "table", "b", "c")]
_ARGUMENTS = [*_POINTERS, *words(["m", "n", "k"]), ("%add", "i1")]
"""Of @o2m_coded_panels: the header, and what @o2m_panels_1 takes where nothing follows."""


def call(moved: Mapping[str, str]) -> str:
    """A call of @o2m_coded_panels, each argument by its own name unless it is ``moved``."""
    return called("o2m_coded_panels", [(moved.get(name, name), type_) for name, type_ in _ARGUMENTS])


def _panels(unit: VectorUnit, known: Sequence[int]) -> str:
    """@o2m_coded_panels: as @o2m_panels_1, of coded columns."""
    of_part = {"%a": "%ak", "%b": "%buffer", "%c": "%cj", "%add": "%add_here", "%n0": "%here"}
    row = ", ".join(["!llvm.ptr"] * 4 + ["i64", "i1", "i64"])
    floats = ", ".join(["!llvm.ptr"] * 3 + ["i64"] * 2)
    newline = "\n"

    def call_row(type_: int) -> list[str]:
        given = f"(%header, %ai, %bj, %ci, %columns, %add, %k) : ({row}) -> ()"
        calls = {own: f"func.call @o2m_coded_row_{type_}{_OWN[own]}{given}" for own in _zeros(unit, type_)}
        return ["scf.if %have_own {", calls[True], "} else {", calls[False], "}"] if False in calls else [calls[True]]

    def call_floats(type_: int) -> list[str]:
        return [f"func.call @o2m_coded_floats_{type_}(%header, %to, %record, %from, %groups) : ({floats}) -> ()"]

    return f"""
  func.func private @o2m_coded_panels({declared(_ARGUMENTS)}) {{
    %no = arith.constant false
    %no_tail = llvm.mlir.zero : !llvm.ptr
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %width = arith.constant {unit.columns} : i64
    %by_step = arith.constant {unit.columns * 4} : i64
    %word = arith.constant 32 : i64
    %part = arith.constant {_PART} : i64
    %places = arith.constant {(_PART + 16) * unit.columns} : i64
    %buffer = llvm.alloca %places x f32 {{alignment = 64 : i64}} : (i64) -> !llvm.ptr
    {newline.join(header_word("%bits", "%header", coded_words.BITS))}
    {newline.join(header_word("%block", "%header", coded_words.BLOCK))}
    {newline.join(header_word("%record_bytes", "%header", coded_words.RECORD))}
    {newline.join(header_word("%panel_bytes", "%header", coded_words.PANEL))}
    {newline.join(header_word("%type", "%header", coded_words.TYPE))}
    {newline.join(header_word("%zeros", "%header", coded_words.OWN))}
    %have_own = arith.cmpi ne, %zeros, %none : i64
    %per = arith.divui %word, %bits : i64
    %more_than_one = arith.maxsi %k, %one : i64
    %are_floats = arith.cmpi eq, %bits, %word : i64
    %few_of_any = arith.constant {_FEW} : i64
    %few_looked_up = arith.constant {_FEW_LOOKED_UP} : i64
    %most_bits = arith.constant {max((bits_of(each) for each in known if has_table(unit, each)), default=0)} : i64
    %looked_up = arith.cmpi sle, %bits, %most_bits : i64
    %few = arith.select %looked_up, %few_looked_up, %few_of_any : i64
    %are_few = arith.cmpi sle, %m, %few : i64
    scf.if %are_floats {{
      {contraction_panels.call("panels", 1, WITHOUT_TAIL | {"%n0": "%k"})}
    }} else {{
      scf.for %j = %none to %n step %width : i64 {{
        %panel = arith.divui %j, %width : i64
        %far = arith.muli %panel, %panel_bytes : i64
        %bj = llvm.getelementptr %b[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %left = arith.subi %n, %j : i64
        %columns = arith.minsi %left, %width : i64
        %cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        scf.if %are_few {{
          scf.for %i = %none to %m step %one : i64 {{
            %entry = arith.muli %i, %two : i64
            %pa = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64
            %pc = llvm.getelementptr %pa[1] : (!llvm.ptr) -> !llvm.ptr, i64
            %oa = llvm.load %pa : !llvm.ptr -> i64
            %oc = llvm.load %pc : !llvm.ptr -> i64
            %ai = llvm.getelementptr %a[%oa] : (!llvm.ptr, i64) -> !llvm.ptr, i8
            %ci = llvm.getelementptr %cj[%oc] : (!llvm.ptr, i64) -> !llvm.ptr, i8
            {newline.join(by_type(known, call_row))}
          }}
        }} else {{
          scf.for %k0 = %none to %more_than_one step %part : i64 {{
            %rest = arith.subi %k, %k0 : i64
            %here = arith.minsi %rest, %part : i64
            %end = arith.addi %k0, %here : i64
            scf.while (%at = %k0) : (i64) -> i64 {{
              %goes = arith.cmpi slt, %at, %end : i64
              scf.condition(%goes) %at : i64
            }} do {{
            ^bb0(%at: i64):
              %number = arith.divui %at, %block : i64
              %in_block = arith.remui %at, %block : i64
              %skipped = arith.muli %number, %record_bytes : i64
              %record = llvm.getelementptr %bj[%skipped] : (!llvm.ptr, i64) -> !llvm.ptr, i8
              %of_block = arith.subi %block, %in_block : i64
              %of_part = arith.subi %end, %at : i64
              %steps = arith.minsi %of_block, %of_part : i64
              %groups = arith.ceildivsi %steps, %per : i64
              %from = arith.divui %in_block, %per : i64
              %done = arith.subi %at, %k0 : i64
              %to_far = arith.muli %done, %width : i64
              %to = llvm.getelementptr %buffer[%to_far] : (!llvm.ptr, i64) -> !llvm.ptr, f32
              {newline.join(by_type(known, call_floats))}
              %next = arith.addi %at, %steps : i64
              scf.yield %next : i64
            }}
            %ak = llvm.getelementptr %a[%k0] : (!llvm.ptr, i64) -> !llvm.ptr, f32
            %later = arith.cmpi ne, %k0, %none : i64
            %add_here = arith.ori %add, %later : i1
            {contraction_panels.call("tiles", 1, WITHOUT_TAIL | of_part)}
          }}
        }}
      }}
    }}
    return
  }}"""
