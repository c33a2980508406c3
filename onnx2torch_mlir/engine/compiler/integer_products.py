"""All tiles of some packed rows and packed columns of integers: long sums part after part, so that a panel's part stays in the
first-level cache while all rows meet it, unless they are of one tile."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import integer_tile
from onnx2torch_mlir.engine.compiler.integer_forms import IntegerForm
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_PANEL_BYTES = 1 << 15

PANEL = """
        %left = arith.subi %n, %j : i64
        %columns = arith.minsi %left, %width : i64
        %panel = arith.divui %j, %width : i64
        %fj = arith.muli %panel, %panel_bytes : i64
        %bj = llvm.getelementptr %b[%fj] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %bk = llvm.getelementptr %bj[%skipped] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %cj = llvm.getelementptr %c[%j] : (!llvm.ptr, i64) -> !llvm.ptr, i32"""
"""Of column ``%j``: its panel (``%bj``), what follows ``%skipped`` bytes there, the result, and how many columns there are."""


_TYPES = "!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr, i64, i1, i16"


def call(form: str, given: str, first: str | None = None) -> str:
    """A call of @o2m_products_``form``, where it takes the step with which to begin with that."""
    types = _TYPES if first is None else f"{_TYPES}, i64"
    return f"func.call @o2m_products_{form}({given}{'' if first is None else f', {first}'}) : ({types}) -> ()"


def products(unit: VectorUnit, form: IntegerForm, *, has_halves: bool) -> str:
    """@o2m_products_fours, @o2m_products_pairs and @o2m_products_bytes; whether there are tiles of half a panel.

    Arguments: packed rows, their table, how many there are, packed columns, how many there are, the result, the bytes of a
    packed row, whether to add to the result, for fours, what is subtracted from each number of the rows, and the step along
    the sum with which to begin: what is before it has been added.
    """
    given = "%ai, %bytes, %rows, %bk, %bj, %cj, %columns, %more, %here, %kc"
    newline = "\n"

    def called(halves: int) -> str:
        cases = []
        for count in range(1, unit.rows + 1):
            head = f"case {count}" if count < unit.rows else "default"
            name = integer_tile.tile_name(count, form, halves)
            cases.append(f"{head} {{ func.call @{name}({given}) : ({integer_tile.TYPES}) -> ()\nscf.yield }}")
        return f"scf.index_switch %which\n{newline.join(cases)}"

    tiles = called(2)
    if has_halves:
        tiles = f"scf.if %is_half {{\n{called(1)}\n}} else {{\n{tiles}\n}}"
    return f"""
  func.func private @o2m_products_{form.name}(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %n: i64, %c: !llvm.ptr,
      %bytes: i64, %add: i1, %bias: i16, %first: i64) {{
    %none = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %four = arith.constant 4 : i64
    %nothing = arith.constant 0 : i32
    %less = arith.extsi %bias : i16 to i32
    %width = arith.constant {unit.columns} : i64
    %lanes = arith.constant {unit.lanes} : i64
    %height = arith.constant {unit.rows} : i64
    %step_bytes = arith.constant {form.step_bytes(unit)} : i64
    %head = arith.constant {form.head_bytes(unit)} : i64
    %usual_part = arith.constant {_PANEL_BYTES // (4 * unit.columns)} : i64
    %steps = arith.divui %bytes, %four : i64
    %is_one = arith.cmpi sle, %m, %height : i64
    %some_steps = arith.maxsi %steps, %usual_part : i64
    %part = arith.select %is_one, %some_steps, %usual_part : i64
    %far = arith.muli %steps, %step_bytes : i64
    %panel_bytes = arith.addi %far, %head : i64
    %turns = arith.maxsi %steps, %one : i64
    %at_least = arith.maxsi %m, %one : i64
    %tiles = arith.ceildivsi %at_least, %height : i64
    %even = arith.ceildivsi %at_least, %tiles : i64
    scf.for %k = %first to %turns step %part : i64 {{
      %kl = arith.subi %steps, %k : i64
      %kc = arith.minsi %kl, %part : i64
      %later = arith.cmpi ne, %k, %none : i64
      %more = arith.ori %add, %later : i1
      %here = arith.select %later, %nothing, %less : i32
      %ak = llvm.getelementptr %a[%k] : (!llvm.ptr, i64) -> !llvm.ptr, i32
      %fk = arith.muli %k, %step_bytes : i64
      %skipped = arith.addi %fk, %head : i64
      scf.for %j = %none to %n step %width : i64 {{
        {PANEL}
        %is_half = arith.cmpi sle, %columns, %lanes : i64
        scf.for %i = %none to %m step %even : i64 {{
          %rest = arith.subi %m, %i : i64
          %count = arith.minsi %rest, %even : i64
          %entry = arith.muli %i, %two : i64
          %rows = llvm.getelementptr %table[%entry] : (!llvm.ptr, i64) -> !llvm.ptr, i64
          %fi = arith.muli %i, %bytes : i64
          %ai = llvm.getelementptr %ak[%fi] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          %which = arith.index_cast %count : i64 to index
          {tiles}
        }}
      }}
    }}
    return
  }}"""
