"""Products of one operand with several weights that are added up: one product, the same numbers, and only where that is so."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import added_products, passes
from onnx2torch_mlir.engine.compiler.contraction_match import is_sum_of_products
from onnx2torch_mlir.engine.compiler.loop_order import iterators
from onnx2torch_mlir.engine.compiler.walks import functions, named
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


SAME = {"pads": [1, 1, 1, 1]}
WEIGHTS = {
    "a": numbers(20, 12, 1, 1),
    "b": numbers(20, 12, 1, 1),
    "c": numbers(20, 12, 1, 1),
    "d": numbers(12, 1, 3, 3),
    "e": numbers(12, 1, 3, 3),
    "f": numbers(20, 12, 3, 3),
    "bias": numbers(20),
    "other": numbers(20),
    "few": numbers(12),
    "zero": np.float32([0]),
}
CASES = {
    # Name: the nodes, and how many products are left.
    "two": ([node("Conv", "x a bias", "p"), node("Conv", "x b other", "q"), node("Add", "p q", "y")], 1),
    "three": (
        [
            node("Conv", "x a bias", "p"),
            node("Add", "p zero", "s"),
            node("Conv", "x b other", "q"),
            node("Add", "s q", "t"),
            node("Conv", "x c", "r"),
            node("Add", "r t", "u"),
            node("Relu", "u", "y"),
        ],
        1,
    ),
    "depthwise": (
        [
            node("Conv", "x d few", "p", group=12, **SAME),
            node("Conv", "x e few", "q", group=12, **SAME),
            node("Add", "p q", "s"),
            node("Add", "s x", "y"),
        ],
        1,
    ),
    "two of each of two": (
        [
            *(node("Conv", f"x {w}", w.upper()) for w in "abc"),
            *(node("Conv", f"x {w}", w.upper(), group=12, **SAME) for w in "de"),
            node("Add", "D E", "s"),
            node("Conv", "s a", "t"),
            node("Add", "A B", "u"),
            node("Add", "C t", "v"),
            node("Add", "u v", "y"),
        ],
        3,
    ),
    "other windows": ([node("Conv", "x a", "p"), node("Conv", "x f", "q", **SAME), node("Add", "p q", "y")], 2),
    "other inputs": (
        [node("Relu", "x", "z"), node("Conv", "x a", "p"), node("Conv", "z b", "q"), node("Add", "p q", "y")],
        2,
    ),
    "somebody else reads one": (
        [node("Conv", "x a", "p"), node("Conv", "x b", "q"), node("Add", "p q", "s"), node("Mul", "s q", "y")],
        2,
    ),
    "what is taken away": ([node("Conv", "x a", "p"), node("Conv", "x b", "q"), node("Sub", "p q", "y")], 2),
    "something between": (
        [node("Conv", "x a", "p"), node("Relu", "p", "r"), node("Conv", "x b", "q"), node("Add", "r q", "y")],
        2,
    ),
    "no weight": (
        [
            node("Conv", "x a", "p"),
            node("Relu", "x", "z"),
            node("ReduceMean", "z", "m"),
            node("Mul", "b m", "w"),
            node("Conv", "x w", "q"),
            node("Add", "p q", "y"),
        ],
        2,
    ),
}


def model(name, sizes):
    nodes, _ = CASES[name]
    used = {name for each in nodes for name in each.input}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    initializers = [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items() if name in used]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_open", [False, True])
def test_numbers(name, is_open):
    proto = model(name, ["n", 12, "h", "w"] if is_open else [2, 12, 9, 7])
    x = numbers(2, 12, 9, 7)
    (expected,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    (result,) = convert(read(proto)).compile(threads=2).run([x])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_products_that_are_left(name):
    lowered = convert(read(model(name, [2, 12, 9, 7]))).lowered
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(lowered.bytecode)
        passes.run(module, "simplification", "inline," + passes.SIMPLIFY + ",symbol-dce", passes.Diagnostics())
        added_products.merge(module, len(lowered.inputs))
        assert module.operation.verify()
        (main,) = functions(module)
        generics = named(main, "linalg.generic")
        left = [each for each in generics if any(iterators(each)) and len(each.operands) == 3 and is_sum_of_products(each)]
    assert len(left) == CASES[name][1]


def test_products_of_matrices():
    nodes = [node("MatMul", "x a", "p"), node("MatMul", "x b", "q"), node("Add", "p q", "y")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["m", 24])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = {name: numbers(24, 33) for name in "ab"}
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = numbers(7, 24)
    result = convert(read(proto)).compile().run([x])[0]
    np.testing.assert_allclose(result, x @ (weights["a"] + weights["b"]), rtol=1e-4, atol=1e-4)
