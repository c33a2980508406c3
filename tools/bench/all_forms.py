"""One model written in every form, by one process: two such folders tell whether the bytes are the same."""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

EMITS = ("torch", "linalg", "tosa", "stablehlo")
WEIGHTS = ("inline", "args", "external", "irpa")


def write_forms(model: Path, folder: Path, dims: dict[str, int]) -> None:
    """Write ``model`` to ``folder`` as ``.pt2``, as the core program's text, and in each dialect with weights in each place.

    ``dims`` are pinned for the dialects that upstream's passes make.
    """
    import onnx2torch_mlir

    dynamic, static = onnx2torch_mlir.convert(model), onnx2torch_mlir.convert(model, dims=dims)
    dynamic.save(folder / "core.pt2")
    (folder / "core.txt").write_text(str(dynamic))
    for emit in EMITS:
        program = static if emit in ("tosa", "stablehlo") else dynamic
        for weights in WEIGHTS:
            module = program.to_mlir(emit, weights=weights)  # type: ignore[arg-type]
            module.save(folder / f"{emit}.{weights}.mlirbc")
            module.save_module(folder / f"{emit}.{weights}.mlir")


def digests(model: Path, folder: Path, dims: dict[str, int], seed: str) -> dict[str, str]:
    """The SHA-256 of what a process of its own writes, with this hash seed and ``folder`` for its temporary files too."""
    written, temporary = folder / "written", folder / "temporary"
    written.mkdir(parents=True)
    temporary.mkdir()
    named = [f"{name}={size}" for name, size in dims.items()]
    command = [sys.executable, str(Path(__file__).resolve()), str(model), str(written), *named]
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONHASHSEED": seed, "TMPDIR": str(temporary), "PYTHONPATH": path}
    subprocess.run(command, env=env, check=True, capture_output=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(written.iterdir())}


def main() -> None:
    """Write the forms of one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("dims", nargs="*", metavar="NAME=N")
    options = parser.parse_args()
    pairs = [item.partition("=") for item in options.dims]
    write_forms(options.model, options.folder, {name: int(size) for name, _, size in pairs})


if __name__ == "__main__":
    main()
