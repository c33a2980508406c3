"""Findings as text and JSON, and the pages that explain them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from onnx2torch_mlir.diagnostics import CODES, Finding, NodeRef, Severity
from onnx2torch_mlir.diagnostics.render import as_json, grouped, print_findings, summary

ROOT = Path(__file__).resolve().parents[2]


def at(name: str, severity: Severity = Severity.ERROR, case: str = "axis") -> Finding:
    return Finding("O2M-C003", "no [bold]such[/] axis", "try another", case, NodeRef(name, "Gather"), severity)


def shown(findings: list[Finding]) -> str:
    stream = io.StringIO()
    print_findings(Console(file=stream, width=200, highlight=False), findings)
    return stream.getvalue()


def test_the_same_cause_is_told_once_with_all_its_nodes() -> None:
    groups = grouped([at("a"), at("b"), at("a"), at("c", case="indices")])
    assert [[node.name for node in group.nodes] for group in groups] == [["a", "b"], ["c"]]


def test_errors_come_before_warnings() -> None:
    groups = grouped([at("a", Severity.NOTE), at("b", Severity.WARNING), at("c")])
    assert [group.first.severity for group in groups] == [Severity.ERROR, Severity.WARNING, Severity.NOTE]


def test_the_text_says_code_reason_place_hint_and_anchor_and_obeys_no_markup() -> None:
    text = shown([at("a"), at("b")])
    for part in ("O2M-C003", "no [bold]such[/] axis", "a (ai.onnx::Gather)", "hint: try another", "docs/findings.md#"):
        assert part in text
    assert text.count("O2M-C003 ") == 1
    assert "2 errors" in text


def test_many_nodes_are_counted_in_the_text_and_all_there_in_json() -> None:
    findings = [at(f"n{i}") for i in range(30)]
    assert "and at 22 more nodes" in shown(findings)
    assert len(json.loads(json.dumps(as_json(findings)))[0]["nodes"]) == 30


def test_nothing_is_printed_for_nothing() -> None:
    assert shown([]) == ""
    assert summary([]) == ""


def test_the_pages_are_fresh_and_every_anchor_exists() -> None:
    command = [sys.executable, "-m", "tools.finding_pages", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (ROOT / "docs" / "findings.md").read_text()
    for code in CODES:
        assert f"### {code}\n" in page
