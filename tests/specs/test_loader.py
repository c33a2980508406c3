"""Rows: what the YAML can say, and that every violation is reported with its file and line."""

import pytest

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.specs import BUILTIN, Action, Change, Root, SpecTable
from onnx2torch_mlir.specs.ledger_text import float32
from onnx2torch_mlir.specs.loader import read_rows


def read(text: str, domain: str = "ai.onnx"):
    findings = []
    return list(read_rows(text, domain, "f.yaml", BUILTIN, findings)), findings


def test_a_row_and_its_defaults():
    rows, findings = read("- op: Relu\n  family: elementwise.unary\n  core: aten.relu.default\n")
    assert not findings
    (row,) = rows
    assert (row.domain, row.op, row.since, row.until, row.action) == ("ai.onnx", "Relu", 1, None, Action.FAMILY)
    assert row.target == "onnx2torch_mlir.families.elementwise.unary"
    assert row.options == {"core": "aten.relu.default"}
    assert row.place == "f.yaml:1"


def test_every_key():
    rows, findings = read("""
- op: [A, B]
  since: 3
  until: 5
  convert: softmax.flattened
  options: {kind: sum, flags: [true, 2]}
  attributes: {axis: 1, alpha: 0.1, mode: linear, pads: [0, 0]}
  constants: [shape]
  ignore: [consumed_inputs]
  change: default-changed
  note: no strings
""", "ai.onnx.ml")  # fmt: skip
    assert not findings
    first, second = rows
    assert (first.op, second.op) == ("A", "B")
    assert first.target == "onnx2torch_mlir.domains.ai_onnx_ml.softmax.flattened"
    assert (first.since, first.until, first.change) == (3, 5, Change.DEFAULT_CHANGED)
    assert first.options == {"kind": "sum", "flags": (True, 2)}
    assert first.attributes == {"axis": 1, "alpha": float32(0.1), "mode": "linear", "pads": (0, 0)}
    assert (first.constants, first.ignore, first.note) == (("shape",), ("consumed_inputs",), "no strings")


def test_scalars_are_those_of_yaml_1_2():
    words = "[no, off, true, False, 1e-5, '1e-5', 1.5E+2, -3, 1., none, null, 1.0e-5, .inf, x1e5]"
    rows, findings = read(f"- op: A\n  family: a.b\n  options: {{values: {words}}}")
    assert not findings
    values = ("no", "off", True, False, 1e-5, "1e-5", 150.0, -3, 1.0, "none", None, 1e-5, float("inf"), "x1e5")
    assert rows[0].options["values"] == values


def test_a_table_expands_and_keeps_lines():
    rows, findings = read("""
- family: elementwise.unary
  ignore: [a]
  ops:
    Sin: aten.sin.default
    Relu: {core: aten.relu.default, ignore: [b], until: 4}
- family: reduction.reduce
  each: kind
  attributes: {keepdims: 1}
  ops:
    ReduceSum: sum
    ReduceMean:
      options: {kind: mean}
      attributes: {noop: 0}
- convert: x.y
  ops:
    Plain:
""")  # fmt: skip
    assert not findings
    assert [(row.op, row.line) for row in rows] == [
        ("Sin", 5), ("Relu", 6), ("ReduceSum", 11), ("ReduceMean", 12), ("Plain", 17)
    ]  # fmt: skip
    sin, relu, reduce_sum, mean, plain = rows
    assert (sin.options, sin.ignore, sin.until) == ({"core": "aten.sin.default"}, ("a",), None)
    assert (relu.options, relu.ignore, relu.until) == ({"core": "aten.relu.default"}, ("a", "b"), 4)
    assert (reduce_sum.options, reduce_sum.attributes) == ({"kind": "sum"}, {"keepdims": 1})
    assert mean.attributes == {"keepdims": 1, "noop": 0}
    assert plain.target == "onnx2torch_mlir.domains.ai_onnx.x.y"


BAD = {
    "not YAML": ("- op: [", 2),
    "not a list": ("op: Relu", 1),
    "empty item": ("-\n", 1),
    "no op": ("- family: a.b", 1),
    "op and ops": ("- op: A\n  ops: {B: c}\n  family: a.b", 1),
    "unknown key": ("- op: A\n  family: a.b\n  famly: a.b", 3),
    "repeated key": ("- op: A\n  family: a.b\n  family: a.c", 3),
    "no action": ("- op: A\n  core: x", 1),
    "two actions": ("- op: A\n  family: a.b\n  refuse: later", 1),
    "function: false": ("- op: A\n  function: false", 2),
    "since of wrong type": ("- op: A\n  since: one\n  family: a.b", 2),
    "since is true": ("- op: A\n  since: true\n  family: a.b", 2),
    "since is zero": ("- op: A\n  since: 0\n  family: a.b", 2),
    "until is null": ("- op: A\n  until:\n  family: a.b", 2),
    "family without function": ("- op: A\n  family: softmax", 2),
    "family is a path": ("- op: A\n  family: ../a.b", 2),
    "empty reason": ("- op: A\n  refuse: ' '", 2),
    "unknown change": ("- op: A\n  family: a.b\n  change: shiny", 3),
    "constants not a list": ("- op: A\n  family: a.b\n  constants: shape", 3),
    "attributes not a mapping": ("- op: A\n  family: a.b\n  attributes: [axis]", 3),
    "core in options": ("- op: A\n  family: a.b\n  options: {core: x}", 1),
    "core not a name": ("- op: A\n  family: a.b\n  core: 3", 3),
    "attribute and option": ("- op: A\n  family: a.b\n  options: {axis: 1}\n  attributes: {axis: 1}", 1),
    "attribute ignored": ("- op: A\n  family: a.b\n  ignore: [axis]\n  attributes: {axis: 1}", 1),
    "attributes of a refusal": ("- op: A\n  refuse: later\n  attributes: {axis: 1}", 1),
    "each without ops": ("- op: A\n  family: a.b\n  each: kind", 3),
    "each not a name": ("- each: [kind]\n  family: a.b\n  ops: {A: x}", 1),
    "ops not a mapping": ("- family: a.b\n  ops: [A]", 2),
    "core of a table entry": ("- family: a.b\n  ops:\n    A: 3", 3),
    "op of an entry": ("- family: a.b\n  ops:\n    A: {op: B}", 3),
    "repeated entry": ("- family: a.b\n  ops:\n    A: x\n    A: y", 4),
    "op is a number": ("- op: 3\n  family: a.b", 1),
    "override: false": ("- op: A\n  family: a.b\n  override: false", 3),
    "a date": ("- op: A\n  family: a.b\n  note: 2020-01-01", 3),
}


@pytest.mark.parametrize("case", BAD)
def test_a_violation_is_reported_at_its_line(case):
    text, line = BAD[case]
    _, findings = read(text)
    assert findings[0].code == "O2M-S001"
    assert findings[0].case == f"f.yaml:{line}", findings[0]


def test_an_empty_range_never_matches():
    _, findings = read("- op: A\n  family: a.b\n  since: 5\n  until: 4")
    assert [finding.code for finding in findings] == ["O2M-S004"]


def test_all_violations_of_all_files_come_at_once(tmp_path):
    folder = tmp_path / "op_specs" / "ai.onnx"
    folder.mkdir(parents=True)
    (folder / "a.yaml").write_text("- op: A\n- op: B\n  family: a.b\n  x: 1\n")
    (folder / "b.yaml").write_text("- op: C\n  family: a.b\n- op: C\n  family: a.b\n")
    with pytest.raises(Refusal) as caught:
        SpecTable.load(Root(tmp_path / "op_specs", tmp_path / "opsets", "m"))
    places = [finding.case for finding in caught.value.findings]
    assert places == [f"op_specs/ai.onnx/{place}" for place in ("a.yaml:1", "a.yaml:4", "b.yaml:3", "b.yaml:3")]
