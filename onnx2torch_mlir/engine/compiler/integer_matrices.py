"""Products of bytes by a processor's matrix unit (matrix_tiles.py): both operands are the fours of integer_tile.py."""

from __future__ import annotations

from onnx2torch_mlir.engine.compiler import matrix_tiles
from onnx2torch_mlir.engine.compiler.code_text import called, constants
from onnx2torch_mlir.engine.compiler.integer_tile import starts
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_FEWEST_ROWS = 16
"""Fewer rows are multiplied by vectors: loading a tile of columns takes as long, however few rows meet it."""
_RESULT = "o2m_matrix_integers"
_MORE = [("%bj", "!llvm.ptr"), ("%less", "i32")]
"""A panel, which begins with the totals of its columns, and what is subtracted from each number of the rows."""


def functions(unit: VectorUnit) -> str:
    """@o2m_products_matrices, which does what @o2m_products_fours does, and what it calls."""
    starts_of_panel = ["%totals = llvm.getelementptr %bj[0] : (!llvm.ptr) -> !llvm.ptr, i8", *starts(unit.lanes)]
    taken = matrix_tiles.takes_results(unit, _RESULT, "i32", _MORE, starts_of_panel)
    return "\n".join([matrix_tiles.functions(matrix_tiles.BYTES), taken, _products(unit)])


def _products(unit: VectorUnit) -> str:
    given = "%a, %table, %m, %b, %n, %c, %bytes"
    types = "!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr, i64, i1, i16, i64"
    newline = "\n"
    numbers = constants(none=0, one=1, two=2, four=4, width=unit.columns, skipped=4 * unit.columns)
    numbers += constants(words=matrix_tiles.STEPS, fewest=_FEWEST_ROWS)
    result = called(_RESULT, [*matrix_tiles.RESULT, *_MORE])
    return f"""
  func.func private @o2m_products_matrices(%a: !llvm.ptr, %table: !llvm.ptr, %m: i64, %b: !llvm.ptr, %n: i64, %c: !llvm.ptr,
      %bytes: i64, %add: i1, %bias: i16) {{
    {newline.join(numbers)}
    %less = arith.extsi %bias : i16 to i32
    %fours = arith.divui %bytes, %four : i64
    %steps = arith.divui %fours, %words : i64
    %many = arith.cmpi sge, %m, %fewest : i64
    %long = arith.cmpi sgt, %steps, %none : i64
    %pays = arith.andi %many, %long : i1
    scf.if %pays {{
      %far = arith.muli %fours, %skipped : i64
      %panel_bytes = arith.addi %far, %skipped : i64
      {newline.join([*matrix_tiles.room(unit), *matrix_tiles.turns(matrix_tiles.BYTES, result)])}
      %done = arith.muli %steps, %words : i64
      %is_ragged = arith.cmpi slt, %done, %fours : i64
      scf.if %is_ragged {{
        func.call @o2m_products_fours({given}, %add, %bias, %done) : ({types}) -> ()
      }}
    }} else {{
      func.call @o2m_products_fours({given}, %add, %bias, %none) : ({types}) -> ()
    }}
    return
  }}"""
