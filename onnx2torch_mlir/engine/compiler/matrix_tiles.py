"""Products of bytes by a processor's matrix unit (AMX): tiles of 16 rows of 64 bytes, whose products are added as int32 sums.

Both operands are the fours of integer_tile.py: 16 of each are a tile. Two tiles of rows meet two of columns, so that each tile
that is loaded is used twice. The sums of these four go by way of memory, for the result's rows may be anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx2torch_mlir.engine.compiler.code_text import column_masks, masked_load, masked_store
from onnx2torch_mlir.engine.compiler.integer_products import PANEL
from onnx2torch_mlir.engine.compiler.integer_tile import starts
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_ROWS = 32
_FEWEST_ROWS = 16
"""Fewer rows are multiplied by vectors: loading a tile of columns takes as long, however few rows meet it."""

_SUMS = (0, 1, 2, 3)
_LEFT = (4, 5)
_RIGHT = (6, 7)
"""Registers: sums of the upper and the lower rows, each with both halves of the columns; tiles of rows, and of columns."""


def functions(unit: VectorUnit) -> str:
    """@o2m_products_matrices, which does what @o2m_products_fours does, and what it calls."""
    return "\n".join([_configure(), _block(2), _block(1), _result(unit), _products(unit)])


def _tile(name: str, *operands: str) -> str:
    """An instruction on tiles: registers are given as ``%t0`` …, addresses as ``%p…``, strides as ``%s…``."""
    types = [{"t": "i8", "p": "!llvm.ptr", "s": "i64"}[operand[1]] for operand in operands]
    return f'llvm.call_intrinsic "llvm.x86.{name}"({", ".join(operands)}) : ({", ".join(types)}) -> ()'


def _configure() -> str:
    """@o2m_configure_tiles(memory of 64 bytes, rows): so many rows, 1 to 32, in the tiles of the left operand and of sums."""
    lines = [
        "func.func private @o2m_configure_tiles(%p: !llvm.ptr, %count: i64) {",
        "%nothing = arith.constant dense<0> : vector<16xi32>",
        "llvm.store %nothing, %p {alignment = 1 : i64} : vector<16xi32>, !llvm.ptr",
        "%palette = arith.constant 1 : i8",
        "llvm.store %palette, %p : i8, !llvm.ptr",
        "%bytes = arith.constant 64 : i8",
        "%sixteen = arith.constant 16 : i64",
        "%one = arith.constant 1 : i64",
        "%upper = arith.minsi %count, %sixteen : i64",
        "%below = arith.subi %count, %upper : i64",
        "%lower = arith.maxsi %below, %one : i64",  # A tile without rows would be none.
        *(f"%rows{i} = arith.trunci {v} : i64 to i8" for i, v in enumerate(("%upper", "%lower", "%sixteen"))),
    ]
    heights = {0: 0, 1: 0, 2: 1, 3: 1, 4: 0, 5: 1, 6: 2, 7: 2}
    for tile, height in heights.items():
        lines += [
            f"%w{tile} = llvm.getelementptr %p[{16 + 2 * tile}] : (!llvm.ptr) -> !llvm.ptr, i8",
            f"llvm.store %bytes, %w{tile} : i8, !llvm.ptr",
            f"%h{tile} = llvm.getelementptr %p[{48 + tile}] : (!llvm.ptr) -> !llvm.ptr, i8",
            f"llvm.store %rows{height}, %h{tile} : i8, !llvm.ptr",
        ]
    return "\n".join([*lines, _tile("ldtilecfg", "%p"), "return", "}"])


def _numbers() -> Iterator[str]:
    """The registers' numbers."""
    yield from (f"%t{i} = arith.constant {i} : i8" for i in range(8))


def _block(tiles: int) -> str:
    """@o2m_matrix_block_N(a, bytes of a row, b, steps, sums): N tiles of rows with two of columns; 32 sums in a row."""
    lines = [
        f"func.func private @o2m_matrix_block_{tiles}(%a: !llvm.ptr, %s_row: i64, %b: !llvm.ptr, %steps: i64,"
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
        lines += [_tile("tdpbusd", f"%t{_SUMS[2 * row + half]}", f"%t{_LEFT[row]}", f"%t{_RIGHT[half]}") for half in range(2)]
    lines.append("}")
    for row in range(tiles):
        for half in range(2):
            lines += [
                f"%pc{row}{half} = llvm.getelementptr %c[{16 * row * 128 + 64 * half}] : (!llvm.ptr) -> !llvm.ptr, i8",
                _tile("tilestored64", f"%t{_SUMS[2 * row + half]}", f"%pc{row}{half}", "%s_panel"),
            ]
    return "\n".join([*lines, "return", "}"])


def _result(unit: VectorUnit) -> str:
    """@o2m_matrix_result(sums, table, count, totals, less, c, columns, add): rows of sums go where they belong."""
    lanes = unit.lanes
    sums, mask = f"vector<{lanes}xi32>", f"vector<{lanes}xi1>"
    lines = [
        "func.func private @o2m_matrix_result(%sums: !llvm.ptr, %table: !llvm.ptr, %count: i64, %totals: !llvm.ptr, %less: i32,"
        " %c: !llvm.ptr, %columns: i64, %add: i1) {",
        "%none = arith.constant 0 : i64",
        "%one = arith.constant 1 : i64",
        "%two = arith.constant 2 : i64",
        f"%zero = arith.constant dense<0> : {sums}",
        f"%width = arith.constant {unit.columns} : i64",
        *column_masks(lanes),
        f"%nowhere = arith.constant dense<false> : {mask}",
        *(f"%held{half} = arith.select %add, %m{half}, %nowhere : {mask}" for half in range(2)),
        *starts(lanes),
        "scf.for %i = %none to %count step %one : i64 {",
        "%entry = arith.muli %i, %two : i64",
        "%pair = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64",
        "%second = llvm.getelementptr %pair[1] : (!llvm.ptr) -> !llvm.ptr, i64",
        "%offset = llvm.load %second : !llvm.ptr -> i64",
        "%c0 = llvm.getelementptr %c[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
        f"%c1 = llvm.getelementptr %c0[{lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
        "%fs = arith.muli %i, %width : i64",
        "%s0 = llvm.getelementptr %sums[%fs] : (!llvm.ptr, i64) -> !llvm.ptr, i32",
        f"%s1 = llvm.getelementptr %s0[{lanes}] : (!llvm.ptr) -> !llvm.ptr, i32",
    ]
    for half in range(2):
        lines += [
            f"%v{half} = llvm.load %s{half} {{alignment = 4 : i64}} : !llvm.ptr -> {sums}",
            masked_load(f"%h{half}", f"%c{half}", f"%held{half}", lanes, "i32"),
            f"%x{half} = arith.addi %v{half}, %start{half} : {sums}",
            f"%y{half} = arith.addi %x{half}, %h{half} : {sums}",
            masked_store(f"%y{half}", f"%c{half}", f"%m{half}", lanes, "i32"),
        ]
    return "\n".join([*lines, "}", "return", "}"])


def _products(unit: VectorUnit) -> str:
    given = "%a, %table, %m, %b, %n, %c, %bytes"
    types = "!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr, i64, i1, i16, i64"
    blocks = "!llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr"
    result = "!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i32, !llvm.ptr, i64, i1"
    return f"""
  func.func private @o2m_products_matrices(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %n: i64, %c: !llvm.ptr,
      %bytes: i64, %add: i1, %bias: i16) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %four = arith.constant 4 : i64
    %sixteen = arith.constant 16 : i64
    %less = arith.extsi %bias : i16 to i32
    %width = arith.constant {unit.columns} : i64
    %height = arith.constant {_ROWS} : i64
    %line = arith.constant {4 * unit.columns} : i64
    %tile = arith.constant 64 : i64
    %steps = arith.divui %bytes, %tile : i64
    %fewest = arith.constant {_FEWEST_ROWS} : i64
    %many = arith.cmpi sge, %m, %fewest : i64
    %long = arith.cmpi sgt, %steps, %none : i64
    %pays = arith.andi %many, %long : i1
    scf.if %pays {{
      %fours = arith.divui %bytes, %four : i64
      %far = arith.muli %fours, %line : i64
      %panel_bytes = arith.addi %far, %line : i64
      %skipped = arith.addi %line, %none : i64
      %config = llvm.alloca %one x vector<16xi32> {{alignment = 64 : i64}} : (i64) -> !llvm.ptr
      %room = arith.constant {_ROWS * unit.columns // 16} : i64
      %sums = llvm.alloca %room x vector<16xi32> {{alignment = 64 : i64}} : (i64) -> !llvm.ptr
      %rest = arith.remui %m, %height : i64
      %whole = arith.subi %m, %rest : i64
      %wholes = arith.divui %m, %height : i64
      %no_whole = arith.cmpi eq, %wholes, %none : i64
      %has_rest = arith.cmpi ne, %rest, %none : i64
      %begin = arith.select %no_whole, %one, %none : i64
      %end = arith.select %has_rest, %two, %one : i64
      scf.for %turn = %begin to %end step %one : i64 {{
        %is_rest = arith.cmpi eq, %turn, %one : i64
        %rows = arith.select %is_rest, %rest, %height : i64
        %first = arith.select %is_rest, %whole, %none : i64
        %last = arith.select %is_rest, %m, %whole : i64
        %is_low = arith.cmpi sle, %rows, %sixteen : i64
        func.call @o2m_configure_tiles(%config, %rows) : (!llvm.ptr, i64) -> ()
        scf.for %j = %none to %n step %width : i64 {{
          {PANEL}
          scf.for %i = %first to %last step %height : i64 {{
            %entry = arith.muli %i, %two : i64
            %places = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64
            %fi = arith.muli %i, %bytes : i64
            %ai = llvm.getelementptr %a[%fi] : (!llvm.ptr, i64) -> !llvm.ptr, i8
            scf.if %is_low {{
              func.call @o2m_matrix_block_1(%ai, %bytes, %bk, %steps, %sums) : ({blocks}) -> ()
            }} else {{
              func.call @o2m_matrix_block_2(%ai, %bytes, %bk, %steps, %sums) : ({blocks}) -> ()
            }}
            func.call @o2m_matrix_result(%sums, %places, %rows, %bj, %less, %cj, %columns, %add) : ({result}) -> ()
          }}
        }}
      }}
      {_tile("tilerelease")}
      %done = arith.muli %steps, %sixteen : i64
      %is_ragged = arith.cmpi slt, %done, %fours : i64
      scf.if %is_ragged {{
        func.call @o2m_products_fours({given}, %add, %bias, %done) : ({types}) -> ()
      }}
    }} else {{
      func.call @o2m_products_fours({given}, %add, %bias, %none) : ({types}) -> ()
    }}
    return
  }}"""
