"""Weights that a loop multiplies by in each turn are walked there and back again."""

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from tests.engine import programs
from tests.engine.programs import N

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import walking_back
from onnx2torch_mlir.engine.compiler.walks import nested

f32 = torch.float32


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 3, 130])
@pytest.mark.parametrize("size", [61, 320, 1000])
def test_powers_of_a_matrix(size, rows, threads):
    """One block of columns, several, and more than there are shares; the last one is not whole."""
    random = np.random.default_rng(size)
    weight = np.linalg.qr(random.standard_normal((size, size)))[0].astype("f")
    x = random.standard_normal((rows, size)).astype("f")
    of_x, of_weight = f"tensor<{rows}x{size}xf32>", f"tensor<{size}x{size}xf32>"
    body = f"""
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %a1, %c0 : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%y = %a0) -> ({of_x}) {{
    %e = tensor.empty() : {of_x}
    %f = linalg.fill ins(%zero : f32) outs(%e : {of_x}) -> {of_x}
    %next = linalg.matmul ins(%y, %a2 : {of_x}, {of_weight}) outs(%f : {of_x}) -> {of_x}
    scf.yield %next : {of_x}
  }}
  return %r : {of_x}"""
    shapes = [(f32, (rows, size)), (f32, (N,))]
    lowered = programs.lowered(body, shapes, [(f32, (rows, size))], weights=[(weight, f32, weight.shape)])
    compiled = engine.compile(lowered, threads=threads)
    compiled.worth = 1
    for turns in range(4):
        wanted = x.astype("d") @ np.linalg.matrix_power(weight.astype("d"), turns)
        (got,) = compiled.run([x, np.zeros(turns, "f")])
        assert np.allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("step", "inside", "turned"),
    [("%c1", "scf.if %b {", True), ("%c2", "scf.if %b {", False), ("%c1", "scf.while : () -> () {", False)],
)
def test_only_turns_of_a_counting_loop(step, inside, turned):
    rest = "scf.condition(%b)\n} do {\n scf.yield\n}" if "while" in inside else "}"
    text = f"""func.func @main(%n: index, %m: memref<f32>, %b: i1) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1.0 : f32
  scf.for %i = %c0 to %n step {step} {{
    {inside}
      memref.store %one, %m[] : memref<f32>
    {rest}
  }}
  return
}}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (store,) = (one for one in nested(module.operation) if one.name == "memref.store")
        with ir.InsertionPoint(store):
            value = walking_back.says(store)
        assert module.operation.verify()
        assert (value.owner.name == "arith.trunci") == turned
