"""The loops around the tiles of one panel of packed columns (tile_loops.py): part after part of long sums, and all panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onnx2torch_mlir.engine.compiler import tail_text
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, called, constants, declared, product, words
from onnx2torch_mlir.engine.compiler.tile_size import TileSize
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_BYTES = 4
_STAYS = 160 << 10
"""Bytes of packed columns that stay in the second-level cache beside the rows that meet them."""
_FEW_SEGMENTS, _MANY_STEPS = 2, 256
"""Tiles of so many segments serve more, one after the other, where they have so many steps: what a tile has to do before and
after these is a hundredth, and most programs have tiles of two."""

_PLACE = ("row", "column", "across")
FEW = [("%few", "i64")]
"""How many columns are left behind whole vectors and packed by themselves (few_columns.py)."""
SOURCE = [("%fresh", "i1"), ("%in_place", "i1"), ("%source", "!llvm.ptr"), ("%apart", "i64")]
"""Whether these rows are the first to meet columns that were not packed before; whether all rows read them where they lie, else
the first tile packs them; where they lie, and how many bytes apart they do so from one step along the sum to the next."""
NOTHING = ["%no = arith.constant false", "%no_tail = llvm.mlir.zero : !llvm.ptr"]
"""The values that stand for what there is not."""
PACKED = {"%fresh": "%no", "%in_place": "%no", "%source": "%no_tail", "%apart": "%none"}
"""What `call` moves where all columns are packed."""
WITHOUT_TAIL = PACKED | {
    "%last": "%no",
    "%meets": "%no",
    **{f"%{name}": "%none" for name in ("few", *_PLACE)},
    **{name: "%no_tail" for name, _ in tail_text.ARGUMENTS},
}
"""What `call` moves where nothing follows: to false, 0 and a null pointer."""


def packed_bytes(unit: VectorUnit, columns: int, lengths: Sequence[int]) -> int:
    """The bytes of so many packed columns, for segments of these lengths."""
    return -(-columns // unit.columns) * unit.columns * _BYTES * math.prod(lengths)


def levels(unit: VectorUnit, lengths: Sequence[int], rows: int | None) -> set[int]:
    """How many segments the tiles have by which `panel` goes along segments of these lengths, outer ones first, for so many
    rows, if that is known."""
    one_tile = len(lengths)
    if one_tile > _FEW_SEGMENTS and math.prod(lengths[-_FEW_SEGMENTS:]) >= _MANY_STEPS:
        one_tile = _FEW_SEGMENTS
    count = one_tile
    if rows is not None and rows <= unit.rows:
        return {one_tile}
    while count > 1 and packed_bytes(unit, 1, lengths[-count:]) > _STAYS:
        count -= 1
    return {count} if rows is not None else {count, one_tile}


def sizes(segments: int) -> list[str]:
    """The names of the segments' counts and, but for the innermost, steps in the left operand."""
    return [name for i in range(segments) for name in ([f"n{i}", f"s{i}"] if i < segments - 1 else [f"n{i}"])]


def _arguments(what: str, segments: int) -> list[tuple[str, str]]:
    """What "tiles" and "panel" take, of the columns of one panel, and "panels" and "row", of ``n``: names and types.

    ``by_step`` says how many bytes apart columns are, packed or where they lie, from one step to the next. ``row`` and
    ``column`` are the first of the sums for a tail, ``across`` all columns of the result; ``last`` says whether a tail follows
    because the sums of a panel are whole after this call; ``meets``, whether nobody has met the rows before.
    """
    columns, last = ("%n", FEW) if what in ("panels", "row") else ("%columns", [("%by_step", "i64"), ("%last", "i1")])
    pointers = [("%a", "!llvm.ptr"), ("%table", "!llvm.ptr"), ("%m", "i64"), ("%b", "!llvm.ptr")]
    head = [*pointers, (columns, "i64"), ("%c", "!llvm.ptr"), ("%add", "i1"), ("%meets", "i1")]
    return [*head, *words(sizes(segments)), *SOURCE, *last, *words(_PLACE), *tail_text.ARGUMENTS]


def declaration(what: str, segments: int) -> str:
    """The first line of @o2m_``what``_S."""
    return f"func.func private @o2m_{what}_{segments}({declared(_arguments(what, segments))}) {{"


def signature(what: str, segments: int) -> str:
    """What text that calls @o2m_``what``_S has to declare where it is parsed without it."""
    return f"func.func private @o2m_{what}_{segments}({', '.join(type_ for _, type_ in _arguments(what, segments))})"


def call(what: str, segments: int, moved: Mapping[str, str]) -> str:
    """A call of @o2m_``what``_S, each argument by its own name unless it is ``moved``."""
    return called(f"o2m_{what}_{segments}", [(moved.get(name, name), type_) for name, type_ in _arguments(what, segments)])


def of_segments(segments: int) -> dict[str, str]:
    """What moves for `call` where segments have the names that they have for a kind (contraction_kinds.py)."""
    return {f"%{own}{i}": f"%k{name}{i}" for i in range(segments) for own, name in ("nn", "sa")}


def packing_tile(unit: VectorUnit) -> TileSize:
    """The tile that packs columns: where the first of all tiles is lower, they are packed before."""
    return TileSize(1, unit.rows, 2, packs=True)


def asking_tile(unit: VectorUnit) -> TileSize:
    """The tile that asks for columns far away: where the first of all tiles is lower, nobody does."""
    return TileSize(1, unit.rows, 2, asks=True)


def one_row(segments: int) -> TileSize:
    """The tile that there has to be in any case."""
    return TileSize(segments, 1, 2)


def panel(unit: VectorUnit, segments: int, *, has_tiles: bool = True) -> str:
    """@o2m_panel_S: what @o2m_tiles_S does, a part of the sums after the other where the packed columns are too many to stay
    in the second-level cache while all rows meet them; in any case, if there is no such function."""
    width = unit.columns * _BYTES
    lines = [
        declaration("panel", segments),
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        f"%most = arith.constant {_STAYS // width} : i64",
        # One tile meets them once.
        f"%height = arith.constant {unit.rows} : i64",
        "%is_one = arith.cmpi sle, %m, %height : i64",
    ]
    end = "%count" if segments == 1 else "%n0"
    whole = [f"%ends = arith.cmpi sge, %after, {end} : i64", "%whole = arith.andi %last, %ends : i1"]
    moved = {"%add": "%more", "%last": "%whole", "%source": "%from"}
    if segments == 1:
        lines += [
            "%all_stay = arith.cmpi sle, %n0, %most : i64",
            "%at_once = arith.ori %all_stay, %is_one : i1",
            "scf.if %at_once {",
            call("tiles", 1, {}),
            "} else {",
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
            "%far = arith.muli %k, %by_step : i64",
            "%bk = llvm.getelementptr %b[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            "%passed = arith.muli %k, %apart : i64",
            bytes_behind("%from", "%source", "%passed"),
            "%later = arith.cmpi ne, %k, %none : i64",
            "%more = arith.ori %add, %later : i1",
            "%after = arith.addi %k, %step : i64",
            *whole,
            call("tiles", 1, moved | {"%a": "%ak", "%b": "%bk", "%n0": "%here"}),
            "}",
            "}",
        ]
        return "\n".join([*lines, "return", "}"])
    total = "%n0"
    inner = "%by_step"
    for i in range(1, segments):
        lines += [f"%total{i} = arith.muli {total}, %n{i} : i64", f"%inner{i} = arith.muli {inner}, %n{i} : i64"]
        total, inner = f"%total{i}", f"%inner{i}"
    lines.append(product("steps", [f"%n{i}" for i in range(1, segments)]))
    deeper = {f"%{name}{i}": f"%{name}{i + 1}" for i in range(segments - 1) for name in "ns"}
    at_once = [
        f"%all_stay = arith.cmpi sle, {total}, %most : i64",
        "%at_once = arith.ori %all_stay, %is_one : i1",
        "scf.if %at_once {",
        call("tiles", segments, {}),
        "} else {",
    ]
    lines += [
        *(at_once if has_tiles else []),
        "scf.for %i = %none to %n0 step %one : i64 {",
        "%fa = arith.muli %i, %s0 : i64",
        f"%fb = arith.muli %i, {inner} : i64",
        "%ai = llvm.getelementptr %a[%fa] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%bi = llvm.getelementptr %b[%fb] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%steps_gone = arith.muli %i, %steps : i64",
        "%passed = arith.muli %steps_gone, %apart : i64",
        bytes_behind("%from", "%source", "%passed"),
        "%later = arith.cmpi ne, %i, %none : i64",
        "%more = arith.ori %add, %later : i1",
        "%after = arith.addi %i, %one : i64",
        *whole,
        call("panel", segments - 1, moved | deeper | {"%a": "%ai", "%b": "%bi"}),
        *(["}", "}"] if has_tiles else ["}"]),
    ]
    return "\n".join([*lines, "return", "}"])


def row(segments: int) -> str:
    """@o2m_row_S, of which tile_loops.py has another one, where tiles have fewer segments: what @o2m_panels_S does."""
    return "\n".join([declaration("row", segments), call("panels", segments, {}), "return", "}"])


def panels(unit: VectorUnit, segments: int, *, has_few: bool = False) -> str:
    """@o2m_panels_S: all tiles of ``m`` rows and ``n`` packed columns; whether there are some of which a few are packed by
    themselves."""
    lines = [
        declaration("panels", segments),
        *tail_text.follows(),
        "%none = arith.constant 0 : i64",
        f"%width = arith.constant {unit.columns} : i64",
        f"%panel0 = arith.constant {unit.columns * _BYTES} : i64",
    ]
    moved = {"%b": "%at", "%c": "%cj", "%column": "%here", "%last": "%is_followed", "%source": "%from"}
    moved["%meets"] = "%meets_here"
    moved |= {"%fresh": "%unpacked", "%in_place": "%lies"}
    panel = "%panel0"
    for i in range(segments):
        lines.append(f"%panel{i + 1} = arith.muli {panel}, %n{i} : i64")
        panel = f"%panel{i + 1}"
    called_panel = [call("panel", segments, moved)]
    if has_few:
        called_panel = in_two(unit, panel, moved, [call("panel", segments, moved | PART)])
    lines += [
        "%end = scf.for %j = %none to %n step %width iter_args(%bj = %b) -> (!llvm.ptr) : i64 {",
        # For those behind, rows are in the second-level cache.
        "%is_first_panel = arith.cmpi eq, %j, %none : i64",
        "%meets_here = arith.andi %meets, %is_first_panel : i1",
        "%left = arith.subi %n, %j : i64",
        "%columns = arith.minsi %left, %width : i64",
        "%cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%here = arith.addi %column, %j : i64",
        # What is left of a panel is packed before.
        "%whole = arith.cmpi eq, %columns, %width : i64",
        "%unpacked = arith.andi %whole, %fresh : i1",
        "%lies = arith.andi %whole, %in_place : i1",
        "%from = llvm.getelementptr %source[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        "%at = arith.select %lies, %from, %bj : !llvm.ptr",
        "%by_step = arith.select %lies, %apart, %panel0 : i64",
        *called_panel,
        f"%next = llvm.getelementptr %bj[{panel}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "scf.yield %next : !llvm.ptr",
        "}",
        "return",
        "}",
    ]
    return "\n".join(lines)


PART = {name: f"{name}_of_part" for name in ("%columns", "%by_step", "%b", "%c", "%column")}
"""What `call` moves for a part of a panel."""


def in_two(unit: VectorUnit, panel: str, moved: Mapping[str, str], part: Sequence[str]) -> list[str]:
    """What is done for each part (`PART`) of a ``panel`` of so many bytes: it is one, but where there are a few columns after
    a vector of others, which come first in its memory."""
    return [
        *constants(vector=unit.lanes, vector_step=unit.lanes * _BYTES, number=_BYTES, once=1, twice=2),
        "%behind = arith.remui %columns, %vector : i64",
        "%as_many = arith.cmpi eq, %behind, %few : i64",
        "%is_some = arith.cmpi ne, %few, %none : i64",
        "%has_few = arith.andi %as_many, %is_some : i1",
        "%before = arith.subi %columns, %few : i64",
        "%has_before = arith.cmpi sgt, %before, %none : i64",
        "%has_both = arith.andi %has_few, %has_before : i1",
        "%parts = arith.select %has_both, %twice, %once : i64",
        "%few_step = arith.muli %few, %number : i64",
        f"%bytes_of_column = arith.divui {panel}, %width : i64",
        "%bytes_before = arith.muli %before, %bytes_of_column : i64",
        "%usual_columns = arith.select %has_both, %before, %columns : i64",
        "%usual_step = arith.select %has_both, %vector_step, %by_step : i64",
        "scf.for %part = %none to %parts step %once : i64 {",
        "%part_after = arith.addi %part, %once : i64",
        "%is_end = arith.cmpi eq, %part_after, %parts : i64",
        "%is_few = arith.andi %is_end, %has_few : i1",
        "%columns_of_part = arith.select %is_few, %few, %usual_columns : i64",
        "%by_step_of_part = arith.select %is_few, %few_step, %usual_step : i64",
        "%bytes_gone = arith.select %is_few, %bytes_before, %none : i64",
        "%columns_gone = arith.select %is_few, %before, %none : i64",
        bytes_behind("%b_of_part", moved["%b"], "%bytes_gone"),
        f"%c_of_part = llvm.getelementptr {moved['%c']}[%columns_gone] : (!llvm.ptr, i64) -> !llvm.ptr, f32",
        f"%column_of_part = arith.addi {moved['%column']}, %columns_gone : i64",
        *part,
        "}",
    ]
