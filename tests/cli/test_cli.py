"""The command: what it prints, writes and exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

from onnx2torch_mlir.cli.main import main
from onnx2torch_mlir.diagnostics import EXIT_CODES, Stage

GOOD = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 4] x, float[4] c) => (float[batch, 4] y) {
  a = Add(x, c)
  y = Relu(a)
}"""

BAD = """<ir_version: 8, opset_import: ["": 17, "nobody.knows": 1]>
g (float[2] x) => (float[2] y) {
  a = nobody.knows.Foo(x)
  b = nobody.knows.Foo(a)
  d = nobody.knows.Bar(b)
  y = Relu(d)
}"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    return model(tmp_path, GOOD)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    return model(tmp_path, BAD)


def model(folder: Path, text: str) -> str:
    proto = parser.parse_model(text)
    for index, node in enumerate(proto.graph.node):
        node.name = f"n{index}"
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return str(path)


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out = capsys.readouterr().out
    return json.loads(out)  # type: ignore[no-any-return]


def test_help_needs_no_heavy_module_and_is_quick() -> None:
    code = (
        "import sys\nfrom onnx2torch_mlir.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0\n"
        "heavy = {'torch', 'torch_mlir', 'onnx', 'onnx_ir', 'onnxruntime', 'numpy', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    assert done.returncode == 0, done.stderr
    assert "examples:" in done.stdout
    assert "exit codes:" in done.stdout
    print(f"onnx2mlir --help: {seconds:.2f} s")
    assert seconds < 5


def test_help_lists_every_exit_code() -> None:
    from onnx2torch_mlir.cli.arguments import EPILOG

    for stage in Stage:
        assert f" {EXIT_CODES[stage]} " in EPILOG.replace("\n", " ")


@pytest.mark.parametrize("emit", ["torch", "linalg", "core"])
def test_a_bare_path_prints_the_program(good: str, emit: str) -> None:
    command = [sys.executable, "-m", "onnx2torch_mlir", good, "--emit", emit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = {"torch": "torch.aten.relu", "linalg": "linalg.generic", "core": "aten.relu.default"}
    assert wanted[emit] in done.stdout
    assert done.stderr == ""


def test_the_process_ends_at_once_with_the_exit_code(bad: str) -> None:
    code = (
        "import atexit, sys\nfrom onnx2torch_mlir.cli.main import command\n"
        "class Last:\n    def __del__(self): print('taken apart')\n"
        "last = Last()\natexit.register(print, 'registered')\n"
        f"sys.argv = ['onnx2mlir', 'check', {bad!r}]\ncommand()\n"
    )
    # To a pipe Python writes when there is much, or in the end.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == main(["check", bad])
    assert done.returncode not in (0, 1)
    assert "Foo" in done.stdout + done.stderr
    assert done.stdout.endswith("registered\n")


@pytest.mark.parametrize(
    ("name", "start"),
    [("m.mlir", b""), ("m.mlirbc", b"ML\xefR"), ("m.pt2", b"PK")],
)
def test_files_by_suffix(good: str, tmp_path: Path, name: str, start: bytes) -> None:
    target = tmp_path / name
    assert main([good, "-o", str(target)]) == 0
    content = target.read_bytes()
    assert content.startswith(start)
    assert content


def test_an_unwritable_file_is_a_finding_and_leaves_nothing(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([good, "-o", str(tmp_path / "missing" / "m.mlir")]) == 2
    assert "O2M-U004" in capsys.readouterr().err
    assert sorted(item.name for item in tmp_path.iterdir()) == ["model.onnx"]


def test_findings_are_grouped_by_cause(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", bad, "--format", "json"]) == EXIT_CODES[Stage.CONVERT]
    findings = document(capsys)["findings"]
    by_reason = {item["reason"]: [node["name"] for node in item["nodes"]] for item in findings}
    assert sorted(map(sorted, by_reason.values())) == [["n0", "n1"], ["n2"]]
    assert main(["check", bad]) == 4
    shown = capsys.readouterr().out
    assert "n0" in shown
    assert "n1" in shown
    assert "2 errors" in shown or "3 errors" in shown


def test_check_of_a_good_model(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", good]) == 0
    assert "converts: 2 nodes" in capsys.readouterr().out


def test_conversion_as_one_json_document(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good, "--format", "json"]) == 0
    told = document(capsys)
    assert told["exit_code"] == 0
    assert "torch.aten.relu" in told["text"]
    assert [stage["name"] for stage in told["stages"]][:2] == ["read", "convert"]
    assert all(stage["outcome"] == "done" for stage in told["stages"])


def test_stages_before_a_refusal_are_told(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([bad, "--format", "json"]) == 4
    assert [(item["name"], item["outcome"]) for item in document(capsys)["stages"]] == [
        ("read", "done"),
        ("convert", "failed"),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["nothing.onnx"], 3, "O2M-R001"),
        (["GOOD", "--dim", "batch"], 2, "O2M-U001"),
        (["GOOD", "--dim", "batch=-1"], 2, "O2M-U001"),
        (["GOOD", "--dim", "other=1"], 2, "O2M-U002"),
        (["GOOD", "--constant", "q=1"], 2, "O2M-U001"),
        (["GOOD", "--constant", "c=x"], 2, "O2M-U001"),
        (["GOOD", "--weights", "external"], 2, "O2M-U001"),
        (["GOOD", "--emit", "linalg", "-o", "m.pt2"], 2, "O2M-U001"),
        (["run", "GOOD", "-o", "out.txt"], 2, "O2M-U001"),
        (["run", "GOOD", "--inputs", "nothing.npz"], 2, "O2M-U003"),
        (["explain", "O2M-C999"], 2, "O2M-U001"),
    ],
)
def test_what_cannot_be_used_is_a_finding(
    good: str, arguments: list[str], code: int, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([good if item == "GOOD" else item for item in arguments]) == code
    assert wanted in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--nonsense"], ["check"], ["m.onnx", "--emit", "other"], ["m.onnx", "two"]])
def test_usage_errors_exit_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_constants_and_dims_are_part_of_the_program(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([good, "--constant", "c=[1, 2, 3, 4]", "--dim", "batch=3", "--emit", "core"]) == 0
    shown = capsys.readouterr().out
    assert "f32[3, 4]" in shown


@pytest.mark.parametrize("how", [[], ["--eager"]])
def test_run_writes_outputs(good: str, tmp_path: Path, how: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    np.savez(tmp_path / "in.npz", x=x, c=np.ones(4, np.float32))
    out = tmp_path / "out.npz"
    assert main(["run", good, "--inputs", str(tmp_path / "in.npz"), "-o", str(out), *how]) == 0
    np.testing.assert_array_equal(np.load(out)["y"], np.maximum(x + 1, 0))
    assert "y: float32[3, 4]" in capsys.readouterr().out


def test_verify_passes_and_fails(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import onnx

    assert main(["verify", good, "--dim", "batch=7", "--eager"]) == 0
    assert "passed: eager against onnxruntime" in capsys.readouterr().out
    for index, array in enumerate((np.ones((2, 4), np.float32), np.ones(4, np.float32))):
        onnx.save_tensor(onnx.numpy_helper.from_array(array), str(tmp_path / f"input_{index}.pb"))
    onnx.save_tensor(onnx.numpy_helper.from_array(np.ones((2, 4), np.float32)), str(tmp_path / "output_0.pb"))
    assert main(["verify", good, "--inputs", str(tmp_path), "--eager", "--format", "json"]) == 9
    told = document(capsys)
    assert not told["passed"]
    assert told["expected"][0]["wrong"] == 8
    assert told["findings"][0]["code"] == "O2M-V001"


def test_explain_names_rows_and_primitives(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", good, "--format", "json"]) == 0
    nodes = document(capsys)["nodes"]
    assert nodes[1]["operator"] == "ai.onnx::Relu-14"
    assert nodes[1]["core"] == ["aten.relu.default"]
    assert "op_specs" in nodes[1]["row"]


def test_explain_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "o2m-r001"]) == 0
    assert "file not found" in capsys.readouterr().out


def test_explain_a_model_that_does_not_convert(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", bad]) == 4
    assert "unknown operator" in capsys.readouterr().out


def test_reproducers_of_findings(bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import onnx

    folder = tmp_path / "reproducers"
    assert main(["check", bad, "--reproducer", str(folder)]) == 4
    found = sorted(folder.iterdir())
    assert len(found) == 2
    capsys.readouterr()
    for item in found:
        assert [node.domain for node in onnx.load(item / "model.onnx").graph.node] == ["nobody.knows"]
        done = subprocess.run(
            ["sh", str(item / "command.sh")],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
            check=False,
        )
        assert json.loads((item / "findings.json").read_text())[0]["code"] in done.stdout + done.stderr
        assert done.returncode == 4


def test_a_defect_is_told_without_a_traceback_unless_asked_for(
    good: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from onnx2torch_mlir.cli import check_command

    def broken(options: object) -> int:
        raise ZeroDivisionError("here")

    monkeypatch.setattr(check_command, "run", broken)
    assert main(["check", good]) == 1
    shown = capsys.readouterr().err
    assert "ZeroDivisionError: here" in shown
    assert "Traceback" not in shown
    assert main(["check", good, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err
    assert main(["check", good, "--format", "json"]) == 1
    assert document(capsys)["internal_error"]["reason"] == "ZeroDivisionError: here"


def test_an_interrupt_is_130(good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx2torch_mlir.cli import check_command

    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(check_command, "run", interrupted)
    assert main(["check", good]) == 130


def test_a_closed_pipe_is_quiet(good: str) -> None:
    command = f"'{sys.executable}' -m onnx2torch_mlir '{good}' --emit linalg | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141)
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


def sequence_model(folder: Path) -> str:
    """A list and an optional in, a list and a tensor out."""
    from onnx import TensorProto, helper, numpy_helper, save

    matrix = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, None])
    matrices = helper.make_sequence_type_proto(matrix)
    vector = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 1]))
    nodes = [
        helper.make_node("SequenceAt", ["parts", "zero"], ["first"]),
        helper.make_node("OptionalHasElement", ["more"], ["has"]),
        helper.make_node("SequenceInsert", ["parts", "first"], ["all"]),
        helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=1),
    ]
    values = [helper.make_value_info(name, kind) for name, kind in (("parts", matrices), ("more", vector), ("all", matrices))]
    results = [helper.make_value_info("y", matrix), helper.make_tensor_value_info("has", TensorProto.BOOL, [])]
    zero = numpy_helper.from_array(np.array(0), "zero")
    graph = helper.make_graph(nodes, "lists", values[:2], [values[2], *results], [zero])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "lists.onnx")
    return str(folder / "lists.onnx")


def test_lists_and_optionals_come_from_files_and_are_made_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from onnx import numpy_helper

    path = sequence_model(tmp_path)
    parts = [np.full((2, size), size, np.float32) for size in (1, 3)]
    (tmp_path / "input_0.pb").write_bytes(numpy_helper.from_list(parts).SerializeToString())
    (tmp_path / "input_1.pb").write_bytes(numpy_helper.from_optional(None).SerializeToString())
    for index, value in enumerate(([*parts, parts[0]], np.concatenate([*parts, parts[0]], 1), np.array(False))):
        stored = numpy_helper.from_list(value) if isinstance(value, list) else numpy_helper.from_array(value)
        (tmp_path / f"output_{index}.pb").write_bytes(stored.SerializeToString())
    assert main(["verify", path, "--inputs", str(tmp_path)]) == 0
    assert "output all[2]" in capsys.readouterr().out.replace("stored ", "")
    assert main(["verify", path]) == 0
    np.savez(tmp_path / "in.npz", **{"parts[0]": parts[0], "parts[1]": parts[1]})
    assert main(["run", path, "--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]) == 0
    out = np.load(tmp_path / "out.npz")
    shapes = {"all[0]": (2, 1), "all[1]": (2, 3), "all[2]": (2, 1), "y": (2, 5), "has": ()}
    assert {name: out[name].shape for name in out} == shapes
    np.savez(tmp_path / "gap.npz", **{"parts[1]": parts[0], "more": np.ones((2, 1), np.float32)})
    assert main(["run", path, "--inputs", str(tmp_path / "gap.npz")]) == 2
    assert "without a gap" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("emit", ["core", "torch", "linalg", "tosa", "stablehlo"])
def test_what_stands_for_lists_is_told_where_they_are_written(
    emit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = sequence_model(tmp_path), tmp_path / "out.mlir"
    code = main(["convert", path, "--emit", emit, "-o", str(output)])
    told = " ".join(capsys.readouterr().err.split())
    assert "arguments 0 to 1 stand for it: parts.data" in told
    assert "arguments 2 to 3 stand for it: more.has" in told
    assert code == 0 if emit in ("core", "torch", "linalg") else code in (0, EXIT_CODES[Stage.HANDOFF])
    if emit in ("torch", "linalg"):
        assert all(f'"{name}"' in output.read_text() for name in ("parts.data", "parts.shapes", "more.has"))


def test_run_tells_where_the_time_goes(good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    asked = ["run", good, "--dim", "batch=3", "--profile", "--repeat", "2"]
    assert main([*asked, "--trace", str(trace), "--format", "json"]) == 0
    told = document(capsys)["profile"]
    assert told["runs"] == 2 and told["seconds"] > 0
    named = " + ".join(node["name"] for node in told["nodes"])
    assert "n0" in named and "n1" in named
    assert {"Add", "Relu"} == {op for node in told["nodes"] for op in node["op"].split(" + ")}
    assert sum(node["seconds"] for node in told["nodes"]) <= told["seconds"]
    assert all(node["calls"] == 1 for node in told["nodes"])
    assert {event["ph"] for event in json.loads(trace.read_text())["traceEvents"]} == {"X"}
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "GFLOP/s" in printed and "n1" in printed and "mean of 2" in printed
    assert main(["run", good, "--trace", str(trace)]) == 2
    assert main(["run", good, "--eager", "--profile"]) == 2
