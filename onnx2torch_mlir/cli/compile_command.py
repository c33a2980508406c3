"""``onnx2mlir compile MODEL -o DIR``: native code that a C program uses without Python."""

from __future__ import annotations

import argparse
from pathlib import Path

from onnx2torch_mlir.cli.session import Session, guarded
from onnx2torch_mlir.engine import start_compiler


def run(options: argparse.Namespace) -> int:
    """The command."""
    return guarded(options, _run)


def _run(session: Session) -> int:
    options = session.options
    start_compiler()
    from onnx2torch_mlir.api import convert
    from onnx2torch_mlir.engine.ahead_of_time.describing import c_name
    from onnx2torch_mlir.engine.ahead_of_time.folder import contents
    from onnx2torch_mlir.engine.ahead_of_time.writing import Source
    from onnx2torch_mlir.model import read

    path, folder = Path(options.model), Path(options.output)
    name = options.name or c_name(path.stem)
    constants = session.constants(read(options.model)) if options.constant else None
    with session.busy(f"converting {options.model}"):
        program = convert(options.model, dims=session.dims(), constants=constants, report=session.report)
        source = Source(path.name, contents(path)["sha256"])
    with session.busy(f"compiling {options.model}"):
        manifest = program.save_native(folder, name=name, source=source, force=options.force, writing=session.writing)
    if not session.json:
        stages = ", ".join(f"{stage.name} {stage.seconds:.2f} s" for stage in session.report.stages)
        session.err.print(f"wrote {_listed(folder, manifest['files'])}, {name}.json: {stages}", markup=False)
    return session.finish({"output": str(folder), "manifest": manifest})


def _listed(folder: Path, files: dict[str, dict[str, int]]) -> str:
    """Files and their sizes."""
    told = [f"{name} ({_size(said['bytes'])})" for name, said in files.items()]
    return f"{folder}: {', '.join(told)}"


def _size(count: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
