"""`onnx2torch_mlir.backend` under ONNX's own runner, unchanged, and its functions by themselves."""

from __future__ import annotations

import unittest

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import helper, parser

from onnx2torch_mlir import backend
from onnx2torch_mlir.diagnostics import Refusal

MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 4] x, float[4] c) => (float[batch, 4] y, float[batch, 4] z) {
  y = Add(x, c)
  z = Relu(y)
}"""
X = np.array([[-1, 2, -3, 4]], np.float32)
C = np.ones(4, np.float32)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return parser.parse_model(MODEL)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx.*")
def test_onnx_own_runner_drives_it() -> None:
    runner = onnx.backend.test.BackendTest(backend, __name__)
    runner.include("^test_(relu|add|sub_bcast|operator_add_broadcast|Linear)_cpu$")
    cases = [
        getattr(case, name) for case in runner.test_cases.values() for name in dir(case) if name.startswith("test_")
    ]
    suite = unittest.TestSuite(
        case(name) for case in runner.test_cases.values() for name in dir(case) if name.endswith("_cpu")
    )
    result = unittest.TestResult()
    suite.run(result)
    assert cases
    assert result.wasSuccessful(), result.failures + result.errors
    assert result.testsRun - len(result.skipped) == 5


@pytest.mark.parametrize("eager", [False, True])
def test_a_prepared_model_runs_at_any_batch(model: onnx.ModelProto, eager: bool) -> None:
    prepared = backend.prepare(model, eager=eager)
    for batch in (1, 2, 7, 0):
        x = np.repeat(X, batch, axis=0)
        outputs = prepared.run([x, C])
        np.testing.assert_array_equal(outputs[0], x + 1)
        np.testing.assert_array_equal(outputs["z"], np.maximum(x + 1, 0))
    by_name = prepared.run({"c": C, "x": X})
    np.testing.assert_array_equal(by_name.y, X + 1)


def test_dims_are_pinned(model: onnx.ModelProto) -> None:
    prepared = backend.prepare(model, dims={"batch": 1})
    with pytest.raises(Refusal, match="O2M-U003"):
        prepared.run([np.repeat(X, 2, axis=0), C])


@pytest.mark.parametrize("inputs", [[X], {"x": X}, {"x": X, "q": C}, [X, C, C]])
def test_wrong_inputs_are_refused(model: onnx.ModelProto, inputs: object) -> None:
    with pytest.raises(Refusal, match="O2M-U003"):
        backend.prepare(model, eager=True).run(inputs)


def test_a_model_and_a_node_in_one_go(model: onnx.ModelProto) -> None:
    np.testing.assert_array_equal(backend.run_model(model, [X, C])[1], np.maximum(X + 1, 0))
    node = helper.make_node("Sub", ["a", "b"], ["c"])
    np.testing.assert_array_equal(backend.run_node(node, [X, C])[0], X - 1)
    clip = helper.make_node("Clip", ["a", "", "high"], ["c"])
    high = np.array(1, np.float32)
    np.testing.assert_array_equal(backend.run_node(clip, [X, high], opset_version=13)[0], np.minimum(X, 1))


def test_what_it_supports(model: onnx.ModelProto) -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA")
    assert backend.is_compatible(model)
    unknown = parser.parse_model(MODEL.replace("Relu(y)", "nobody.Foo(y)").replace('"": 17', '"": 17, "nobody": 1'))
    assert not backend.is_compatible(unknown)
    with pytest.raises(Refusal, match="O2M-C001"):
        backend.prepare(unknown)
    with pytest.raises(Refusal, match="O2M-U001"):
        backend.prepare(model, "CUDA")
