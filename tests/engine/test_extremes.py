"""Maxima and minima over dims: the new term stands first, and NaN wins wherever it is."""

import numpy as np
import pytest
from onnx import parser

import onnx2torch_mlir as o2m

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import kernels
from onnx2torch_mlir.engine.compiler.walks import nested


@pytest.mark.parametrize("name", ["maximumf", "minimumf"])
@pytest.mark.parametrize("order", ["%x, %out", "%out, %x"])
def test_the_term_is_first(name, order):
    text = f"""func.func @f(%a: memref<4x9xf32>, %b: memref<4xf32>) {{
      linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
          iterator_types = ["parallel", "reduction"]}} ins(%a : memref<4x9xf32>) outs(%b : memref<4xf32>) {{
      ^bb0(%x: f32, %out: f32):
        %r = arith.{name} {order} : f32
        linalg.yield %r : f32
      }}
      return
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (generic,) = (operation for operation in nested(module.operation) if operation.name == "linalg.generic")
        kernels.relax_sums(generic)
        block = generic.regions[0].blocks[0]
        assert list(block.operations[0].operation.operands) == list(block.arguments)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axes", [(0, 2), (0, 1, 2), (2,), (0,)])
@pytest.mark.parametrize("place", [None, 0, 5, 16, 37, 299, 300, 1499])
def test_not_a_number_wins(op, axes, place):
    x = np.random.default_rng(0).standard_normal((2, 5, 150)).astype("f")
    x[1, 3] = np.inf
    if place is not None:
        x.reshape(-1)[place] = np.nan
    text = f"g (float[2,5,150] x) => (float[a] y) {{ y = {op}<axes = {list(axes)}, keepdims = 0>(x) }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    expected = getattr(np, op[6:].lower())(x, axes)
    np.testing.assert_array_equal(o2m.compile(model).run([x])[0], expected)
