"""Every kind of bad input ends the command with its own finding and the exit code of its stage, and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from onnx2torch_mlir.cli.main import main
from onnx2torch_mlir.diagnostics import CODES, EXIT_CODES
from tests.model.test_refusals import EXTERNAL, FILES, MODELS, external_folder, weighted


def a_model(name: str, tmp_path: Path) -> tuple[str, Path]:
    path = tmp_path / "m.onnx"
    path.write_bytes(MODELS[name][2]().SerializeToString())
    return MODELS[name][0], path


def a_file(name: str, tmp_path: Path) -> tuple[str, Path]:
    path = tmp_path / "m.onnx"
    path.write_bytes(FILES[name][1])
    return FILES[name][0], path


def with_external_data(name: str, tmp_path: Path) -> tuple[str, Path]:
    path = external_folder(tmp_path)
    path.write_bytes(weighted(EXTERNAL[name][1]).SerializeToString())
    return EXTERNAL[name][0], path


KINDS: list[tuple[Callable[[str, Path], tuple[str, Path]], str]] = [
    *((a_model, name) for name in MODELS),
    *((a_file, name) for name in FILES),
    *((with_external_data, name) for name in EXTERNAL),
]


@pytest.mark.parametrize(("make", "name"), KINDS)
def test_command(
    make: Callable[[str, Path], tuple[str, Path]], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, path = make(name, tmp_path)
    target = tmp_path / "out.mlir"
    status = main([str(path), "-o", str(target), "--format", "json"])
    shown = capsys.readouterr()
    assert status == EXIT_CODES[CODES[code].stage] != 0
    findings = json.loads(shown.out)["findings"]
    assert code in {finding["code"] for finding in findings}
    assert all(finding["reason"] for finding in findings)
    assert "Traceback" not in shown.out + shown.err
    assert not target.exists()


def test_there_are_many_kinds() -> None:
    assert len(KINDS) >= 25
    codes = {MODELS[name][0] for name in MODELS} | {code for code, _ in (*FILES.values(), *EXTERNAL.values())}
    assert len(codes) >= 15
