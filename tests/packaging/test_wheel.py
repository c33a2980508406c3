"""A wheel built from the checkout carries specs, ledger and domains, and the command works from it elsewhere."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import save

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, files.split("\0")):
        if not (ROOT / name).is_symlink() and (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    for name in ("op_specs", "opsets", "domains"):
        (source / "onnx2torch_mlir" / name).symlink_to(f"../{name}")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name.removeprefix("onnx2torch_mlir/") for name in names}
    for folder, pattern in (("op_specs", "*.yaml"), ("opsets", "*.yaml"), ("domains", "*.py")):
        listed = subprocess.run(["git", "ls-files", f"{folder}/**/{pattern}"], cwd=ROOT, check=True, capture_output=True)
        expected = set(listed.stdout.decode().split())
        assert expected
        assert expected <= packed, f"missing: {sorted(expected - packed)[:5]}"
    assert not any(name.startswith(("tests/", "tools/")) for name in names)


def test_command_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """The new environment sees the installed dependencies of this one, but not this checkout."""
    venv.create(tmp_path / "env", with_pip=False)
    library = next((tmp_path / "env" / "lib").glob("python3*")) / "site-packages"
    zipfile.ZipFile(wheel).extractall(library)
    dependencies = [path for path in Path(sysconfig.get_path("purelib")).iterdir() if "onnx2torch_mlir" not in path.name]
    for path in dependencies:
        if not (library / path.name).exists() and path.suffix != ".pth":
            (library / path.name).symlink_to(path)
    node = h.make_node("Softmax", ["x"], ["y"], axis=-1)
    formals = [h.make_tensor_value_info(name, T.FLOAT, ["N", 5]) for name in "xy"]
    model = tmp_path / "model.onnx"
    save(h.make_model(h.make_graph([node], "g", formals[:1], formals[1:]), opset_imports=[h.make_opsetid("", 17)]), model)
    python = tmp_path / "env" / "bin" / "python"

    def run(*arguments: str) -> str:
        command = [str(python), "-m", "onnx2torch_mlir", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert "torch.aten" in run(str(model))
    assert "linalg.generic" in run(str(model), "--emit", "linalg")
    run("verify", str(model), "--dim", "N=3")
    where = subprocess.run(
        [str(python), "-c", "import onnx2torch_mlir; print(onnx2torch_mlir.__file__)"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert str(library) in where
