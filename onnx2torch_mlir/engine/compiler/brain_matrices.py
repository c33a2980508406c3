"""Rows of bfloat16 (brain_rows.py) times packed columns that are, too (packed_codes.py), by a processor's matrix unit
(matrix_tiles.py): what brain_products.py does by vectors.

It takes subnormal numbers for zeros as the vectors' instruction does. What is left of whole tiles along the sum are tiles of
fewer words, whose sums are added to what is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx2torch_mlir.engine.compiler import coded_tiles, coded_words, matrix_tiles, narrowed_rows
from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, called, constants, declared, header_word, moved
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit

_NAME, _RESULT = "o2m_coded_matrices", "o2m_matrix_floats"
_OWN = {"%rows": "%table", "%i": "%before", "%add": "%adds"}
"""What the arguments of panels are named here, where the names in use are those of `matrix_tiles.turns`."""


def call(names: Mapping[str, str]) -> str:
    """A call of @o2m_coded_matrices, each argument by its own name unless ``names`` has another."""
    return coded_tiles.call(_NAME, names)


def functions(unit: VectorUnit) -> str:
    """@o2m_coded_matrices(`coded_tiles.PANELS`), and what it calls."""
    line = 4 * unit.columns
    lines = [
        f"func.func private @{_NAME}({declared([(_OWN.get(name, name), type_) for name, type_ in coded_tiles.PANELS])}) {{",
        *constants(none=0, one=1, two=2, width=unit.columns, line=line, most=matrix_tiles.STEPS, four=4),
        *constants(head=narrowed_rows.HEAD_BYTES),
        *header_word("%panel_bytes", "%header", coded_words.PANEL),
        *header_word("%bytes", "%narrow", narrowed_rows.FAR),
        bytes_behind("%first_row", "%narrow", "%head"),
        *moved("first_of_rows", "%first_row", "%before", "%bytes"),
        "%pairs = arith.ceildivui %k, %two : i64",
        "%left_over = arith.remui %pairs, %most : i64",
        "%all = arith.divui %pairs, %most : i64",
        "%whole = arith.subi %pairs, %left_over : i64",
        # Without steps along the sum there are sums, too, and all of them are 0.
        "%is_short = arith.cmpi ult, %pairs, %most : i64",
        "%is_ragged = arith.cmpi ne, %left_over, %none : i64",
        "%only_rest = arith.andi %is_short, %is_ragged : i1",
        "%from = arith.select %only_rest, %one, %none : i64",
        "%to = arith.select %is_ragged, %two, %one : i64",
        *matrix_tiles.room(unit),
        "scf.for %part = %from to %to step %one : i64 {",
        "%is_left_over = arith.cmpi eq, %part, %one : i64",
        "%words = arith.select %is_left_over, %left_over, %most : i64",
        "%steps = arith.select %is_left_over, %one, %all : i64",
        "%done = arith.select %is_left_over, %whole, %none : i64",
        "%has_sums = arith.cmpi ne, %done, %none : i64",
        "%add = arith.ori %adds, %has_sums : i1",
        *moved("a", "%first_of_rows", "%done", "%four"),
        "%done_lines = arith.muli %done, %line : i64",
        # After the scales of the panel, which are 1.
        "%skipped = arith.addi %done_lines, %line : i64",
        *matrix_tiles.turns(matrix_tiles.BRAIN_FLOATS, called(_RESULT, matrix_tiles.RESULT)),
        "}",
        "return",
        "}",
    ]
    taken = matrix_tiles.takes_results(unit, _RESULT, "f32")
    return "\n".join([matrix_tiles.functions(matrix_tiles.BRAIN_FLOATS), taken, *lines])
