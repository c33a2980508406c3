"""The shipped rows hold against the ledger; every version of `onnx.defs` is accounted for."""

from collections import Counter
from itertools import pairwise

import onnx
import pytest

from onnx2torch_mlir.specs import (
    BUILTIN,
    Change,
    Outcome,
    SpecTable,
    changes,
    default_ledger,
    default_table,
    lint,
    replay,
)
from onnx2torch_mlir.specs.loader import read_rows
from tools.ort_schemas import has_cpu_kernel


def test_no_row_contradicts_the_ledger():
    assert [str(finding) for finding in lint(default_table(), default_ledger())] == []


def test_replay_meets_every_version_once():
    ours = Counter(
        (r.version.domain, r.version.op, r.version.since_version) for r in replay(SpecTable({}), default_ledger())
    )
    theirs = Counter((s.domain or "ai.onnx", s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history())
    assert {key: ours[key] for key in theirs} == theirs


STANDARD = {"ai.onnx": 629, "ai.onnx.ml": 25, "ai.onnx.preview.training": 4, "ai.onnx.preview": 1}
CONTRIB = {"com.microsoft": 136, "com.microsoft.nchwc": 8, "com.microsoft.onnx": 20}


def test_every_version_of_the_standard_runs_natively_or_on_the_host():
    outcomes = [(r.version.domain, r.outcome) for r in replay(default_table(), default_ledger())]
    assert Counter(domain for domain, _ in outcomes) == STANDARD | CONTRIB
    assert {outcome for domain, outcome in outcomes if domain in STANDARD} == {Outcome.ROW, Outcome.FUNCTION, Outcome.HOST}


def test_of_onnxruntimes_operators_only_those_without_kernel_are_refused():
    resolved = [r for r in replay(default_table(), default_ledger()) if r.version.domain in CONTRIB]
    assert [str(r.version) for r in resolved if r.outcome is Outcome.UNEXPLAINED] == []
    refused = {r.version.op for r in resolved if r.outcome is Outcome.REFUSED and not r.version.deprecated}
    assert {op for op in refused if has_cpu_kernel("com.microsoft", op)} == set()


def test_a_version_without_row_is_expanded_or_unexplained():
    outcomes = {str(r.version): r for r in replay(SpecTable({}), default_ledger())}
    assert outcomes["ai.onnx::Mish-18"].outcome is Outcome.FUNCTION
    assert outcomes["ai.onnx::Conv-22"].outcome is Outcome.UNEXPLAINED
    assert "neither a row nor a function body" in outcomes["ai.onnx::Conv-22"].reason


def found(text: str, domain: str = "ai.onnx"):
    errors = []
    rows = list(read_rows(text, domain, "f.yaml", BUILTIN, errors))
    return lint(SpecTable.build(rows, errors), default_ledger())


CLEAN = {
    "one signature": "- op: Relu\n  family: a.b\n  ignore: [consumed_inputs]",
    "float default": "- op: LeakyRelu\n  family: a.b\n  ignore: [consumed_inputs]\n  attributes: {alpha: 0.01}",
    "default from prose": "- op: Concat\n  until: 3\n  family: a.b\n  attributes: {axis: 1}",
    "null where there is none": "- op: Split\n  since: 2\n  until: 12\n  family: a.b\n  attributes: {axis: 0, split: }",
    "list default": "- op: MeanVarianceNormalization\n  family: a.b\n  attributes: {axes: [0, 2, 3]}",
    "constants": "- op: Tile\n  since: 6\n  family: a.b\n  constants: [repeats]",
    "function": "- op: Mish\n  function: true",
    "some values on the host": "- op: Softmax\n  until: 12\n  family: a.b\n  attributes: {axis: 1}\n  hosted: {axis: [0]}",
    "a refusal spans anything": "- op: Clip\n  refuse: later",
}  # fmt: skip


@pytest.mark.parametrize("case", CLEAN)
def test_true_rows(case):
    assert found(CLEAN[case]) == []


WRONG = {
    "unknown operator": ("- op: Relux\n  family: a.b", "O2M-S002", "no operator ai.onnx::Relux"),
    "unknown attribute": ("- op: Sin\n  family: a.b\n  attributes: {axis: 1}", "O2M-S002", "no attribute 'axis'"),
    "unknown ignored": ("- op: Sin\n  family: a.b\n  ignore: [axis]", "O2M-S002", "'axis' to ignore"),
    "unknown on the host": ("- op: Sin\n  family: a.b\n  hosted: {axis: [1]}", "O2M-S002", "'axis' to run on the host"),
    "unknown constant": ("- op: Tile\n  since: 6\n  family: a.b\n  constants: [times]", "O2M-S002", "no input 'times'"),
    "wrong default": (
        "- op: Softmax\n  until: 12\n  family: a.b\n  attributes: {axis: -1}", "O2M-S001", "is 1, not -1"),
    "default of wrong type": (
        "- op: Softmax\n  until: 12\n  family: a.b\n  attributes: {axis: x}", "O2M-S001", "has the type int"),
    "default left out": ("- op: Softmax\n  until: 12\n  family: a.b", "O2M-S001", "which the row leaves out"),
    "default of a required one": (
        "- op: Concat\n  since: 4\n  family: a.b\n  attributes: {axis: 1}", "O2M-S001", "is required"),
    "null for a default": (
        "- op: Softmax\n  until: 12\n  family: a.b\n  attributes: {axis: null}", "O2M-S001", "not null"),
    "never matches": ("- op: Gelu\n  until: 19\n  family: a.b", "O2M-S004", "no version of Gelu"),
    "begins nowhere": (
        "- op: Softmax\n  since: 12\n  family: a.b\n  attributes: {axis: -1}", "O2M-S004", "begins where no version"),
    "spans a signature": (
        "- op: Softmax\n  family: a.b\n  ignore: [axis]\n- op: Cos\n  family: a.b\n"
        "- op: Squeeze\n  family: a.b", "O2M-S001", "moved-to-input"),
    "no function body": ("- op: Conv\n  function: true", "O2M-S001", "no function body"),
    "untrue change": (
        "- op: Cos\n  until: 21\n  family: a.b\n- op: Cos\n  since: 22\n  change: new-input\n  family: a.b",
        "O2M-S001", "the change is dtype-only, not new-input"),
    "hole": (
        "- op: Cast\n  until: 5\n  refuse: later\n- op: Cast\n  since: 9\n  change: dtype-only\n  refuse: later",
        "O2M-S001", "none speaks for ai.onnx::Cast-6"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_untrue_rows(case):
    text, code, fragment = WRONG[case]
    findings = found(text)
    assert any(f.code == code and fragment in f.reason for f in findings), findings
    assert all(f.case.startswith("f.yaml:") for f in findings)


def test_changes_of_the_default_domain():
    """The census of all 426 steps, counted apart from this code: 251 dtype-only, 48 wording, 127 of signature."""
    ledger = default_ledger()
    kinds = Counter()
    for op in ledger.domain("").operators():
        versions = ledger.operator("", op).versions
        for before, after in pairwise(versions):
            step = changes(before, after)
            kinds["signature" if step.isdisjoint({Change.DTYPE_ONLY, Change.WORDING}) else next(iter(step))] += 1
    assert kinds == {Change.DTYPE_ONLY: 251, Change.WORDING: 48, "signature": 127}


@pytest.mark.parametrize("domain", default_ledger().domains())
def test_drafted_rows_need_nothing_but_an_action(domain, draft_rows):
    for op in default_ledger().domain(domain).operators():
        draft = draft_rows.draft(default_ledger().operator(domain, op))
        assert found(draft.replace(f"- op: {op}  #", f"- op: {op}\n  family: a.b  #"), domain) == [], draft
