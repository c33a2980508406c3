"""Models as onnxruntime writes them after its optimizations, and as the optimizer for transformers does."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

import onnx2torch_mlir as o2m
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import EagerProgram
from onnx2torch_mlir.verification import compare, generate_inputs, run_reference
from tests.models.architectures import ARCHITECTURES, Architecture, export
from tests.models.conftest import made

LEVELS = onnxruntime.GraphOptimizationLevel
BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}


def exported(name: str, exporter: str, folder: Path) -> Path:
    return made(folder / f"{name}_{exporter}.onnx", lambda path: export(BY_NAME[name], exporter, path))


def by_session(name: str, exporter: str, level: LEVELS, folder: Path) -> Path:
    def optimize(path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(path)
        source = str(exported(name, exporter, folder))
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    return made(folder / f"{name}_{exporter}_{level.name}.onnx", optimize)


def by_optimizer(name: str, exporter: str, kind: str, heads: int, folder: Path) -> Path:
    from onnxruntime.transformers import optimizer

    def optimize(path: Path) -> None:
        source = str(exported(name, exporter, folder))
        model = optimizer.optimize_model(source, model_type=kind, num_heads=heads, hidden_size=32, opt_level=0)
        model.save_model_to_file(str(path))

    return made(folder / f"{name}_{exporter}_{kind}.onnx", optimize)


def agrees(path: Path, architecture: Architecture, *, native: bool) -> None:
    loaded = read(path)
    program = o2m.convert(path)
    runner = o2m.compile(program) if native else EagerProgram(program)
    for dims in (architecture.runs[0], architecture.runs[-1]):
        feeds = generate_inputs(loaded, dims)
        theirs = run_reference(path, feeds)
        assert theirs.name.startswith("onnxruntime")
        for value, own, reference in zip(loaded.outputs, runner.run(feeds), theirs.outputs, strict=True):
            comparison = compare(value.name, own, reference)
            assert comparison.agrees, f"at {dims}: {comparison.reason()}"


def operators(path: Path) -> set[str]:
    return {f"{node.domain}::{node.op_type}" for node in read(path).ir.graph if node.domain}


@pytest.mark.parametrize(
    ("exporter", "level"),
    [
        ("torchscript", LEVELS.ORT_ENABLE_BASIC),
        ("torchscript", LEVELS.ORT_ENABLE_EXTENDED),
        ("torchscript", LEVELS.ORT_ENABLE_ALL),
        ("dynamo", LEVELS.ORT_ENABLE_ALL),
    ],
)
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "resnet", "segmentation"])
def test_by_a_session(name: str, exporter: str, level: LEVELS, folder: Path) -> None:
    path = by_session(name, exporter, level, folder)
    agrees(path, BY_NAME[name], native=(name, exporter, level) == ("resnet", "torchscript", LEVELS.ORT_ENABLE_ALL))
    if level is not LEVELS.ORT_ENABLE_BASIC:
        assert any(name.startswith("com.microsoft") for name in operators(path))
    if name == "resnet" and level is LEVELS.ORT_ENABLE_ALL:
        assert "com.microsoft.nchwc::Conv" in operators(path)


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize(("name", "kind"), [("bert", "bert"), ("gpt2", "gpt2"), ("vit", "vit")])
def test_by_the_optimizer_for_transformers(name: str, kind: str, exporter: str, folder: Path) -> None:
    path = by_optimizer(name, exporter, kind, 4, folder)
    agrees(path, BY_NAME[name], native=(name, exporter) == ("bert", "torchscript"))
    assert "com.microsoft::SkipLayerNormalization" in operators(path)
