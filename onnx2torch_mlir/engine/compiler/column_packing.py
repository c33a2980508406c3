"""Columns of a contraction's right operand side by side, in panels of two vector registers, made while the program runs."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import threads
from onnx2torch_mlir.engine.compiler.code_text import (
    LINE_BYTES,
    asked,
    bytes_behind,
    called,
    constants,
    declared,
    masked_load,
    moved_by_batch,
    product,
    turned,
    words,
)
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 4
RUN = 8
"""Panels that dense columns are copied to at a time: so many numbers are read one after the other."""


def name(segments: int) -> str:
    """The function that packs columns of so many ``segments``."""
    return f"o2m_pack_{segments}"


def part_name(segments: int) -> str:
    """The function that packs some panels of them."""
    return f"{name(segments)}_part"


def functions_for(unit: VectorUnit, segments: int) -> str:
    """Both functions, and what shares the panels among threads."""
    types = ["!llvm.ptr", "!llvm.ptr", *["i64"] * (3 + 2 * segments)]
    return "\n".join([_pack(unit, segments), _part(unit, segments), threads.spread(part_name(segments), types)])


def batches_name(segments: int, batches: int) -> str:
    """The function that packs the columns of several batches."""
    return f"{name(segments)}_{batches}"


def _batches_arguments(segments: int, batches: int) -> list[tuple[str, str]]:
    """What it takes before the range of panels, of which each batch has as many: names and types.

    Where they go and where they are; the bytes of a packed panel and how many there are; how many columns, and their step; the
    counts and steps of segments and of the dims of batches.
    """
    of_batches = [f"b{letter}{i}" for i in range(batches) for letter in "ns"]
    numbers = words(["far", "panels", "n", "ns", *_sizes(segments), *of_batches])
    return [("%to", "!llvm.ptr"), ("%b", "!llvm.ptr"), *numbers]


def functions_for_batches(segments: int, batches: int) -> str:
    """This function and what shares the panels among threads; `functions_for` the ``segments`` have to be there."""
    arguments, packing = _batches_arguments(segments, batches), batches_name(segments, batches)
    numbers = words(["far", "n", "ns", *_sizes(segments), "low", "high", "worker"])
    lines = [
        f"func.func private @{packing}({declared(arguments)}, {threads.RANGE}) {{",
        *constants(none=0, one=1),
        "%least = arith.maxsi %panels, %one : i64",
        "%from = arith.divui %begin, %least : i64",
        "%until = arith.ceildivsi %end, %least : i64",
        "scf.for %batch = %from to %until step %one : i64 {",
        *moved_by_batch(batches, {"b": ("%b", "bs")}),
        "%first = arith.muli %batch, %panels : i64",
        "%passed = arith.subi %begin, %first : i64",
        "%left = arith.subi %end, %first : i64",
        "%low = arith.maxsi %passed, %none : i64",
        "%high = arith.minsi %left, %panels : i64",
        "%before = arith.muli %first, %far : i64",
        bytes_behind("%there", "%to", "%before"),
        called(part_name(segments), [("%there", "!llvm.ptr"), ("%b_", "!llvm.ptr"), *numbers]),
        "}",
        "return",
        "}",
    ]
    return "\n".join([*lines, threads.spread(packing, [type_ for _, type_ in arguments])])


def _sizes(segments: int) -> list[str]:
    return [f"{letter}{i}" for i in range(segments) for letter in ("n", "s")]


def _part(unit: VectorUnit, segments: int) -> str:
    """@o2m_pack_S_part(to, b, bytes of a packed panel, what follows b in `_pack`, begin, end, worker): panels of a range."""
    sizes = _sizes(segments)
    given = ", ".join(["%there", "%from", "%count", "%ns", *(f"%{size}" for size in sizes)])
    types = ", ".join(["!llvm.ptr", "!llvm.ptr", *["i64"] * (2 + len(sizes))])
    return f"""func.func private @{part_name(segments)}(%to: !llvm.ptr, %b: !llvm.ptr, %far: i64, %n: i64, %ns: i64,
        {", ".join(f"%{size}: i64" for size in sizes)}, %begin: i64, %end: i64, %worker: i64) {{
      %width = arith.constant {unit.columns} : i64
      %first = arith.muli %begin, %width : i64
      %after = arith.muli %end, %width : i64
      %last = arith.minsi %after, %n : i64
      %count = arith.subi %last, %first : i64
      %ft = arith.muli %begin, %far : i64
      %fb = arith.muli %first, %ns : i64
      %there = llvm.getelementptr %to[%ft] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %from = llvm.getelementptr %b[%fb] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      func.call @{name(segments)}({given}) : ({types}) -> ()
      return
    }}"""


def _pack(unit: VectorUnit, segments: int) -> str:
    """@o2m_pack_S(to, b, n, step of columns, counts and strides of segments): columns side by side, 0 beyond the last."""
    lanes, last, sizes = unit.lanes, segments - 1, words(["n", "ns", *_sizes(segments)])
    wide, numbers = f"vector<{lanes}xi64>", ", ".join(map(str, range(lanes)))
    lines = [
        f"func.func private @{name(segments)}(%to: !llvm.ptr, %b: !llvm.ptr, {declared(sizes)}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%lanes = arith.constant {lanes} : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%bytes = arith.constant {_BYTES} : i64",
        f"%lane = arith.constant dense<[{numbers}]> : {wide}",
        f"%zero = arith.constant dense<0.0> : vector<{lanes}xf32>",
        "%dense = arith.cmpi eq, %ns, %bytes : i64",
        f"%along = arith.cmpi eq, %s{last}, %bytes : i64",
        product("panel", ["%width", *(f"%n{i}" for i in range(segments))]),
        f"%run = arith.constant {RUN * unit.columns} : i64",
        "%group = arith.select %dense, %run, %width : i64",
        "scf.for %j = %none to %n step %group : i64 {",
        "%left = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left, %group : i64",
        "%fj = arith.muli %j, %ns : i64",
        "%bj = llvm.getelementptr %b[%fj] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%number = arith.divui %j, %width : i64",
        "%ft = arith.muli %number, %panel : i64",
        "%t = llvm.getelementptr %to[%ft] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    place, source = "%t", "%bj"
    for i in range(last):
        lines += [
            f"%r{i} = scf.for %i{i} = %none to %n{i} step %one iter_args(%t{i} = {place}) -> (!llvm.ptr) : i64 {{",
            f"%f{i} = arith.muli %i{i}, %s{i} : i64",
            f"%b{i} = llvm.getelementptr {source}[%f{i}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        ]
        place, source = f"%t{i}", f"%b{i}"
    count, step = f"%n{last}", f"%s{last}"
    turn = [
        f"%fk = arith.muli %k, {step} : i64",
        f"%bk = llvm.getelementptr {source}[%fk] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%fw = arith.muli %k, %width : i64",
        f"%tk = llvm.getelementptr {place}[%fw] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    lines += ["scf.if %dense {", f"scf.for %k = %none to {count} step %one : i64 {{", *turn, *_run(unit, step), "}"]
    lines += ["} else {", *_transposed(unit, turn, count), "}"]
    lines += [
        f"%passed = arith.muli {count}, %width : i64",
        f"%after = llvm.getelementptr {place}[%passed] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    done = "%after"
    for i in reversed(range(last)):
        lines += [f"scf.yield {done} : !llvm.ptr", "}"]
        done = f"%r{i}"
    return "\n".join([*lines, "}", "return", "}"])


def _run(unit: VectorUnit, step: str) -> list[str]:
    """Dense columns of one step along the sum: each panel gets its own; those of the next step are asked for."""
    lanes = unit.lanes
    vector, wide = f"vector<{lanes}xf32>", f"vector<{lanes}xi64>"

    def place(tag: str) -> list[str]:
        return [
            f"%{tag}number = arith.divui %{tag}, %width : i64",
            f"%{tag}far = arith.muli %{tag}number, %panel : i64",
            f"%{tag}t = llvm.getelementptr %tk[%{tag}far] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
            f"%{tag}b = llvm.getelementptr %bk[%{tag}] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        ]

    def halves(tag: str) -> list[str]:
        return [
            line
            for half in range(2)
            for line in (
                f"%{tag}p{half} = llvm.getelementptr %{tag}b[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
                f"%{tag}q{half} = llvm.getelementptr %{tag}t[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            )
        ]

    lines = [
        "%rest = arith.remui %columns, %width : i64",
        "%full = arith.subi %columns, %rest : i64",
        "scf.for %p = %none to %full step %width : i64 {",
        *place("p"),
        *halves("p"),
        f"%asked = llvm.getelementptr %pb[{step}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
    ]
    for line in range(0, unit.columns * _BYTES, LINE_BYTES):
        lines += [
            f"%asked{line} = llvm.getelementptr %asked[{line}] : (!llvm.ptr) -> !llvm.ptr, i8",
            asked(f"%asked{line}"),
        ]
    for half in range(2):
        lines += [
            f"%pv{half} = llvm.load %pp{half} {{alignment = 4 : i64}} : !llvm.ptr -> {vector}",
            f"llvm.store %pv{half}, %pq{half} {{alignment = 4 : i64}} : {vector}, !llvm.ptr",
        ]
    lines += ["}", "%has_rest = arith.cmpi ne, %rest, %none : i64", "scf.if %has_rest {", *place("full"), *halves("full")]
    for half in range(2):
        lines += [
            f"%h{half} = arith.constant {half * lanes} : i64",
            f"%o{half} = arith.subi %rest, %h{half} : i64",
            f"%x{half} = vector.broadcast %o{half} : i64 to {wide}",
            f"%m{half} = arith.cmpi slt, %lane, %x{half} : {wide}",
            masked_load(f"%v{half}", f"%fullp{half}", f"%m{half}", lanes),
            f"llvm.store %v{half}, %fullq{half} {{alignment = 4 : i64}} : {vector}, !llvm.ptr",
        ]
    return [*lines, "}"]


def _transposed(unit: VectorUnit, turn: list[str], count: str) -> list[str]:
    """Columns that are not dense: squares of ``lanes`` by ``lanes`` numbers are turned in registers, the rest one by one.

    ``turn`` finds the places of step %k.
    """
    lanes = unit.lanes
    vector = f"vector<{lanes}xf32>"
    lines = [
        "%full = arith.cmpi eq, %columns, %width : i64",
        "%turns = arith.andi %full, %along : i1",
        f"%remains = arith.remui {count}, %lanes : i64",
        f"%whole = arith.subi {count}, %remains : i64",
        "%squares = arith.select %turns, %whole, %none : i64",
        "scf.for %k = %none to %squares step %lanes : i64 {",
        *turn,
        # A square at a time, for LLVM takes long to compile one.
        "scf.for %half = %none to %width step %lanes : i64 {",
        "%fh = arith.muli %half, %ns : i64",
        "%bh = llvm.getelementptr %bk[%fh] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%th = llvm.getelementptr %tk[%half] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    names = []
    for i in range(lanes):
        lines += [
            f"%n{i}c = arith.constant {i} : i64",
            f"%n{i}f = arith.muli %n{i}c, %ns : i64",
            f"%n{i}p = llvm.getelementptr %bh[%n{i}f] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            f"%n{i}v = llvm.load %n{i}p {{alignment = 4 : i64}} : !llvm.ptr -> {vector}",
        ]
        names.append(f"%n{i}v")
    turns, names = turned("z", names, lanes)
    lines += turns
    for i in range(lanes):
        lines += [
            f"%w{i} = llvm.getelementptr %th[{i * unit.columns}] : (!llvm.ptr) -> !llvm.ptr, f32",
            f"llvm.store {names[i]}, %w{i} {{alignment = 4 : i64}} : {vector}, !llvm.ptr",
        ]
    lines += [
        "}",
        "}",
        f"scf.for %k = %squares to {count} step %one : i64 {{",
        *turn,
        "%nothing = arith.constant 0.0 : f32",
        "scf.for %i = %columns to %width step %one : i64 {",
        "%ti = llvm.getelementptr %tk[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "llvm.store %nothing, %ti : f32, !llvm.ptr",
        "}",
        "scf.for %i = %none to %columns step %one : i64 {",
        "%fi = arith.muli %i, %ns : i64",
        "%bi = llvm.getelementptr %bk[%fi] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%ti = llvm.getelementptr %tk[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%v = llvm.load %bi : !llvm.ptr -> f32",
        "llvm.store %v, %ti : f32, !llvm.ptr",
        "}",
        "}",
    ]
    return lines
