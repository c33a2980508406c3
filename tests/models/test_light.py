"""The CNNs of the onnx wheel: as shipped against onnxruntime, and one program at batch 1, 2 and 7 with random weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import onnx2torch_mlir as o2m
from onnx2torch_mlir.model import read
from onnx2torch_mlir.verification import compare, generate_inputs, run_reference, verify
from tests.models.light_models import NAMES, shipped, write

BATCHES = (1, 2, 7)


def test_all_nine_are_there() -> None:
    assert len(NAMES) == 9


@pytest.fixture
def at_any_batch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "model.onnx"
    write(request.param, path)
    yield path
    for file in tmp_path.iterdir():
        file.unlink()


@pytest.mark.light
@pytest.mark.parametrize("name", NAMES)
def test_as_shipped(name: str) -> None:
    report = verify(str(shipped(name)))
    assert report.passed, str(report)
    assert report.reference.startswith("onnxruntime")


@pytest.mark.light
@pytest.mark.parametrize("at_any_batch", NAMES, indirect=True)
def test_one_compiled_program_at_every_batch(at_any_batch: Path) -> None:
    program = o2m.convert(at_any_batch)
    assert not program.report.findings
    engine = o2m.compile(program)
    loaded = read(at_any_batch)
    for batch in BATCHES:
        feeds = generate_inputs(loaded, {"batch": batch})
        theirs = run_reference(at_any_batch, feeds)
        for value, own, reference in zip(loaded.outputs, engine.run(feeds), theirs.outputs, strict=True):
            assert reference.shape[0] == batch
            assert reference.std() > 0
            comparison = compare(value.name, own, reference)
            assert comparison.agrees, f"at batch {batch}: {comparison.reason()}"
