"""Architectures by both exporters of PyTorch: one program each, right at every size, and reachable in every dialect."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from onnx2torch_mlir import Refusal
from onnx2torch_mlir.cli.main import main
from onnx2torch_mlir.engine.arrays import numpy_dtype
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import EagerProgram, Runnable
from onnx2torch_mlir.verification import compare, generate_inputs, run_reference
from tests.models.conftest import CASES, Built, case_name
from tests.models.transformer_models import POSITIONS


def nodes(built: Built) -> Iterator[torch.fx.Node]:
    for module in built.program.exported.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")


def agrees_at_every_size(built: Built, program: Runnable) -> None:
    loaded = read(built.path)
    for dims in built.architecture.runs:
        feeds = generate_inputs(loaded, dims)
        theirs = run_reference(built.path, feeds)
        assert theirs.name.startswith("onnxruntime")
        for value, own, reference in zip(loaded.outputs, program.run(feeds), theirs.outputs, strict=True):
            comparison = compare(value.name, own, reference)
            assert comparison.agrees, f"at {dims}: {comparison.reason()}"


def test_eager_agrees_with_onnxruntime_at_every_size(built: Built) -> None:
    agrees_at_every_size(built, EagerProgram(built.program))


def test_one_compiled_program_agrees_with_onnxruntime_at_every_size(built: Built) -> None:
    agrees_at_every_size(built, built.engine)


def test_the_command_verifies(built: Built, capsys: pytest.CaptureFixture[str]) -> None:
    dims = [f"--dim={name}={size}" for name, size in built.architecture.runs[-1].items()]
    assert main(["verify", str(built.path), *dims]) == 0, capsys.readouterr()
    assert "passed" in capsys.readouterr().out


def test_results_depend_on_the_inputs(built: Built) -> None:
    """A model whose outputs are all alike would prove nothing."""
    loaded = read(built.path)
    first, second = (built.engine.run(generate_inputs(loaded, built.architecture.runs[-1], seed=n)) for n in (0, 1))
    for one, other, spec in zip(first, second, built.program.outputs, strict=True):
        assert one.dtype == numpy_dtype(spec.dtype)
        assert np.abs(one - other).max() > 1e-3
        assert one.std() > 1e-3


def test_no_size_is_read_at_run_time(built: Built) -> None:
    """Chains from Shape to Reshape and Expand fold into sizes; only what nobody can know before is checked."""
    asserted = [node for node in nodes(built) if node.target is torch.ops.aten._assert_scalar.default]
    read_at_run_time = [node for node in nodes(built) if node.target is torch.ops.aten._local_scalar_dense.default]
    assert not read_at_run_time
    assert len(asserted) == len(built.architecture.requirements), [node.args[1] for node in asserted]
    for node, dim in zip(asserted, built.architecture.requirements, strict=True):
        assert dim in str(node.args[1])


def test_outputs_have_the_dims_of_the_inputs(built: Built) -> None:
    symbols = {dim for spec in built.program.inputs for dim in spec.shape if not isinstance(dim, int)}
    assert {built.program.dim_names[str(symbol)] for symbol in symbols} == set(built.architecture.sizes)
    for spec in built.program.outputs:
        axes = built.architecture.outputs[spec.name]
        for axis, dim in enumerate(spec.shape):
            assert built.program.dim_names.get(str(dim)) == axes.get(axis), spec


def test_torch_and_linalg(built: Built) -> None:
    assert "torch.operator" not in built.program.to_mlir("torch").text(locations=False)
    text = built.program.to_mlir("linalg").text(locations=False)
    assert "linalg." in text
    assert "torch." not in text


@pytest.mark.parametrize("dialect", ["tosa", "stablehlo"])
def test_other_dialects_or_every_reason(built: Built, dialect: str) -> None:
    try:
        text = built.program.to_mlir(dialect).text(locations=False)
    except Refusal as refusal:
        assert refusal.findings
        for finding in refusal.findings:
            assert finding.code == "O2M-H001"
            assert finding.node is not None
    else:
        assert f"{dialect}." in text


@pytest.mark.parametrize("built", [case for case in CASES if case[0].name == "bert"], indirect=True, ids=case_name)
def test_too_long_sequences_are_refused(built: Built) -> None:
    feeds = generate_inputs(read(built.path), {"batch": 1, "sequence": POSITIONS + 1})
    with pytest.raises(Refusal, match=r"O2M-X001.*sequence"):
        built.engine.run(feeds)
