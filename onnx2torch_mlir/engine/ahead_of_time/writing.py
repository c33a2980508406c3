"""A lowered program to the files of `onnx2mlir compile`: object, shared library, header, weights and manifest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from onnx2torch_mlir.engine import cache, compiling, objects
from onnx2torch_mlir.engine.ahead_of_time import describing, header, weights_file
from onnx2torch_mlir.engine.ahead_of_time.folder import FORMAT, contents, filled
from onnx2torch_mlir.engine.ahead_of_time.interface import CValue, Interface
from onnx2torch_mlir.engine.ahead_of_time.weights_file import Writing
from onnx2torch_mlir.engine.compiler import processor
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.options import Options, of_environment
from onnx2torch_mlir.lowering.lowered import Lowered

VERSION = 1
"""Of the manifest, the weights' file and the C interface."""


@dataclass(frozen=True)
class Source:
    """Where a program comes from: the model file's name and the SHA-256 of its bytes (None where there is no file)."""

    name: str
    sha256: str | None = None


def write(
    lowered: Lowered,
    folder: str | os.PathLike[str],
    *,
    name: str,
    source: Source,
    force: bool = False,
    library: bool = True,
    writing: Writing | None = None,
) -> dict[str, Any]:
    """Compile ``lowered`` for this machine's processor into files of ``folder``; gives the manifest.

    They are ``name.o``, ``name.h``, ``name.weights``, ``name.json`` and, with ``library`` and where there is a C compiler,
    ``libname.so``; ``name`` also begins the names of the C functions. Either all are written or none; files that no earlier
    call wrote are only replaced with ``force``. ``writing`` shows how far the weights are.

    Raises:
        Refusal: O2M-U001 for a bad name, O2M-M003 for an input or output that C cannot have, O2M-U004 where files cannot be
            written or are in the way, and what `compiling.compile` raises.
    """
    options = of_environment(len(lowered.inputs))
    triple, cpu, features = objects.host().split()
    wanted = [feature[1:] for feature in features.split(",") if feature.startswith("+")]
    asked = processor.checked(wanted) if triple.startswith("x86_64") else ()
    interface = describing.interface(lowered, name, asked)
    files = [f"{name}.o", f"{name}.h", f"{name}.weights"]
    optional = [f"lib{name}.so"] if library else []
    with filled(Path(folder), f"{name}.json", files + optional, force=force) as target:
        lowered = describing.with_assertions(lowered)
        interface = interface.identified(cache.key(lowered.bytecode, options))
        entry = compiling.build(lowered.bytecode, options, interface)
        packings = [Packing(*fields) for fields in entry["packings"]]
        (target / files[0]).write_bytes(objects.hidden(entry["object"], "_mlir_"))
        told = header.text(interface, model=source.name, version=_version("onnx2torch_mlir"), target=f"{triple}, {cpu}")
        (target / files[1]).write_text(told)
        parts = weights_file.write(
            target / files[2], lowered, interface, packings, entry["derived"], entry["weights"], writing or _silently
        )
        files += [made for made in optional if _linked(target / files[0], target / made)]
        manifest = _manifest(interface, source, options, entry["messages"], parts)
        manifest["target"] = {"triple": triple, "cpu": cpu, "features": wanted, "checked": list(asked)}
        manifest["needs"] = entry["needs"]
        manifest["files"] = {made: contents(target / made) for made in files}
        (target / f"{name}.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return manifest


def _silently(_name: str, _total: int) -> AbstractContextManager[None]:
    return nullcontext()


def _manifest(
    interface: Interface, source: Source, options: Options, messages: list[str], parts: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": interface.prefix,
        "model": {"file": source.name, "sha256": source.sha256},
        "made_by": {package: _version(package) for package in ("onnx2torch_mlir", "torch-mlir")},
        "options": {"level": options.level, "disabled": sorted(options.disabled)},
        "identity": interface.identity.hex(),
        "inputs": [_described(value) for value in interface.inputs],
        "outputs": [_described(value) for value in interface.outputs],
        "assertions": messages,
        "weights": parts,
    }


def _version(package: str) -> str:
    """The version of a package; there is none where sources are run without being installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _described(value: CValue) -> Mapping[str, Any]:
    return {"name": value.name, "dtype": value.dtype, "onnx_type": value.element.number, "shape": list(value.shape)}


def _linked(code: Path, library: Path) -> bool:
    """Make a shared library of an object with this machine's C compiler; False where that is not possible."""
    compiler = shutil.which("cc")
    if compiler is None:
        return False
    command = [compiler, "-shared", "-o", str(library), str(code), f"-Wl,-soname,{library.name}", "-lm", "-pthread"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError):
        library.unlink(missing_ok=True)
        return False
    return True
