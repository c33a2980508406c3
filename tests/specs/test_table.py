"""The table: which row speaks for a version, and the checks that rows need among each other."""

import pytest

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.specs import BUILTIN, Action, Root, SpecTable, default_table
from onnx2torch_mlir.specs.loader import read_rows


def build(*texts: str) -> SpecTable:
    findings = []
    rows = [row for n, text in enumerate(texts) for row in read_rows(text, "", f"{n}.yaml", BUILTIN, findings)]
    return SpecTable.build(rows, findings)


def refusal(*texts: str):
    with pytest.raises(Refusal) as caught:
        build(*texts)
    return [(finding.code, finding.case) for finding in caught.value.findings]


SOFTMAX = """
- op: Softmax
  until: 12
  convert: softmax.flattened
- op: Softmax
  since: 13
  change: default-changed
  family: softmax.along
"""


def test_find_never_answers_with_a_neighbour():
    table = build(SOFTMAX.replace("until: 12", "until: 10"))
    found = {version: table.find("", "Softmax", version) for version in (1, 10, 11, 12, 13, 99)}
    assert [version for version, row in found.items() if row is None] == [11, 12]
    assert found[10].action is Action.CONVERT and found[13] is found[99]
    assert table.find("ai.onnx", "Softmax", 1) is found[1]
    assert table.find("ai.onnx.ml", "Softmax", 1) is None and table.find("", "softmax", 1) is None


@pytest.mark.parametrize("until", ["", "  until: 13\n", "  until: 40\n"])
def test_overlap_names_both_rows(until):
    text = SOFTMAX.replace("  until: 12\n", until)
    with pytest.raises(Refusal, match=r"Softmax 13\.\. overlaps Softmax 1\.\..* at 0\.yaml:2"):
        build(text)


def test_duplicates_in_two_files():
    row = "- op: A\n  family: a.b\n"
    assert refusal(row, row) == [("O2M-S003", "1.yaml:1"), ("O2M-S001", "1.yaml:1")]


def test_a_later_row_says_why_it_begins():
    assert refusal(SOFTMAX.replace("  change: default-changed\n", "")) == [("O2M-S001", "0.yaml:5")]


def test_override_replaces_its_range_only():
    table = build(SOFTMAX, "- op: Softmax\n  since: 11\n  until: 13\n  override: true\n  refuse: mine\n")
    spans = [(row.span, row.action.value) for row in table.rows_of("", "Softmax")]
    assert spans == [("Softmax 1..10", "convert"), ("Softmax 11..13", "refuse"), ("Softmax 14..", "family")]


def test_override_of_nothing_and_twice():
    override = "- op: Softmax\n  since: 13\n  override: true\n  refuse: mine\n"
    assert refusal(override) == [("O2M-S001", "0.yaml:1")]
    assert refusal(SOFTMAX, override, override) == [("O2M-S003", "2.yaml:1"), ("O2M-S001", "2.yaml:1")]


def test_a_third_party_root(tmp_path):
    folder = tmp_path / "op_specs" / "com.example.x"
    folder.mkdir(parents=True)
    (folder / "rows.yaml").write_text("- op: Twice\n  convert: twice.twice\n")
    table = SpecTable.load(BUILTIN, Root(tmp_path / "op_specs", tmp_path / "opsets", "example.domains"))
    assert table.find("com.example.x", "Twice", 1).target == "example.domains.com_example_x.twice.twice"
    assert len(table) == len(SpecTable.load()) + 1


def test_a_plug_in_must_say_that_it_overrides(tmp_path):
    folder = tmp_path / "op_specs" / "ai.onnx"
    folder.mkdir(parents=True)
    root = Root(tmp_path / "op_specs", tmp_path / "opsets", "example.domains")
    row = "- op: Relu\n  convert: mine.relu\n"
    (folder / "rows.yaml").write_text(row)
    with pytest.raises(Refusal, match=r"overlaps|repeats"):
        SpecTable.load(BUILTIN, root)
    (folder / "rows.yaml").write_text(row + "  override: true\n")
    assert SpecTable.load(BUILTIN, root).find("", "Relu", 14).target == "example.domains.ai_onnx.mine.relu"


def test_the_default_table_is_loaded_once():
    assert default_table() is default_table()
