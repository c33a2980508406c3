"""Loops that the lowering marks as independent are shared among threads; others stay as they are."""

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from tests.engine import programs
from tests.engine.programs import N

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import independent_loops
from onnx2torch_mlir.hints import INDEPENDENT

f32 = torch.float32


def doubled(attribute):
    """Every third number from the second on doubled, the others -1."""
    return f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %least = arith.constant -1.0 : f32
  %n = tensor.dim %a0, %c0 : tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %r = scf.for %i = %c1 to %n step %c3 iter_args(%into = %f) -> (tensor<?xf32>) {{
    %x = tensor.extract %a0[%i] : tensor<?xf32>
    %y = arith.addf %x, %x : f32
    %next = tensor.insert %y into %into[%i] : tensor<?xf32>
    scf.yield %next : tensor<?xf32>
  }} {attribute}
  return %r : tensor<?xf32>"""


@pytest.mark.parametrize("attribute", ["", f"{{{INDEPENDENT}}}"])
def test_any_number_of_turns(attribute):
    code = engine.compile(programs.lowered(doubled(attribute), [(f32, (N,))], [(f32, (N,))]), threads=2)
    code.worth = 1
    for count in (0, 1, 2, 4, 5, 1000, 100_003):
        x = np.random.default_rng(count).standard_normal(count).astype("f")
        wanted = np.full(count, -1, "f")
        wanted[1::3] = 2 * x[1::3]
        np.testing.assert_array_equal(code.run([x])[0], wanted)


@pytest.mark.parametrize("attribute", ["", f"{{{INDEPENDENT}}}"])
def test_only_marked_ones(attribute):
    text = f"""func.func @main(%n: index, %m: memref<?xf32>) {{
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %one = arith.constant 1.0 : f32
  scf.for %i = %c0 to %n step %c3 {{
    memref.store %one, %m[%i] : memref<?xf32>
  }} {attribute}
  return
}}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        loops = independent_loops.replace(module)
        assert module.operation.verify()
        assert [loop.name for loop in loops] == ["scf.parallel"] * bool(attribute)
        assert ("scf.for" in str(module)) == (not attribute)
