"""Products of a single row with weights, which go from panel to panel: alone, followed by something, of windows, in batches."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def check(nodes, x, weights, open_axes=()):
    """The same as onnxruntime's, with one thread and with two."""
    sizes = [f"d{axis}" if axis in open_axes else size for axis, size in enumerate(x.shape)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    program = convert(read(proto))
    for threads in (1, 2):
        engine = program.compile(threads=threads)
        engine.worth = 1
        np.testing.assert_allclose(engine.run([x])[0], expected, rtol=1e-4, atol=1e-4)


PRODUCT = helper.make_node("MatMul", ["x", "w"], ["p"])


@pytest.mark.parametrize("columns", [1, 15, 31, 32, 33, 64, 70, 200])
@pytest.mark.parametrize("steps", [1, 7, 15, 16, 17, 35, 64, 300])
@pytest.mark.parametrize("follows", [False, True])
def test_products(columns, steps, follows):
    last = helper.make_node("Add", ["p", "b"], ["y"]) if follows else helper.make_node("Identity", ["p"], ["y"])
    check([PRODUCT, last], numbers(1, steps), {"w": numbers(steps, columns), "b": numbers(columns)})


@pytest.mark.parametrize("rows", [1, 2, 97])
def test_a_block_of_a_single_row(rows):
    """Of an open number of rows, of which the last block has one."""
    nodes = [PRODUCT, helper.make_node("Relu", ["p"], ["y"])]
    check(nodes, numbers(rows, 40), {"w": numbers(40, 70)}, open_axes=[0])


def test_batches_of_one_row_each():
    nodes = [PRODUCT, helper.make_node("Tanh", ["p"], ["y"])]
    check(nodes, numbers(5, 1, 24), {"w": numbers(5, 24, 70)})


@pytest.mark.parametrize("size", [(3, 3), (5, 4)])
def test_a_window_as_large_as_the_image(size):
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
    check(nodes, numbers(1, 40, *size), {"w": numbers(70, 40, *size), "b": numbers(70)})
