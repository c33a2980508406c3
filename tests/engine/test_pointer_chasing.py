"""Functions that walk from place to place in memory are found, and others are not."""

import pytest
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.pointer_chasing import functions_that_chase

WALK = """
%place = scf.while (%at = %start) : (index) -> index {
  %next = memref.load %table[%at] : memref<?xindex>
  %there = memref.load %table[%next] : memref<?xindex>
  %far = arith.cmpi ne, %there, %next : index
  scf.condition(%far) %there : index
} do {
^bb0(%on: index):
  scf.yield %on : index
}"""

SEARCH = WALK.replace("memref.load %table[%next] : memref<?xindex>", "arith.addi %at, %start : index")

TURNS = """
scf.for %i = %start to %start step %start {
  %next = memref.load %table[%i] : memref<?xindex>
  %there = memref.load %table[%next] : memref<?xindex>
  memref.store %there, %table[%i] : memref<?xindex>
}"""

INNER = """
  scf.for %i = %start to %next step %start {
    memref.store %i, %table[%i] : memref<?xindex>
  }
  %there"""
AROUND = WALK.replace("\n  %there", INNER)


@pytest.mark.parametrize(
    ("body", "found"),
    [(WALK, {"f"}), (SEARCH, set()), (TURNS, set()), (AROUND, set())],
    ids=["walk", "search", "for", "around"],
)
def test_found(body, found):
    text = f"""func.func @g() {{ return }}
      func.func @f(%table: memref<?xindex>, %start: index) {{ {body} return }}"""
    with ir.Context(), ir.Location.unknown():
        assert functions_that_chase(ir.Module.parse(text)) == found
