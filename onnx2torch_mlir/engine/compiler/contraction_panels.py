"""The loops around register tiles: tables of places, and tiles of all rows with one panel of packed columns or all of them."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler.code_text import declared, product, words
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS
from onnx2torch_mlir.engine.compiler.register_tile import TILES_THAT_ASK, tile_name, tile_types
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

ENTRY_BYTES = 16
"""Of a table: two offsets for each place."""

_BYTES = 4
_STAYS = 160 << 10
"""Bytes of packed columns that stay in the second-level cache beside the rows that meet them."""


def rows(count: int) -> str:
    """@o2m_rows_N(table, counts and the two strides of each dim): the two offsets of each place, outer dims first."""
    names = [f"{letter}{i}" for i in range(count) for letter in ("mn", "ma", "mc")]
    lines = [f"func.func private @o2m_rows_{count}(%table: !llvm.ptr{', ' * bool(names)}{declared(words(names))}) {{"]
    lines += ["%none = arith.constant 0 : i64", "%one = arith.constant 1 : i64"]
    place, a, c = "%table", "%none", "%none"
    for i in range(count):
        lines += [
            f"%r{i} = scf.for %i{i} = %none to %mn{i} step %one iter_args(%t{i} = {place}) -> (!llvm.ptr) : i64 {{",
            f"%fa{i} = arith.muli %i{i}, %ma{i} : i64",
            f"%fc{i} = arith.muli %i{i}, %mc{i} : i64",
            f"%a{i} = arith.addi {a}, %fa{i} : i64",
            f"%c{i} = arith.addi {c}, %fc{i} : i64",
        ]
        place, a, c = f"%t{i}", f"%a{i}", f"%c{i}"
    lines += [
        f"llvm.store {a}, {place} : i64, !llvm.ptr",
        f"%second = llvm.getelementptr {place}[1] : (!llvm.ptr) -> !llvm.ptr, i64",
        f"llvm.store {c}, %second : i64, !llvm.ptr",
    ]
    if count:
        lines += [f"%next = llvm.getelementptr {place}[2] : (!llvm.ptr) -> !llvm.ptr, i64", "scf.yield %next : !llvm.ptr", "}"]
    for i in reversed(range(count - 1)):
        lines += [f"scf.yield %r{i + 1} : !llvm.ptr", "}"]
    return "\n".join([*lines, "return", "}"])


def table(letter: str, dims: int, strides: tuple[str, str]) -> list[str]:
    """``%<letter>s``: how many places dims have, and ``%<letter>table``: their offsets, by both ``strides``.

    Dim i has ``%<letter>ni`` places; ``%ctx``, ``%one`` and ``%entry``, `ENTRY_BYTES`, have to be there.
    """
    count = f"{letter}n"
    given = ", ".join([f"%{letter}table", *(f"%{name}{i}" for i in range(dims) for name in (count, *strides))])
    return [
        product(f"{letter}s", [f"%{count}{i}" for i in range(dims)]),
        f"%{letter}size = arith.muli %{letter}s, %entry : i64",
        f"%{letter}table = func.call @o2m_alloc(%ctx, %{letter}size) : (!llvm.ptr, i64) -> !llvm.ptr",
        f"func.call @o2m_rows_{dims}({given}) : ({', '.join(['!llvm.ptr'] + ['i64'] * 3 * dims)}) -> ()",
    ]


def block_rows() -> str:
    """@o2m_block_rows(table, m, rows): rows of the result get their offsets within a block of so many rows of sums."""
    return f"""func.func private @o2m_block_rows(%table: !llvm.ptr, %m: i64, %rows: i64) {{
      %none = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %width = arith.constant {BLOCK_COLUMNS * _BYTES} : i64
      %entry = arith.constant {ENTRY_BYTES} : i64
      scf.for %i = %none to %m step %one : i64 {{
        %place = arith.remui %i, %rows : i64
        %offset = arith.muli %place, %width : i64
        %far = arith.muli %i, %entry : i64
        %pair = llvm.getelementptr %table[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %second = llvm.getelementptr %pair[1] : (!llvm.ptr) -> !llvm.ptr, i64
        llvm.store %offset, %second : i64, !llvm.ptr
      }}
      return
    }}"""


def _sizes(segments: int) -> list[str]:
    """The names of the segments' counts and, but for the innermost, steps in the left operand."""
    return [name for i in range(segments) for name in ([f"n{i}", f"s{i}"] if i < segments - 1 else [f"n{i}"])]


def tile_loop(unit: VectorUnit, segments: int) -> str:
    """@o2m_tiles_S(a, table, m, b, columns, c, add, segments): all tiles of ``m`` rows and one panel of packed columns."""
    sizes = _sizes(segments)
    lines = [
        f"func.func private @o2m_tiles_{segments}(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %columns: i64,"
        f" %c: !llvm.ptr, %add: i1, {declared(words(sizes))}) {{",
        "%none = arith.constant 0 : i64",
        "%two = arith.constant 2 : i64",
        f"%height = arith.constant {unit.rows} : i64",
        f"%size0 = arith.constant {unit.columns * _BYTES} : i64",
        *(f"%size{i + 1} = arith.muli %size{i}, %n{i} : i64" for i in range(segments)),
        f"%asking = arith.constant {TILES_THAT_ASK} : i64",
        f"%part = arith.divui %size{segments}, %asking : i64",
        f"%following = llvm.getelementptr %b[%size{segments}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        f"%most_asked = arith.constant {TILES_THAT_ASK - 1} : i64",
        # A tile of few rows takes longer than its share, for it waits for its sums: all are of about as many.
        "%one = arith.constant 1 : i64",
        "%at_least = arith.maxsi %m, %one : i64",
        "%tiles = arith.ceildivsi %at_least, %height : i64",
        "%even = arith.ceildivsi %at_least, %tiles : i64",
        "scf.for %i = %none to %m step %even : i64 {",
        "%rest = arith.subi %m, %i : i64",
        "%count = arith.minsi %rest, %even : i64",
        "%entry = arith.muli %i, %two : i64",
        "%rows = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        "%tile = arith.divui %i, %even : i64",
        "%turn = arith.minui %tile, %most_asked : i64",
        "%asked = arith.muli %turn, %part : i64",
        "%next = llvm.getelementptr %following[%asked] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%which = arith.index_cast %count : i64 to index",
        "scf.index_switch %which",
    ]
    given = ", ".join(["%a", "%rows", "%b", "%c", "%next", "%columns", "%add", *(f"%{name}" for name in sizes)])
    types = ", ".join(tile_types(segments))
    for rows in range(1, unit.rows + 1):
        head = f"case {rows}" if rows < unit.rows else "default"
        lines += [f"{head} {{", f"func.call @{tile_name(segments, rows)}({given}) : ({types}) -> ()", "scf.yield", "}"]
    return "\n".join([*lines, "}", "return", "}"])


def _panel_types(segments: int) -> str:
    return ", ".join(["!llvm.ptr", "!llvm.ptr", "i64", "!llvm.ptr", "i64", "!llvm.ptr", "i1"] + ["i64"] * len(_sizes(segments)))


def panel(unit: VectorUnit, segments: int) -> str:
    """@o2m_panel_S: what @o2m_tiles_S does, a part of the sums after the other where the packed columns are too many to stay
    in the second-level cache while all rows meet them."""
    sizes = _sizes(segments)
    width = unit.columns * _BYTES
    lines = [
        f"func.func private @o2m_panel_{segments}(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %columns: i64,"
        f" %c: !llvm.ptr, %add: i1, {declared(words(sizes))}) {{",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%panel0 = arith.constant {width} : i64",
        f"%most = arith.constant {_STAYS // width} : i64",
    ]
    types, rows = _panel_types(segments), "%a, %table, %m, %b, %columns, %c, %add"
    if segments == 1:
        lines += [
            "%count = arith.maxsi %n0, %one : i64",
            "%parts = arith.ceildivsi %count, %most : i64",
            "%even = arith.ceildivsi %count, %parts : i64",
            f"%four = arith.constant {unit.lanes} : i64",
            "%fours = arith.ceildivsi %even, %four : i64",
            "%step = arith.muli %fours, %four : i64",
            "scf.for %k = %none to %count step %step : i64 {",
            "%rest = arith.subi %n0, %k : i64",
            "%here = arith.minsi %rest, %step : i64",
            "%ak = llvm.getelementptr %a[%k] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
            "%far = arith.muli %k, %panel0 : i64",
            "%bk = llvm.getelementptr %b[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            "%later = arith.cmpi ne, %k, %none : i64",
            "%more = arith.ori %add, %later : i1",
            f"func.call @o2m_tiles_1(%ak, %table, %m, %bk, %columns, %c, %more, %here) : ({types}) -> ()",
            "}",
        ]
        return "\n".join([*lines, "return", "}"])
    total = "%n0"
    inner = "%panel0"
    for i in range(1, segments):
        lines += [f"%total{i} = arith.muli {total}, %n{i} : i64", f"%inner{i} = arith.muli {inner}, %n{i} : i64"]
        total, inner = f"%total{i}", f"%inner{i}"
    deeper = ", ".join(f"%{name}" for name in sizes[2:])
    lines += [
        f"%large = arith.cmpi sgt, {total}, %most : i64",
        "scf.if %large {",
        "scf.for %i = %none to %n0 step %one : i64 {",
        "%fa = arith.muli %i, %s0 : i64",
        f"%fb = arith.muli %i, {inner} : i64",
        "%ai = llvm.getelementptr %a[%fa] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%bi = llvm.getelementptr %b[%fb] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%later = arith.cmpi ne, %i, %none : i64",
        "%more = arith.ori %add, %later : i1",
        f"func.call @o2m_panel_{segments - 1}(%ai, %table, %m, %bi, %columns, %c, %more, {deeper})"
        f" : ({_panel_types(segments - 1)}) -> ()",
        "}",
        "} else {",
        f"func.call @o2m_tiles_{segments}({rows}, {', '.join(f'%{name}' for name in sizes)}) : ({types}) -> ()",
        "}",
    ]
    return "\n".join([*lines, "return", "}"])


def panels(unit: VectorUnit, segments: int) -> str:
    """@o2m_panels_S(a, table, m, b, n, c, add, segments): all tiles of ``m`` rows and ``n`` packed columns."""
    sizes = _sizes(segments)
    lines = [
        f"func.func private @o2m_panels_{segments}(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %n: i64,"
        f" %c: !llvm.ptr, %add: i1, {declared(words(sizes))}) {{",
        "%none = arith.constant 0 : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%panel0 = arith.constant {unit.columns * _BYTES} : i64",
    ]
    panel = "%panel0"
    for i in range(segments):
        lines.append(f"%panel{i + 1} = arith.muli {panel}, %n{i} : i64")
        panel = f"%panel{i + 1}"
    given = ", ".join(["%a", "%table", "%m", "%bj", "%columns", "%cj", "%add", *(f"%{name}" for name in sizes)])
    lines += [
        "%end = scf.for %j = %none to %n step %width iter_args(%bj = %b) -> (!llvm.ptr) : i64 {",
        "%left = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left, %width : i64",
        "%cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        f"func.call @o2m_panel_{segments}({given}) : ({_panel_types(segments)}) -> ()",
        f"%next = llvm.getelementptr %bj[{panel}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "scf.yield %next : !llvm.ptr",
        "}",
        "return",
        "}",
    ]
    return "\n".join(lines)
