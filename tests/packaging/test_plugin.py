"""A package with operators of its own: installed, found by its entry point; and the same by `register`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h

import onnx2torch_mlir as o2m
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.coverage import build
from onnx2torch_mlir.specs import default_ledger, default_table

SOURCE = Path(__file__).parent / "plugin"
PACKAGE = "onnx2torch_com_example"
DOMAIN = "com.example"


def model() -> onnx.ModelProto:
    """arctan2(stretch(y, 3), mish(x)), both inputs of dynamic sizes."""
    nodes = [
        h.make_node("Stretch", ["y"], ["rows"], "stretched", domain=DOMAIN, times=3),
        h.make_node("Mish", ["x"], ["smooth"], "smooth"),
        h.make_node("Arctan2", ["rows", "smooth"], ["angle"], "angle", domain=DOMAIN),
    ]
    formals = [h.make_tensor_value_info("y", T.FLOAT, ["N", 2]), h.make_tensor_value_info("x", T.FLOAT, ["M", 2])]
    graph = h.make_graph(nodes, "g", formals, [h.make_tensor_value_info("angle", T.FLOAT, ["M", 2])])
    imports = [h.make_opsetid("", 18), h.make_opsetid(DOMAIN, 1)]
    return h.make_model(graph, opset_imports=imports, ir_version=9)


def expected(y: Any, x: Any) -> Any:
    return np.arctan2(np.repeat(y, 3, axis=0), x * np.tanh(np.log1p(np.exp(x))))


def relu_model() -> onnx.ModelProto:
    formals = [h.make_tensor_value_info(name, T.FLOAT, ["N"]) for name in "xy"]
    graph = h.make_graph([h.make_node("Relu", ["x"], ["y"], "relu")], "g", formals[:1], formals[1:])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the package into."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(SOURCE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    options = "--no-deps --no-build-isolation --no-index --quiet --disable-pip-version-check".split()
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder / "site", folder / "source"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "site"


SEVERAL = """
import contextlib, io, json, sys
from onnx2torch_mlir.cli.main import main
told = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    told.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""


def commands(site: Path, folder: Path, *lines: str) -> list[tuple[int, str, str]]:
    """Exit code and outputs of several commands, where ``site`` is installed; in one new process, which saves imports."""
    path = os.pathsep.join([str(site), str(Path(__file__).parents[2])])
    listed = json.dumps([line.split() for line in lines])
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, listed],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(item) for item in json.loads(done.stdout.splitlines()[-1])]


def test_the_command_by_entry_point(installed: Path, tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    given = {}
    for rows in (2, 0):
        given[rows] = rng.normal(size=(rows, 2)).astype(np.float32), rng.normal(size=(3 * rows, 2)).astype(np.float32)
        np.savez(tmp_path / f"in{rows}.npz", y=given[rows][0], x=given[rows][1])
    told = commands(
        installed,
        tmp_path,
        "check m.onnx --format json",
        "explain m.onnx --format json",
        "run m.onnx --inputs in2.npz -o out2.npz",
        "run m.onnx --inputs in0.npz -o out0.npz --eager",
        f"coverage --domain {DOMAIN} --op * --format json",
        "coverage --op Mish",
        "coverage",
    )
    assert [code for code, _, _ in told] == [0] * 7, told
    assert json.loads(told[0][1])["findings"] == []

    nodes = {node["node"]: node for node in json.loads(told[1][1])["nodes"]}
    assert nodes["stretched"]["by"] == f"{PACKAGE}.domains.com_example.stretching.stretch"
    assert nodes["stretched"]["core"] == ["com_example.stretch.default"]
    assert nodes["smooth"]["row"] == f"{PACKAGE}/op_specs/ai.onnx/activation.yaml:1"
    assert nodes["angle"]["by"] == "onnx2torch_mlir.families.elementwise.binary"

    for rows, arrays in given.items():
        found = np.load(tmp_path / f"out{rows}.npz")["angle"]
        np.testing.assert_allclose(found, expected(*arrays), rtol=2e-6, atol=1e-6)

    rows = {row["op"]: row for row in json.loads(told[4][1])["rows"]}
    assert rows.keys() == {"Arctan2", "Stretch"}
    assert rows["Stretch"]["package"] == PACKAGE and rows["Stretch"]["note"] == "along the first axis only"
    assert f"version 18, 22: an implementation of the plug-in {PACKAGE}, in place of this package's" in told[5][1]
    assert "not measured" in told[5][1]
    assert f"plug-in {PACKAGE}: ai.onnx::Mish, com.example::Arctan2, com.example::Stretch" in told[6][1]


@pytest.fixture
def clean() -> Iterator[None]:
    """Nothing stays registered or imported."""
    from onnx2torch_mlir.specs import plugins
    from onnx2torch_mlir.specs.installed import installed

    yield
    plugins.set_registered([])
    installed.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def broken(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: None) -> Any:
    """Puts a copy of the installed package into this process, one file of it replaced."""
    from onnx2torch_mlir.conversion.handlers import load_handler
    from onnx2torch_mlir.specs.installed import installed as all_installed

    def spoil(file: str, text: str | None) -> None:
        shutil.copytree(installed, tmp_path / "site")
        target = tmp_path / "site" / PACKAGE / file
        shutil.rmtree(target) if text is None else target.write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        all_installed.cache_clear()
        load_handler.cache_clear()

    return spoil


ROW = "- op: Mish\n  since: 18\n  convert: activation.mish\n"


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("plugin.yaml", "api: 2\n", "it was written for the interface 2 for plug-ins, and this release has 1"),
        ("plugin.yaml", "api: [\n", "its plugin.yaml must say"),
        ("op_specs/com.example/rows.yaml", "- op: [", "this is not YAML"),
        ("op_specs/ai.onnx/activation.yaml", ROW, "Mish 18.. overlaps Mish 1.. at op_specs/ai.onnx/activation.yaml"),
        ("op_specs/com.example/rows.yaml", "- {op: Nothing, convert: a.b}\n", "has no operator com.example::Nothing"),
        ("opsets/com.example/Stretch.yaml", "since one: {}\n", "cannot be read"),
        ("opsets/com.example/_domain.yaml", "newest: 1\n", "must say 'newest_opset"),
        ("", None, "it cannot be found: ModuleNotFoundError"),
    ],
)
def test_a_broken_plugin_is_left_out(broken: Any, file: str, text: str | None, told: str) -> None:
    broken(file, text)
    findings = o2m.check(model())
    assert [item.code for item in findings if item.severity == "error"] == ["O2M-C001", "O2M-C001"]
    for found in (findings, o2m.check(relu_model())):
        warnings = [item for item in found if item.severity == "warning"]
        assert warnings[0].code == "O2M-S007" and warnings[0].case == PACKAGE
        assert "entry point com_example of onnx2torch-com-example 1.2" in warnings[0].reason
        assert any(told in item.reason and PACKAGE in item.case + item.reason for item in warnings), warnings
    assert all(item.severity == "warning" for item in found)
    assert o2m.convert(relu_model()).report.exit_code == 0


def test_a_converter_that_cannot_be_imported_concerns_its_own_node(broken: Any) -> None:
    broken("domains/com_example/stretching.py", "raise RuntimeError('no')\n")
    (finding,) = o2m.check(model())
    assert finding.code == "O2M-S006" and finding.node is not None and finding.node.name == "stretched"
    assert f"{PACKAGE}.domains.com_example.stretching cannot be imported: RuntimeError: no" in finding.reason
    assert o2m.check(relu_model()) == []


def test_a_lowering_that_cannot_be_imported_concerns_its_own_primitive(broken: Any) -> None:
    from onnx2torch_mlir.core.extension import ADDED
    from onnx2torch_mlir.lowering import registry

    ADDED.clear()
    registry.RULES.pop("com_example.stretch.default", None)
    broken("lowering.py", "import nowhere_to_be_found\n")
    program = o2m.convert(model())
    assert isinstance(program, o2m.CoreProgram)
    with pytest.raises(o2m.Refusal, match=f"stretch.default has no lowering rule: {PACKAGE}.lowering cannot be imported"):
        _ = program.lowered
    relu = o2m.convert(relu_model())
    assert isinstance(relu, o2m.CoreProgram) and relu.lowered is not None
    registry._BROKEN.clear()


# --- the same from Python -------------------------------------------------------------------------------------------


def results(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[list[Any]]:
    program = o2m.convert(proto)
    assert isinstance(program, o2m.CoreProgram)
    return [program.eager().run(feeds), program.compile().run(feeds)]


@pytest.mark.usefixtures("clean")
def test_register_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SOURCE))
    assert [finding.code for finding in o2m.check(model())] == ["O2M-C001", "O2M-C001"]
    plugin = o2m.register(PACKAGE)
    assert str(plugin) == f"{PACKAGE} (register)"
    assert o2m.check(model()) == []
    feeds = {"y": np.ones((2, 2), np.float32), "x": np.linspace(-30, 30, 12, dtype=np.float32).reshape(6, 2)}
    for (angle,) in results(model(), feeds):
        np.testing.assert_allclose(angle, expected(**feeds), rtol=2e-6, atol=1e-6)
    ops = {item.op: item for item in build().only(DOMAIN).supports}
    assert ops["Stretch"].how() == f"an implementation of the plug-in {PACKAGE}"
    o2m.unregister(plugin)
    assert [finding.code for finding in o2m.check(model())] == ["O2M-C001", "O2M-C001"]


TWICE = "since 1: {inputs: {X: T}, outputs: {Y: T}, attributes: {times: int = 2}, types: {T: float}}"


@pytest.mark.usefixtures("clean")
def test_register_functions_and_again() -> None:
    def scaled(g: ProgramBuilder, X: Value, *, times: int) -> Value:
        return g.mul(X, times)

    def scaled_otherwise(g: ProgramBuilder, X: Value, *, times: int) -> Value:
        return g.mul(X, times + 1)

    node = h.make_node("Scaled", ["x"], ["y"], "s", domain=DOMAIN, times=3)
    formals = [h.make_tensor_value_info(name, T.FLOAT, ["N"]) for name in "xy"]
    imports = [h.make_opsetid("", 18), h.make_opsetid(DOMAIN, 1)]
    proto = h.make_model(h.make_graph([node], "g", formals[:1], formals[1:]), opset_imports=imports, ir_version=9)
    x = np.arange(3, dtype=np.float32)
    for function, times in ((scaled, 3), (scaled_otherwise, 4)):
        rows = f"- {{op: Scaled, convert: {function.__name__}, attributes: {{times: 2}}}}"
        o2m.register(domain=DOMAIN, rows=rows, operators={"Scaled": TWICE}, converters=[function])
        for (y,) in results(proto, {"x": x}):
            np.testing.assert_array_equal(y, times * x)


@pytest.mark.usefixtures("clean")
def test_an_override_has_to_be_said_and_can_be_taken_back() -> None:
    def negated(g: ProgramBuilder, X: Value) -> Value:
        return g.call("aten.neg.default", X)

    x = np.array([-1, 0, 2], np.float32)
    row = "- {op: Relu, since: 14, convert: negated%s}"
    with pytest.raises(o2m.Refusal) as caught:
        o2m.register(name="mine", rows=row % "", converters={"negated": negated})
    assert [finding.code for finding in caught.value.findings][:2] == ["O2M-S007", "O2M-S003"]
    clash = caught.value.findings[1]
    assert clash.case == "mine/op_specs/ai.onnx/rows.yaml:1" and "op_specs/ai.onnx/" in clash.reason
    assert results(relu_model(), {"x": x})[0][0].tolist() == [0, 0, 2]
    plugin = o2m.register(name="mine", rows=row % ", override: true", converters={"negated": negated})
    assert results(relu_model(), {"x": x})[1][0].tolist() == [1, 0, -2]
    with pytest.raises(o2m.Refusal, match=r"Relu 14\.\. repeats Relu 14\.\. at mine/op_specs"):
        o2m.register(name="other", rows=row % ", override: true", converters={"negated": negated})
    assert default_table().find("", "Relu", 14).package == "mine"
    o2m.unregister(plugin)
    assert results(relu_model(), {"x": x})[0][0].tolist() == [0, 0, 2]


@pytest.mark.usefixtures("clean")
def test_a_folder_and_what_is_none(tmp_path: Path) -> None:
    shutil.copytree(SOURCE / PACKAGE, tmp_path / "operators")
    o2m.register(tmp_path / "operators")
    assert default_ledger().operator(DOMAIN, "Arctan2") is not None
    assert [finding.code for finding in o2m.check(relu_model())] == []
    with pytest.raises(o2m.Refusal, match="O2M-S007"):
        o2m.register("no_such_package_anywhere")
    with pytest.raises(o2m.Refusal, match="O2M-S007"):
        o2m.register(tmp_path)
    with pytest.raises(o2m.Refusal, match="O2M-U001"):
        o2m.register()
    with pytest.raises(o2m.Refusal, match="O2M-S003"):
        o2m.register(domain="", rows=ROW, operators={"Relu": TWICE}, name="another Relu")


def test_importing_looks_for_no_plugins() -> None:
    code = "import sys, onnx2torch_mlir as o; o.register; assert not {'torch', 'importlib.metadata'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
