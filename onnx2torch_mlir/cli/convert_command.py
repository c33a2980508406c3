"""``onnx2mlir MODEL``: convert, and write what was asked for."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from onnx2torch_mlir.cli.session import Session, guarded
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.handoff.arguments import FILE_SUFFIXES

if TYPE_CHECKING:
    from onnx2torch_mlir.handoff import MlirModule
    from onnx2torch_mlir.program import Program

_ELIDED = 16
"""A terminal is shown at most that many elements of a constant."""


def run(options: argparse.Namespace) -> int:
    """The command."""
    return guarded(options, _run)


def _run(session: Session) -> int:
    options = session.options
    output: str | None = options.output
    emit = options.emit or ("core" if output is not None and output.endswith(".pt2") else "torch")
    if output is None and options.weights in FILE_SUFFIXES:
        raise refuse(
            "O2M-U001", f"--weights {options.weights} needs a file to put them beside", hint="add -o FILE", case="--weights"
        )
    if output is not None and output.endswith(".pt2") and emit != "core":
        raise refuse("O2M-U001", f"a .pt2 file holds a core program, not the {emit} dialect", case="--emit")
    from onnx2torch_mlir.api import convert
    from onnx2torch_mlir.model import read

    constants = session.constants(read(options.model)) if options.constant else None
    with session.busy(f"converting {options.model}"):
        program = convert(options.model, dims=session.dims(), constants=constants, report=session.report)
        text = _emit(session, program, emit, output)
    if not session.json and output is not None:
        stages = ", ".join(f"{stage.name} {stage.seconds:.2f} s" for stage in program.report.stages)
        session.err.print(f"wrote {output} ({emit}): {stages}", markup=False)
    return session.finish({"emit": emit, "output": output, "text": text})


def _emit(session: Session, program: Program, emit: str, output: str | None) -> str | None:
    """Write the program; gives its text where that belongs into the JSON document."""
    from onnx2torch_mlir.program import CoreProgram

    if emit == "core":
        if output is not None and output.endswith(".pt2"):
            total = program.weight_bytes if isinstance(program, CoreProgram) else 0
            with session.report.stage("write"), session.writing(output, total) as progress:
                program.save(output, progress=progress)
            return None
        if isinstance(program, CoreProgram):
            program.note_border()
        return _text(session, f"{program}\n", output)
    module = program.to_mlir(emit, weights=session.options.weights)
    with session.report.stage("write"):
        if output is not None:
            with session.writing(output, module.weight_bytes) as progress:
                module.save(output, progress=progress)
            return None
        if session.json:
            return str(module)
        _to_stdout(module)
    return None


def _text(session: Session, text: str, output: str | None) -> str | None:
    from onnx2torch_mlir.handoff.atomic import replacing

    if output is not None:
        with replacing(output) as temporary:
            temporary.write_text(text)
        return None
    if session.json:
        return text
    sys.stdout.write(text)
    return None


def _to_stdout(module: MlirModule) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(module.text(elide=_ELIDED))
        return
    sys.stdout.flush()
    module.write(sys.stdout.buffer, bytecode=False)
    sys.stdout.buffer.flush()
