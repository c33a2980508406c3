"""The ledger holds what `onnx` declares, lazily, and without asking `onnx`."""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.specs import BUILTIN, Ledger, default_ledger
from onnx2torch_mlir.specs.ledger_text import float32, parse_operator, render_operator

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_checked_in_ledger_is_fresh(sync, capsys):
    assert sync.main(["--check"]) == 0, capsys.readouterr().out


def test_check_lists_what_is_stale_and_sync_mends_it(sync, tmp_path, capsys):
    root = tmp_path / "opsets"
    assert sync.main(["--root", str(root)]) == 0
    (root / "ai.onnx" / "Relu.yaml").write_text("since 1: {}\n")
    (root / "ai.onnx" / "Made.yaml").write_text("since 1: {}\n")
    (root / "ai.onnx.ml" / "Scaler.yaml").unlink()
    capsys.readouterr()
    assert sync.main(["--check", "--root", str(root)]) == 1
    lines = capsys.readouterr().out.split("\n")
    assert lines[:3] == [
        "missing   ai.onnx.ml/Scaler.yaml",
        "unknown   ai.onnx/Made.yaml",
        "different ai.onnx/Relu.yaml",
    ]
    assert sync.main(["--root", str(root)]) == 0
    assert sync.main(["--check", "--root", str(root)]) == 0


def test_text_says_everything_the_schemas_say(sync):
    for operator in sync.operators():
        assert parse_operator(operator.domain, operator.op, render_operator(operator), "-") == operator


def test_every_version_of_onnx_is_there():
    ledger = default_ledger()
    ours = {(v.domain, v.op, v.since_version) for domain in ledger.domains() for v in ledger.versions(domain)}
    theirs = {(s.domain or "ai.onnx", s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    assert theirs <= ours
    assert ledger.newest_opset("") == ledger.newest_opset("ai.onnx") == onnx.defs.onnx_opset_version()


@pytest.mark.parametrize("opset", range(1, onnx.defs.onnx_opset_version() + 1))
def test_version_for_selects_what_onnx_selects(opset):
    ledger = default_ledger()
    for op in ("Softmax", "Clip", "Gelu", "Upsample", "Scatter", "ReduceSum"):
        version = ledger.operator("", op).version_for(opset)
        if not onnx.defs.has(op, opset):
            assert version is None or version.deprecated or version.since_version > opset
        else:
            schema = onnx.defs.get_schema(op, opset, "")
            assert (version.since_version, version.deprecated) == (schema.since_version, schema.deprecated)


def test_formals_attributes_and_types():
    ledger = default_ledger()
    clip = ledger.operator("", "Clip").version_for(6)
    assert clip.attributes["max"].default == float32(3.4028234663852886e38)
    loop = ledger.operator("", "Loop").version_for(28)
    assert [(f.name, f.kind, f.min_arity, f.homogeneous) for f in loop.inputs] == [
        ("M", "optional", 1, True),
        ("cond", "optional", 1, True),
        ("v_initial", "variadic", 0, False),
    ]
    assert loop.attributes["body"].required
    assert "map(int64, float)" in ledger.operator("ai.onnx.ml", "DictVectorizer").version_for(1).type_constraints["T1"]
    assert ledger.operator("", "LeakyRelu").version_for(16).attributes["alpha"].default == float32(0.01)


@pytest.mark.parametrize(
    ("domain", "op"), [("", "../ai.onnx.ml/Scaler"), ("..", "Relu"), ("", "relu"), ("x.y", "Relu")]
)
def test_names_from_a_model_never_become_paths(domain, op):
    assert default_ledger().operator(domain, op) is None


def test_a_third_party_folder_adds_a_domain(tmp_path):
    folder = tmp_path / "com.example"
    folder.mkdir()
    (folder / "Twice.yaml").write_text("since 1:\n  inputs: {X: T}\n  outputs: {Y: T}\n  types:\n    T: float\n")
    (folder / "_domain.yaml").write_text("newest_opset: 3\n")
    ledger = Ledger(BUILTIN.opsets, tmp_path)
    twice = ledger.operator("com.example", "Twice").version_for(2)
    assert (str(twice), twice.type_constraints) == ("com.example::Twice-1", {"T": ("tensor(float)",)})
    assert ledger.newest_opset("com.example") == 3
    assert ledger.operator("", "Relu") is not None
    assert ledger.domain("com.example").operators() == ("Twice",)
    (folder / "_domain.yaml").write_text("3\n")
    with pytest.raises(Refusal, match="newest_opset"):
        Ledger(tmp_path).domain("com.example")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "since: 1",
        "- 1",
        "since one: {}",
        "since 1: {inputs: 3}",
        "since 1: {outs: {Y: T}}",
        "since 1: {inputs: {X: ''}}",
        "since 1: {attributes: {a: int := 3}}",
        "since 1: {attributes: {a: integer}}",
        "since 1: {attributes: {a: int = x}}",
        "since 1: [",
    ],
)
def test_a_broken_file_is_a_finding(tmp_path, text):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "Op.yaml").write_text(text)
    with pytest.raises(Refusal) as caught:
        Ledger(tmp_path).operator("d", "Op")
    assert [finding.code for finding in caught.value.findings] == ["O2M-S005"]
    assert "Op.yaml" in str(caught.value)


def test_specs_import_neither_onnx_nor_torch():
    code = "import sys, onnx2torch_mlir.specs as s; s.default_table(); s.default_ledger().operator('', 'Relu'); "
    code += "print(sorted({'onnx', 'onnx_ir', 'torch', 'torch_mlir', 'numpy'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert done.stdout.strip() == "[]"
