from __future__ import annotations

import pytest
import torch

from onnx2torch_mlir.diagnostics import Refusal, Severity
from onnx2torch_mlir.handoff import to_dialect
from onnx2torch_mlir.handoff.context import new_context
from onnx2torch_mlir.handoff.upstream import _Search
from tests.handoff.handoff_programs import Attention, built_attention, export

CNN = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2))


@pytest.mark.parametrize("dialect", ["tosa", "stablehlo"])
def test_a_static_model_reaches_the_dialect(dialect, tmp_path):
    module = to_dialect(export(CNN, torch.randn(1, 3, 16, 16)), dialect)
    text = str(module)
    assert f"{dialect}." in text and "torch." not in text.replace("torch.assume_strict_symbolic_shapes", "")
    module.save(tmp_path / "model.mlirbc")
    assert (tmp_path / "model.mlirbc").read_bytes()[:4] == b"ML\xefR"


def test_dynamic_sizes_reach_stablehlo_and_assertions_become_warnings():
    module = to_dialect(built_attention(), "stablehlo")
    assert "stablehlo.dynamic_reshape" in str(module)
    assert [(finding.code, finding.severity) for finding in module.findings] == [("O2M-H004", Severity.WARNING)]


def test_a_dynamic_batch_reaches_tosa():
    exported = export(
        lambda x: torch.relu(x.reshape(x.shape[0], 5, 4, 16).transpose(1, 2)), torch.ones(2, 5, 64), dynamic=[(0,)]
    )
    assert "tosa.reshape" in str(to_dialect(exported, "tosa"))


def test_everything_that_upstream_refuses_is_reported_at_its_node():
    def function(x):
        values, order = torch.sort(x, stable=True)
        return values + order, torch.nonzero(x), torch.erf(x)

    exported = export(function, torch.randn(3, 4))
    for node in exported.graph.nodes:
        if node.op == "call_function":
            node.meta["onnx_node"] = f"onnx_{node.name}"
    with pytest.raises(Refusal) as raised:
        to_dialect(exported, "tosa")
    names = {finding.node.name for finding in raised.value.findings if finding.node}
    assert {"onnx_sort", "onnx_nonzero"} <= names
    assert "onnx_erf" not in names and "onnx_add" not in names
    assert {finding.code for finding in raised.value.findings} == {"O2M-H001"}


def test_an_abort_is_a_finding_at_the_node_that_causes_it(tmp_path):
    source = tmp_path / "aborts.mlir"
    source.write_text("""
func.func @main(%a: !torch.vtensor<[4],f32>) -> (!torch.vtensor<[4],ui16>, !torch.vtensor<[4],f32>) {
  %none = torch.constant.none
  %false = torch.constant.bool false
  %int27 = torch.constant.int 27
  %0 = torch.aten.relu %a : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32> loc("Relu_0"("relu"))
  %1 = torch.aten._to_copy %0, %int27, %none, %none, %none, %false, %none
      : !torch.vtensor<[4],f32>, !torch.int, !torch.none, !torch.none, !torch.none, !torch.bool, !torch.none
      -> !torch.vtensor<[4],ui16> loc("Cast_1"("_to_copy"))
  %2 = torch.aten.tanh %0 : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32> loc("Tanh_2"("tanh"))
  return %1, %2 : !torch.vtensor<[4],ui16>, !torch.vtensor<[4],f32>
}
""")
    findings = _Search(source, "tosa", tmp_path / "out.mlirbc").run()
    assert [(finding.code, finding.node.name) for finding in findings] == [("O2M-H002", "Cast_1")]
    assert not (tmp_path / "out.mlirbc").exists()


@pytest.mark.parametrize("weights", ["args", "external"])
def test_weights_stay_outside(weights, tmp_path):
    module = to_dialect(export(Attention(), torch.randn(2, 3, 64)), "tosa", weights=weights)
    assert 'onnx2mlir.weight = "project.weight"' in str(module)
    module.save(tmp_path / "model.mlir")
    assert (tmp_path / "model.safetensors").exists() == (weights == "external")


def test_an_unknown_dialect_is_refused():
    with pytest.raises(Refusal, match="O2M-U001"):
        to_dialect(built_attention(), "toga")


def test_contexts_know_stablehlo_only_when_asked():
    assert new_context("stablehlo").is_registered_operation("stablehlo.add")


@pytest.mark.parametrize("dialect", ["tosa", "stablehlo"])
def test_large_weights_stay_behind_and_come_back(dialect: str) -> None:
    generator = torch.Generator().manual_seed(0)
    square = torch.randn(160, 160, generator=generator)
    row = torch.randn(1, 40000, generator=generator)
    whole = (torch.arange(40000) % 251 - 125).to(torch.int8).reshape(200, 200).repeat(1, 2)
    module = to_dialect(export(lambda x: (x @ square.T, x[:, :1] + row, whole.float()), torch.ones(2, 160)), dialect)
    text = str(module)
    assert "tensor<200x400xi8>" in text and "weight_" not in text
    for tensor in (square, row, whole):
        assert tensor.contiguous().view(torch.uint8).numpy().tobytes().hex().upper() in text
