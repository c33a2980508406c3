"""The coverage table and its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx2torch_mlir.cli.main import main
from onnx2torch_mlir.coverage import PAGE, Measured, Tally, build, check_page, load_measured, page
from onnx2torch_mlir.specs import SpecTable, default_ledger, default_table

RELU = ("ai.onnx", "Relu")


def measured(**tallies: tuple[int, int, int]) -> Measured:
    """A run with tallies of versions of Relu (``v14=(…)``)."""
    operators = {(*RELU, int(name[1:])): Tally(*counts) for name, counts in tallies.items()}
    return Measured("a test", {"node": (3, 1)}, operators)


def support(table, version):  # type: ignore[no-untyped-def]
    found = [item for item in table.supports if (item.resolution.version.domain, item.resolution.version.op) == RELU]
    return next(item for item in found if item.resolution.version.since_version == version)


def test_what_was_measured_counts_for_the_range_of_the_row() -> None:
    table = build(measured=measured(v14=(2, 2, 1)))
    row = default_table().find(*RELU, 14)
    assert row is not None
    for version in (6, 13, 14):
        assert support(table, version).matches is row.covers(version)


def test_levels_count_each_operator_once_at_the_version_of_the_opset() -> None:
    table = build(measured=measured(v14=(1, 1, 1)))
    declared = {item.op for item in default_ledger().versions("ai.onnx") if item.since_version <= 13}
    level = table.level("ai.onnx", 13)
    assert level.declared <= len(declared)
    assert level.matches <= level.lowers <= level.converts <= level.declared
    assert table.level("ai.onnx", 28).converts >= 1


def test_without_rows_nothing_but_functions_converts() -> None:
    table = build(SpecTable.build([]), measured=measured(v6=(1, 1, 1)))
    assert not support(table, 6).converts
    assert not support(table, 6).matches
    bodies = {item.op for item in default_ledger().versions("ai.onnx") if item.function}
    assert 0 < table.level("ai.onnx", 28).converts <= len(bodies)
    assert table.level("ai.onnx", 28).matches == 0


def test_a_stale_page_is_found(tmp_path: Path) -> None:
    table = build(measured=measured(v14=(2, 2, 1)))
    path = tmp_path / "coverage.md"
    assert check_page(table, path)[0].code == "O2M-G001"
    path.write_text(page(table))
    assert check_page(table, path) == []
    other = build(measured=measured(v14=(2, 2, 2)))
    assert "line" in check_page(other, path)[0].reason


def test_a_run_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    run = measured(v6=(1, 0, 0), v14=(2, 2, 1))
    run.save(tmp_path / "m.json")
    assert load_measured(tmp_path / "m.json") == run
    assert load_measured(tmp_path / "missing.json").operators == {}


def test_the_page_in_the_repository_is_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--check"]) == 0, capsys.readouterr().err


def test_the_command_prints_the_page_or_exits_with_10(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["coverage"]) == 0
    assert capsys.readouterr().out == page(build())
    monkeypatch.setattr(check_page, "__defaults__", (tmp_path / "missing.md",))
    assert main(["coverage", "--check"]) == 10
    assert PAGE.name == "coverage.md"
