"""A model against onnxruntime, and the search for the node that is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.specs import Action, SpecTable, default_table
from onnx2torch_mlir.verification import bisect, generate_inputs, run_reference, verify

MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 8] x, float[8] c) => (float[batch, 8] y, float[batch, 8] z) {
  a = Add(x, c)
  b = Sub(a, c)
  d = Mul(b, b)
  e = Relu(a)
  f = Exp(e)
  y = Sub(f, d)
  z = Neg(y)
}"""


@pytest.fixture
def model() -> onnx.ModelProto:
    proto = parser.parse_model(MODEL)
    for node in proto.graph.node:
        node.name = f"the_{node.output[0]}"
    return proto


@pytest.fixture(scope="module")
def wrong_relu() -> SpecTable:
    """The table, with a converter for Relu that negates."""
    rows = []
    for row in default_table():
        if row.op == "Relu":
            target = "tests.verification.wrong.relu"
            row = dataclasses.replace(row, action=Action.CONVERT, target=target, options={})
        rows.append(row)
    return SpecTable.build(rows)


@pytest.mark.parametrize("eager", [False, True])
def test_a_right_model_passes(model: onnx.ModelProto, eager: bool) -> None:
    report = verify(model, eager=eager, dims={"batch": 3}, bisect=True)
    assert report.passed
    assert report.exit_code == 0
    assert report.divergence is None
    assert report.reference == f"onnxruntime {onnxruntime.__version__}"
    assert [item.name for item in report.outputs] == ["y", "z"]
    assert report.outputs[0].theirs.shape == (3, 8)


@pytest.mark.parametrize("eager", [False, True])
def test_bisect_names_the_wrong_node(
    model: onnx.ModelProto, wrong_relu: SpecTable, eager: bool, tmp_path: Path
) -> None:
    report = verify(model, eager=eager, bisect=True, table=wrong_relu, reproducer=tmp_path / "r")
    assert not report.passed
    assert report.exit_code == 9
    assert report.divergence is not None
    assert report.divergence.node.name == "the_e"
    assert report.divergence.node.op_type == "Relu"
    assert report.divergence.is_wrong_alone
    assert report.divergence.comparison.ours != report.divergence.comparison.theirs
    small = onnx.load(tmp_path / "r" / "model.onnx")
    assert [node.op_type for node in small.graph.node] == ["Relu"]
    again = verify(small, dict(np.load(tmp_path / "r" / "inputs.npz")), eager=True, table=wrong_relu)
    assert not again.passed
    assert verify(small, dict(np.load(tmp_path / "r" / "inputs.npz")), eager=True).passed


def test_bisection_of_native_code_takes_few_compilations(wrong_relu: SpecTable) -> None:
    steps = "\n".join(f"t{i + 1} = Add(t{i}, c)" for i in range(1, 300))
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g (float[4] t0, float[4] c) => (float[4] y) {{
      t1 = Add(t0, c)
      {steps}
      r = Relu(t300)
      n = Neg(r)
      y = Add(n, c)
    }}"""
    loaded = read(parser.parse_model(text))
    found = bisect(loaded, generate_inputs(loaded), table=wrong_relu)
    assert found is not None
    assert found.node.op_type == "Relu"
    assert found.rounds <= 5


def test_nodes_inside_functions_are_found(wrong_relu: SpecTable) -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "local": 1]>
    g (float[4] x) => (float[4] y) {
      a = Abs(x)
      b = local.block(a)
      y = Neg(b)
    }
    <opset_import: ["": 17], domain: "local">
    block (u) => (w) {
      v = Exp(u)
      w = Relu(v)
    }"""
    loaded = read(parser.parse_model(text))
    found = bisect(loaded, generate_inputs(loaded), eager=True, table=wrong_relu)
    assert found is not None
    assert found.node.op_type == "Relu"


def test_given_inputs_and_stored_outputs_are_compared(model: onnx.ModelProto, tmp_path: Path) -> None:
    feeds = {"x": np.ones((2, 8), np.float32), "c": np.ones(8, np.float32)}
    for index, array in enumerate(feeds.values()):
        onnx.save_tensor(onnx.numpy_helper.from_array(array), str(tmp_path / f"input_{index}.pb"))
    y = np.full((2, 8), np.exp(2.0) - 1, np.float32)
    for index, array in enumerate((y, -y)):
        onnx.save_tensor(onnx.numpy_helper.from_array(array), str(tmp_path / f"output_{index}.pb"))
    assert verify(model, tmp_path, eager=True).passed
    onnx.save_tensor(onnx.numpy_helper.from_array(y + 1), str(tmp_path / "output_0.pb"))
    report = verify(model, tmp_path, eager=True)
    assert all(item.agrees for item in report.outputs)
    assert [item.agrees for item in report.expected] == [False, True]
    assert not report.passed


@pytest.mark.parametrize("inputs", [{"x": np.zeros((2, 8), np.float32)}, [np.zeros((2, 8), np.float32)], {"q": 1}])
def test_wrong_inputs_are_refused(model: onnx.ModelProto, inputs: object) -> None:
    with pytest.raises(Refusal, match="O2M-U003"):
        verify(model, inputs, eager=True)  # type: ignore[arg-type]


def test_a_model_that_nobody_can_run_has_no_reference() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[2, 3] x, float[4, 5] c) => (float[a, b] y) {
      y = MatMul(x, c)
    }"""
    with pytest.raises(Refusal, match="O2M-V002"):
        verify(parser.parse_model(text), eager=True)


def test_what_onnxruntime_refuses_runs_in_the_reference_evaluator() -> None:
    text = """<ir_version: 14, opset_import: ["": 28]>
    g (float[3] x) => (float[3] y) {
      y = Relu(x)
    }"""
    x = np.array([-1, 0, 2], np.float32)
    run = run_reference(parser.parse_model(text), {"x": x})
    assert run.outputs[0].tolist() == [0, 0, 2]
    assert run.name.startswith("onnx.reference")
    assert run.note


@pytest.mark.parametrize("name", ["bfloat16", "float8e4m3fn", "int4"])
def test_types_without_numpy_cross_the_border(name: str) -> None:
    import ml_dtypes

    text = f"""<ir_version: 10, opset_import: ["": 21]>
    g ({name}[3] x) => ({name}[3] y) {{
      y = Identity(x)
    }}"""
    dtype = np.dtype(getattr(ml_dtypes, {"float8e4m3fn": "float8_e4m3fn"}.get(name, name)))
    x = np.array([1, 2, -3]).astype(dtype)
    run = run_reference(parser.parse_model(text), {"x": x})
    assert run.outputs[0].dtype == dtype
    assert run.outputs[0].astype(np.float32).tolist() == [1, 2, -3]
