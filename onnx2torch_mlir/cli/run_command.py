"""``onnx2mlir run MODEL``: its outputs for given or generated inputs."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx2torch_mlir.cli import profile_report
from onnx2torch_mlir.cli.session import Array, Session, guarded
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine import start_compiler


def run(options: argparse.Namespace) -> int:
    """The command."""
    return guarded(options, _run)


def _run(session: Session) -> int:
    options = session.options
    if options.output is not None and not options.output.endswith(".npz"):
        raise refuse("O2M-U001", "outputs are written as .npz", case=options.output)
    profile_report.refuse_unusable(options)
    if not options.eager:
        start_compiler()
    from onnx2torch_mlir.conversion import as_tensors
    from onnx2torch_mlir.engine.profiling import Profile
    from onnx2torch_mlir.program import prepare
    from onnx2torch_mlir.verification import generate_inputs, leaves, load_inputs, read_for, statistics

    with session.busy(f"running {options.model}"):
        with session.report.stage("read"):
            loaded = read_for(options.model, options.inputs)
        constants = session.constants(loaded)
        dims = session.dims()
        if options.inputs is not None:
            feeds = load_inputs(loaded, options.inputs)
        else:
            feeds = generate_inputs(loaded, dims, seed=options.seed)
        profile = Profile()
        with profile if options.profile else contextlib.nullcontext():
            program = prepare(
                loaded,
                eager=options.eager,
                dims=dims if options.inputs is not None else None,
                constants=as_tensors(constants),
                threads=options.threads,
                report=session.report,
            )
        given = {name: array for name, array in feeds.items() if name not in constants}
        with session.report.stage("run"):
            start = time.perf_counter()
            outputs = program.run(given)
            seconds = time.perf_counter() - start
        measured = profile_report.measure(program, given, profile, loaded, options.repeat) if options.profile else None
    named: dict[str, Array] = {}
    for value, output in zip(loaded.outputs, outputs, strict=True):
        named |= leaves(value.name, output)
    if options.output is not None:
        save(options.output, named)
    if measured is not None and options.trace is not None:
        profile_report.write_trace(options.trace, profile, measured)
    described = {name: str(statistics(array)) for name, array in named.items()}
    if not session.json:
        for name, text in described.items():
            session.out.print(f"{name}: {text}", markup=False)
        written = f"; wrote {options.output}" if options.output is not None else ""
        if measured is not None:
            profile_report.print_table(session.out, measured)
        session.err.print(f"ran in {seconds * 1e3:.2f} ms{written}", markup=False)
    told = {} if measured is None else {"profile": measured.as_dict()}
    return session.finish({"outputs": described, "output": options.output, "seconds": seconds, **told})


def save(path: str, arrays: Mapping[str, Array]) -> None:
    """Write ``arrays`` to an .npz; types that NumPy does not know (bfloat16, float8) are widened to float32.

    Strings are written as NumPy's Unicode.

    Raises:
        Refusal: O2M-U004 where it cannot be written.
    """
    from onnx2torch_mlir.handoff.atomic import replacing

    storable: dict[str, Any] = {name: _storable(array) for name, array in arrays.items()}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **storable)


def _storable(array: Array) -> Array:
    if array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1:
        return array
    return array.astype(np.str_ if array.dtype.kind in "OSU" else np.float32)
