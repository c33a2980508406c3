"""A processor's matrix unit (AMX): tiles of 16 rows of 64 bytes, whose products are added up in tiles of 16 by 16 sums.

Numbers of a row of the left operand lie together, by words of 32 bits: four bytes (integer_matrices.py), or two bfloat16
(brain_matrices.py). Of the right one a panel has the same words of 32 columns, one step along the sum after the other. Two
tiles of rows meet two of columns, so that each tile that is loaded is used twice. The sums of these four go by way of memory,
for the result's rows may be anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx2torch_mlir.engine.compiler.code_text import column_masks, constants, declared, masked_load, masked_store, words
from onnx2torch_mlir.engine.compiler.integer_products import PANEL
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

STEPS = 16
"""Words of a row of a tile: how many steps along the sum a product of tiles takes."""
BYTES, BRAIN_FLOATS = "tdpbusd", "tdpbf16ps"
"""Instructions: of unsigned bytes by signed ones, whose sums are int32, and of bfloat16, whose sums are float32."""

_ROWS = 32
_SUMS = (0, 1, 2, 3)
_LEFT = (4, 5)
_RIGHT = (6, 7)
"""Registers: sums of the upper and the lower rows, each with both halves of the columns; tiles of rows, and of columns."""


def functions(instruction: str) -> str:
    """What `turns` call, but for what takes the results."""
    return "\n".join([_configure(instruction), *(_block(instruction, tiles) for tiles in (2, 1))])


def room(unit: VectorUnit) -> list[str]:
    """``%config`` and ``%sums``: what `turns` write to; ``%one`` is there."""
    return [
        *constants(room=_ROWS * unit.columns // 16),
        *(
            f"%{name} = llvm.alloca {count} x vector<16xi32> {{alignment = 64 : i64}} : (i64) -> !llvm.ptr"
            for name, count in (("config", "%one"), ("sums", "%room"))
        ),
    ]


def turns(instruction: str, result: str) -> list[str]:
    """All tiles: ``%m`` rows, which begin at ``%a`` and have ``%bytes`` each, by ``%n`` columns of the panels ``%b``, of which
    ``%panel_bytes`` each the first ``%skipped`` are not read, in ``%steps`` products of ``%words`` along the sum, `STEPS` if
    there are several.

    The ``result`` is a call of what `takes_results`. ``%none``, ``%one``, ``%two`` and ``%width`` are there, the `room`, the
    ``%table`` of rows and the result ``%c``.
    """

    def block(tiles: int) -> str:
        types = "!llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr"
        return f"func.call @{_name(instruction, tiles)}(%ai, %bytes, %bk, %steps, %sums) : ({types}) -> ()"

    return [
        *constants(height=_ROWS, sixteen=16),
        "%rest = arith.remui %m, %height : i64",
        "%whole_rows = arith.subi %m, %rest : i64",
        "%wholes = arith.divui %m, %height : i64",
        "%no_whole = arith.cmpi eq, %wholes, %none : i64",
        "%has_rest = arith.cmpi ne, %rest, %none : i64",
        "%begin = arith.select %no_whole, %one, %none : i64",
        "%end = arith.select %has_rest, %two, %one : i64",
        "scf.for %turn = %begin to %end step %one : i64 {",
        "%is_rest = arith.cmpi eq, %turn, %one : i64",
        "%rows = arith.select %is_rest, %rest, %height : i64",
        "%first = arith.select %is_rest, %whole_rows, %none : i64",
        "%last = arith.select %is_rest, %m, %whole_rows : i64",
        "%is_low = arith.cmpi sle, %rows, %sixteen : i64",
        f"func.call @{_name(instruction, 'configure')}(%config, %rows, %words) : (!llvm.ptr, i64, i64) -> ()",
        "scf.for %j = %none to %n step %width : i64 {",
        PANEL,
        "scf.for %i = %first to %last step %height : i64 {",
        "%entry = arith.muli %i, %two : i64",
        "%places = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        "%fi = arith.muli %i, %bytes : i64",
        "%ai = llvm.getelementptr %a[%fi] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "scf.if %is_low {",
        block(1),
        "} else {",
        block(2),
        "}",
        result,
        "}",
        "}",
        "}",
        _tile("tilerelease"),
    ]


RESULT = [
    *((f"%{name}", "!llvm.ptr") for name in ("sums", "places", "cj")),
    *words(["rows", "columns"]),
    ("%add", "i1"),
]
"""What `takes_results` takes: sums, where their rows' entries in the table of rows are, and where the first column of the
result is; how many rows and columns there are, and whether to add to what is there."""


def takes_results(
    unit: VectorUnit, name: str, element: str, more: Sequence[tuple[str, str]] = (), start: Sequence[str] = ()
) -> str:
    """@name(`RESULT`, ``more``): rows of sums of type ``element`` go where they belong. What ``start`` computes of ``more``, as
    ``%start0`` and ``%start1``, is added to both vectors of each row."""
    lanes = unit.lanes
    sums, mask, plus = f"vector<{lanes}x{element}>", f"vector<{lanes}xi1>", "addi" if element.startswith("i") else "addf"
    zero = "0" if element.startswith("i") else "0.0"
    lines = [
        f"func.func private @{name}({declared([*RESULT, *more])}) {{",
        *constants(none=0, one=1, two=2, width=unit.columns),
        f"%zero = arith.constant dense<{zero}> : {sums}",
        *column_masks(lanes),
        f"%nowhere = arith.constant dense<false> : {mask}",
        *(f"%held{half} = arith.select %add, %m{half}, %nowhere : {mask}" for half in range(2)),
        *start,
        "scf.for %i = %none to %rows step %one : i64 {",
        "%entry = arith.muli %i, %two : i64",
        "%pair = llvm.getelementptr %places[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        "%second = llvm.getelementptr %pair[1] : (!llvm.ptr) -> !llvm.ptr, i64",
        "%offset = llvm.load %second : !llvm.ptr -> i64",
        "%c0 = llvm.getelementptr %cj[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        f"%c1 = llvm.getelementptr %c0[{lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
        "%fs = arith.muli %i, %width : i64",
        "%s0 = llvm.getelementptr %sums[%fs] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
        f"%s1 = llvm.getelementptr %s0[{lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
    ]
    for half in range(2):
        lines += [
            f"%v{half} = llvm.load %s{half} {{alignment = 4 : i64}} : !llvm.ptr -> {sums}",
            masked_load(f"%h{half}", f"%c{half}", f"%held{half}", lanes, element),
            *([f"%x{half} = arith.{plus} %v{half}, %start{half} : {sums}"] if start else []),
            f"%y{half} = arith.{plus} %{'x' if start else 'v'}{half}, %h{half} : {sums}",
            masked_store(f"%y{half}", f"%c{half}", f"%m{half}", lanes, element),
        ]
    return "\n".join([*lines, "}", "return", "}"])


def _name(instruction: str, part: str | int) -> str:
    return f"o2m_matrix_{instruction}_{part}"


def _tile(name: str, *operands: str) -> str:
    """An instruction on tiles: registers are given as ``%t0`` …, addresses as ``%p…``, strides as ``%s…``."""
    types = [{"t": "i8", "p": "!llvm.ptr", "s": "i64"}[operand[1]] for operand in operands]
    return f'llvm.call_intrinsic "llvm.x86.{name}"({", ".join(operands)}) : ({", ".join(types)}) -> ()'


def _configure(instruction: str) -> str:
    """A function of (memory of 64 bytes, rows, words): so many rows, 1 to 32, in the tiles of the left operand and of sums; so
    many words in a row of the former, and rows in a tile of the right operand."""
    lines = [
        f"func.func private @{_name(instruction, 'configure')}(%p: !llvm.ptr, %count: i64, %words: i64) {{",
        "%nothing = arith.constant dense<0> : vector<16xi32>",
        "llvm.store %nothing, %p {alignment = 1 : i64} : vector<16xi32>, !llvm.ptr",
        "%palette = arith.constant 1 : i8",
        "llvm.store %palette, %p : i8, !llvm.ptr",
        "%bytes = arith.constant 64 : i8",
        "%four = arith.constant 4 : i64",
        "%used = arith.muli %words, %four : i64",
        "%used_bytes = arith.trunci %used : i64 to i8",
        "%sixteen = arith.constant 16 : i64",
        "%one = arith.constant 1 : i64",
        "%upper = arith.minsi %count, %sixteen : i64",
        "%below = arith.subi %count, %upper : i64",
        "%lower = arith.maxsi %below, %one : i64",  # A tile without rows would be none.
        *(f"%rows{i} = arith.trunci {v} : i64 to i8" for i, v in enumerate(("%upper", "%lower", "%words"))),
    ]
    heights = {0: 0, 1: 0, 2: 1, 3: 1, 4: 0, 5: 1, 6: 2, 7: 2}
    widths = {tile: "%used_bytes" if tile in _LEFT else "%bytes" for tile in heights}
    for tile, height in heights.items():
        lines += [
            f"%w{tile} = llvm.getelementptr %p[{16 + 2 * tile}] : (!llvm.ptr) -> !llvm.ptr, i8",
            f"llvm.store {widths[tile]}, %w{tile} : i8, !llvm.ptr",
            f"%h{tile} = llvm.getelementptr %p[{48 + tile}] : (!llvm.ptr) -> !llvm.ptr, i8",
            f"llvm.store %rows{height}, %h{tile} : i8, !llvm.ptr",
        ]
    return "\n".join([*lines, _tile("ldtilecfg", "%p"), "return", "}"])


def _numbers() -> Iterator[str]:
    """The registers' numbers."""
    yield from (f"%t{i} = arith.constant {i} : i8" for i in range(8))


def _block(instruction: str, tiles: int) -> str:
    """A function of (a, bytes of a row, b, products along the sum, sums): so many tiles of rows with two of columns; 32 sums in
    a row."""
    lines = [
        f"func.func private @{_name(instruction, tiles)}(%a: !llvm.ptr, %s_row: i64, %b: !llvm.ptr, %steps: i64,"
        " %c: !llvm.ptr) {",
        *_numbers(),
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        "%sixteen = arith.constant 16 : i64",
        "%s_panel = arith.constant 128 : i64",
        "%a_step = arith.constant 64 : i64",
        "%b_step = arith.constant 2048 : i64",
        "%far = arith.muli %s_row, %sixteen : i64",
        *(_tile("tilezero", f"%t{sum_}") for sum_ in _SUMS[: 2 * tiles]),
        "scf.for %k = %none to %steps step %one : i64 {",
        "%fa = arith.muli %k, %a_step : i64",
        "%fb = arith.muli %k, %b_step : i64",
        "%pa0 = llvm.getelementptr %a[%fa] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%pa1 = llvm.getelementptr %pa0[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%pb0 = llvm.getelementptr %b[%fb] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        "%pb1 = llvm.getelementptr %pb0[64] : (!llvm.ptr) -> !llvm.ptr, i8",
        *(_tile("tileloadd64", f"%t{_RIGHT[half]}", f"%pb{half}", "%s_panel") for half in range(2)),
    ]
    for row in range(tiles):
        lines.append(_tile("tileloadd64", f"%t{_LEFT[row]}", f"%pa{row}", "%s_row"))
        lines += [_tile(instruction, f"%t{_SUMS[2 * row + half]}", f"%t{_LEFT[row]}", f"%t{_RIGHT[half]}") for half in range(2)]
    lines.append("}")
    for row in range(tiles):
        for half in range(2):
            lines += [
                f"%pc{row}{half} = llvm.getelementptr %c[{16 * row * 128 + 64 * half}] : (!llvm.ptr) -> !llvm.ptr, i8",
                _tile("tilestored64", f"%t{_SUMS[2 * row + half]}", f"%pc{row}{half}", "%s_panel"),
            ]
    return "\n".join([*lines, "return", "}"])
