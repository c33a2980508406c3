"""Loops that begin with a view and pass on buffers: what they carry is row-major, so that its rows are products' rows."""

import numpy as np
import pytest
import torch

from onnx2torch_mlir import engine
from onnx2torch_mlir.engine.compiler import layout_casts
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.options import Options
from tests.engine.programs import M, N, lowered

F = torch.float32
BODY = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %a0, %c1 : tensor<2x?x24xf32>
  %turns = tensor.dim %a1, %c0 : tensor<?xf32>
  %o = tensor.empty(%n) : tensor<2x?x24xf32>
  %d = linalg.add ins(%a0, %a0 : tensor<2x?x24xf32>, tensor<2x?x24xf32>) outs(%o : tensor<2x?x24xf32>) -> tensor<2x?x24xf32>
  %s = tensor.extract_slice %d[1, 0, 0] [1, %n, 24] [1, 1, 1] : tensor<2x?x24xf32> to tensor<?x24xf32>
  %r = scf.for %i = %c0 to %turns step %c1 iter_args(%x = %s) -> tensor<?x24xf32> {
    %e = tensor.empty(%n) : tensor<?x24xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x24xf32>) -> tensor<?x24xf32>
    %y = linalg.matmul ins(%x, %a2 : tensor<?x24xf32>, tensor<24x24xf32>) outs(%f : tensor<?x24xf32>) -> tensor<?x24xf32>
    scf.yield %y : tensor<?x24xf32>
  }
  return %r : tensor<?x24xf32>"""


def program():
    w = np.random.default_rng(0).standard_normal((24, 24)).astype("f") / 5
    return w, lowered(BODY, [(F, (2, N, 24)), (F, (M,))], [(F, (N, 24))], [(w, F, w.shape)])


def test_products_of_what_is_carried_are_contractions(monkeypatch):
    _, given = program()
    assert len(build(given.bytecode, Options(inputs=2))["packings"]) == 1
    monkeypatch.setattr(layout_casts, "carry_dense_buffers", lambda module: None)
    assert not build(given.bytecode, Options(inputs=2))["packings"]


@pytest.mark.parametrize("turns", [0, 1, 2, 7])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_same_numbers(turns, rows):
    w, given = program()
    x = np.random.default_rng(1).standard_normal((2, rows, 24)).astype("f")
    kept, expected = x.copy(), 2 * x[1]
    for _ in range(turns):
        expected = expected @ w
    (result,) = engine.compile(given).run([x, np.zeros(turns, "f")])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(x, kept)
