"""``onnx2mlir compile``: C programs that run what it writes, and what it does with the folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper, parser

from onnx2torch_mlir.cli.main import main

COMPILER = shutil.which("cc")
PROGRAMS = Path(__file__).parent / "programs"

LAYERS = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 24] x) => (float[batch, 10] y, int64[2] sizes) {
  a = MatMul(x, w0)
  b = Add(a, w1)
  c = Relu(b)
  y = MatMul(c, w2)
  sizes = Shape(x)
}"""

IMAGES = """<ir_version: 8, opset_import: ["": 17]>
g (float[1, 3, height, width] x) => (float[1, 8, h, w] y) {
  a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, w0, w1)
  b = Sigmoid(a)
  c = Mul(a, b)
  y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)
}"""

DOUBLED = """<ir_version: 8, opset_import: ["": 17]>
g (float[n, 2] x) => (float[n, 2] y) {
  y = Add(x, x)
}"""

TURNED = """<ir_version: 8, opset_import: ["": 17]>
g (float[n, 2] x) => (float[n, 2] y) {
  y = MatMul(x, w0)
}"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX2MLIR_CACHE", str(tmp_path / "cache"))


def model(path: Path, text: str, *shapes: tuple[int, ...]) -> str:
    """A model with the weights w0, w1 …"""
    proto = parser.parse_model(text)
    rng = np.random.default_rng(1)
    weights = [(rng.standard_normal(shape) / 4).astype("f") for shape in shapes]
    proto.graph.initializer.extend(numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(weights))
    path.write_bytes(proto.SerializeToString())
    return str(path)


def built(folder: Path, program: str, *objects: Path) -> str:
    """A C program, linked with objects."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    target = str(folder / program.removesuffix(".c"))
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    includes = [f"-I{code.parent}" for code in objects]
    subprocess.run([COMPILER, *warnings, *includes, PROGRAMS / program, *objects, "-lm", "-pthread", "-o", target], check=True)
    return target


def ran(command: list[Any], data: bytes) -> bytes:
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def expected(path: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return onnxruntime.InferenceSession(path).run(None, {"x": x})[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "weights", "sizes"),
    [
        (LAYERS, [(24, 48), (48,), (48, 10)], [(0, 24), (1, 24), (13, 24), (64, 24)]),
        (IMAGES, [(8, 3, 3, 3), (8,)], [(1, 3, 8, 8), (1, 3, 31, 17)]),
    ],
    ids=["layers", "images"],
)
def test_a_c_program_gives_the_numbers_of_onnxruntime(
    tmp_path: Path, text: str, weights: list[tuple[int, ...]], sizes: list[tuple[int, ...]]
) -> None:
    path, out = model(tmp_path / "model.onnx", text, *weights), tmp_path / "out"
    assert main(["compile", path, "-o", str(out)]) == 0
    program = built(tmp_path, "run_model.c", out / "model.o")
    for shape in sizes:
        x = np.random.default_rng(0).standard_normal(shape).astype("f")
        y = expected(path, x)
        given = ran([program, out / "model.weights", *map(str, shape)], x.tobytes())
        assert np.frombuffer(given[: 8 * y.ndim], np.int64).tolist() == list(y.shape)
        np.testing.assert_allclose(np.frombuffer(given[8 * y.ndim :], "f").reshape(y.shape), y, rtol=1e-5, atol=1e-5)
    wrong = [*sizes[0][:1], 5, *sizes[0][2:]]
    done = subprocess.run(
        [program, out / "model.weights", *map(str, wrong)], input=bytes(4 * 3000), capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"dim 1 of input x is 5, the model takes {sizes[0][1]} (")


def test_two_models_in_one_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deeper" / "out"
    for name, text, weights in (("first", DOUBLED, []), ("second", TURNED, [(2, 2)])):
        path = model(tmp_path / "model.onnx", text, *weights)
        assert main(["compile", path, "-o", str(out), "--name", name, "--format", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["manifest"] == json.loads((out / f"{name}.json").read_text())
    program = built(tmp_path, "two_models.c", out / "first.o", out / "second.o")
    x = np.array([[1, 2], [3, 4]], "f")
    given = ran([program, out / "first.weights", out / "second.weights"], x.tobytes())
    np.testing.assert_allclose(np.frombuffer(given, "f").reshape(2, 2), expected(path, x + x), rtol=1e-6)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    path = model(tmp_path / "model.onnx", LAYERS, (24, 48), (48,), (48, 10))
    assert main(["compile", path, "-o", str(tmp_path / "1"), "--name", "layers"]) == 0
    command = [sys.executable, "-m", "onnx2torch_mlir", "compile", path, "-o", tmp_path / "2", "--name", "layers"]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "5"}, capture_output=True, text=True, check=True)
    assert done.stderr.startswith(f"wrote {tmp_path / '2'}: layers.o (")
    names = sorted(file.name for file in (tmp_path / "1").iterdir())
    assert names == sorted(
        [*(["liblayers.so"] if COMPILER else []), *(f"layers.{end}" for end in ("h", "json", "o", "weights"))]
    )
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_what_cannot_be_written_for_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrow = LAYERS.replace("float[batch, 24] x", "float[batch, 24] x, int4[3] q").replace("int64[2] sizes", "int4[3] p")
    narrow = (
        narrow.replace("sizes = Shape(x)", "p = Identity(q)")
        .replace('"": 17', '"": 21')
        .replace("ir_version: 8", "ir_version: 10")
    )
    strings = """<ir_version: 8, opset_import: ["": 17]>
g (string[n] x) => (string[n] y) {
  y = Identity(x)
}"""
    for text, shapes, code, said in (
        (narrow, [(24, 48), (48,), (48, 10)], 7, "input q is int4: C has no such elements"),
        (strings, [], 6, "the model cannot be written as native code without Python"),
    ):
        assert main(["compile", model(tmp_path / "model.onnx", text, *shapes), "-o", str(tmp_path / "out")]) == code
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model(tmp_path / "2nd-model.onnx", DOUBLED)
    with pytest.raises(SystemExit) as ended:
        main(["compile", path])
    assert ended.value.code == 2
    assert main(["compile", path, "-o", str(tmp_path / "out"), "--name", "a-b"]) == 2
    assert "Such as a_b." in capsys.readouterr().err
    assert main(["compile", path, "-o", str(tmp_path / "out")]) == 0
    assert "model_2nd_model.o" in capsys.readouterr().err
