"""Sums of products of float64: matrices of any size and order, batches, convolutions, and sums that go on."""

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper
from torch_mlir import ir

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine.compiler.contraction_match import match
from onnx2torch_mlir.engine.compiler.walks import named
from tests.engine import programs
from tests.engine.programs import M, N

DOUBLE = 11


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def computed(op, x, w, *, known=False, dynamic=False, threads=2, **attributes):
    """The result of one node of two operands, of which the second may be a weight, and the first of open size."""
    shape = [f"d{axis}" for axis in range(x.ndim)] if dynamic else x.shape
    inputs = [helper.make_tensor_value_info("x", DOUBLE, shape)]
    inputs += [] if known else [helper.make_tensor_value_info("w", DOUBLE, w.shape)]
    weights = [numpy_helper.from_array(w, "w")] if known else []
    result = helper.make_tensor_value_info("y", DOUBLE, None)
    graph = helper.make_graph([helper.make_node(op, ["x", "w"], ["y"], **attributes)], "g", inputs, [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    code = o2m.compile(model, threads=threads)
    return code.run([x] if known else [x, w])[0]


SIZES = [(4, 5, 3), (7, 1, 1), (67, 131, 45), (200, 16, 64), (1, 9, 9), (40, 3, 5), (0, 4, 4), (5, 0, 3), (400, 33, 17)]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products(sizes, dynamic, known):
    """Rows of each kind of tile, panels that are not full, several jobs along rows and columns, none at all."""
    rows, length, columns = sizes
    x, w = numbers(rows, length), numbers(length, columns)
    np.testing.assert_allclose(computed("MatMul", x, w, known=known, dynamic=dynamic), x @ w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("turns", [(1, 0), (0, 1), (1, 1)])
def test_turned_operands(turns):
    x, w = numbers(30, 50), numbers(50, 20)
    given = [np.ascontiguousarray(array.T) if turn else array for array, turn in zip((x, w), turns, strict=True)]
    np.testing.assert_allclose(computed("Gemm", *given, transA=turns[0], transB=turns[1]), x @ w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shapes", [((5, 9, 7), (5, 7, 6)), ((2, 3, 20, 40), (3, 40, 33)), ((6, 5, 8), (8, 4))], ids=str)
def test_batches(shapes, threads):
    x, w = (numbers(*shape) for shape in shapes)
    np.testing.assert_allclose(computed("MatMul", x, w, threads=threads), x @ w, rtol=1e-12, atol=1e-12)


CONVOLUTIONS = [{}, {"strides": [2, 1], "pads": [1, 0, 1, 2]}, {"dilations": [2, 2]}, {"group": 2}]


@pytest.mark.parametrize("attributes", CONVOLUTIONS, ids=str)
def test_convolutions(attributes):
    x, w = numbers(2, 8, 11, 9), numbers(12, 8 // attributes.get("group", 1), 3, 3)
    pads = attributes.get("pads", [0] * 4)
    padded = torch.nn.functional.pad(torch.from_numpy(x), (pads[1], pads[3], pads[0], pads[2]))
    named = {"stride": "strides", "dilation": "dilations", "groups": "group"}
    more = {name: attributes.get(attribute, 1) for name, attribute in named.items()}
    wanted = torch.nn.functional.conv2d(padded, torch.from_numpy(w), **more).numpy()
    np.testing.assert_allclose(computed("Conv", x, w, known=True, **attributes), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("element", ["f64", "f32"])
def test_what_they_are(element):
    """A product of float64 is taken by itself; its left operand need not be dense along the sum."""
    a, b, c = (f"memref<{shape}x{element}>" for shape in ("5x7", "5x6", "7x6"))
    maps = ", ".join(f"affine_map<(i, j, k) -> ({dims})>" for dims in ("k, i", "k, j", "i, j"))
    text = f"""func.func @main(%a: {a}, %b: {b}, %c: {c}) {{
      linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel", "reduction"]}}
          ins(%a, %b : {a}, {b}) outs(%c : {c}) {{
      ^bb0(%x: {element}, %y: {element}, %s: {element}):
        %p = arith.mulf %x, %y : {element}
        %t = arith.addf %s, %p : {element}
        linalg.yield %t : {element}
      }}
      return
    }}"""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        (nest,) = named(module.operation, "linalg.generic")
        assert match(nest) is None
        assert (match(nest, doubles=True) is not None) == (element == "f64")


def test_sums_that_go_on():
    """What is there already is added to."""
    type_ = "tensor<?x?xf64>"
    body = f"%s = linalg.matmul ins(%a0, %a1 : {type_}, {type_}) outs(%a2 : {type_}) -> {type_}\nreturn %s : {type_}"
    x, w, c = numbers(21, 13), numbers(13, 13), numbers(21, 13)
    specs = [(torch.float64, (N, M)), (torch.float64, (M, M)), (torch.float64, (N, M))]
    (found,) = programs.run(body, specs, [(torch.float64, (N, M))], [x, w, c])
    np.testing.assert_allclose(found, x @ w + c, rtol=1e-12, atol=1e-12)
