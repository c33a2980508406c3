"""Columns of a contraction's right operand side by side, in panels of two vector registers, made while the program runs."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import threads
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 4


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
    declared = ", ".join(f"%{size}: i64" for size in _sizes(segments))
    lanes, last = unit.lanes, segments - 1
    vector, mask = f"vector<{lanes}xf32>", f"vector<{lanes}xi1>"
    wide = f"vector<{lanes}xi64>"
    numbers = ", ".join(map(str, range(lanes)))
    lines = [
        f"func.func private @{name(segments)}(%to: !llvm.ptr, %b: !llvm.ptr, %n: i64, %ns: i64, {declared}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%lanes = arith.constant {lanes} : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%bytes = arith.constant {_BYTES} : i64",
        f"%lane = arith.constant dense<[{numbers}]> : {wide}",
        f"%zero = arith.constant dense<0.0> : {vector}",
        "%dense = arith.cmpi eq, %ns, %bytes : i64",
        f"%along = arith.cmpi eq, %s{last}, %bytes : i64",
        "%end = scf.for %j = %none to %n step %width iter_args(%t = %to) -> (!llvm.ptr) : i64 {",
        "%left = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left, %width : i64",
        "%fj = arith.muli %j, %ns : i64",
        "%bj = llvm.getelementptr %b[%fj] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
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
    lines += ["scf.if %dense {", f"scf.for %k = %none to {count} step %one : i64 {{"]
    turn = [
        f"%fk = arith.muli %k, {step} : i64",
        f"%bk = llvm.getelementptr {source}[%fk] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%fw = arith.muli %k, %width : i64",
        f"%tk = llvm.getelementptr {place}[%fw] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    lines += turn
    for half in range(2):
        lines += [
            f"%h{half} = arith.constant {half * lanes} : i64",
            f"%o{half} = arith.subi %columns, %h{half} : i64",
            f"%x{half} = vector.broadcast %o{half} : i64 to {wide}",
            f"%m{half} = arith.cmpi slt, %lane, %x{half} : {wide}",
            f"%p{half} = llvm.getelementptr %bk[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            f"%q{half} = llvm.getelementptr %tk[{half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
            f"%v{half} = llvm.intr.masked.load %p{half}, %m{half}, %zero {{alignment = 4 : i32}}"
            f" : (!llvm.ptr, {mask}, {vector}) -> {vector}",
            f"llvm.store %v{half}, %q{half} {{alignment = 4 : i64}} : {vector}, !llvm.ptr",
        ]
    lines += ["}", "} else {", *_transposed(unit, turn, count), "}"]
    lines += [
        f"%passed = arith.muli {count}, %width : i64",
        f"%after = llvm.getelementptr {place}[%passed] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
    ]
    done = "%after"
    for i in reversed(range(last)):
        lines += [f"scf.yield {done} : !llvm.ptr", "}"]
        done = f"%r{i}"
    lines += [f"scf.yield {done} : !llvm.ptr", "}", "return", "}"]
    return "\n".join(lines)


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
    ]
    for half in range(2):
        names = []
        for i in range(lanes):
            column = half * lanes + i
            lines += [
                f"%n{column}c = arith.constant {column} : i64",
                f"%n{column}f = arith.muli %n{column}c, %ns : i64",
                f"%n{column}p = llvm.getelementptr %bk[%n{column}f] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                f"%n{column}v = llvm.load %n{column}p {{alignment = 4 : i64}} : !llvm.ptr -> {vector}",
            ]
            names.append(f"%n{column}v")
        stage = 1
        while stage < lanes:
            for i in range(lanes):
                if i & stage:
                    continue
                first, second = names[i], names[i | stage]
                low = [t if not t & stage else lanes + t - stage for t in range(lanes)]
                high = [t + stage if not t & stage else lanes + t for t in range(lanes)]
                for target, order, suffix in ((i, low, "l"), (i | stage, high, "h")):
                    names[target] = f"%z{half}_{stage}_{i}{suffix}"
                    lines.append(f"{names[target]} = vector.shuffle {first}, {second} {order} : {vector}, {vector}")
            stage *= 2
        for i in range(lanes):
            lines += [
                f"%w{half}_{i} = llvm.getelementptr %tk[{i * unit.columns + half * lanes}] : (!llvm.ptr) -> !llvm.ptr, f32",
                f"llvm.store {names[i]}, %w{half}_{i} {{alignment = 4 : i64}} : {vector}, !llvm.ptr",
            ]
    lines += [
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
