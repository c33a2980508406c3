"""The public functions: convert, compile, check, verify."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx2torch_mlir.diagnostics import Finding, Refusal, Report

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    from onnx2torch_mlir.engine import Engine
    from onnx2torch_mlir.program import Program, SplitEngine
    from onnx2torch_mlir.program.packing import PackedProgram
    from onnx2torch_mlir.verification import VerifyReport

    Source = str | os.PathLike[str] | bytes | onnx.ModelProto | onnx_ir.Model

Array = np.ndarray[Any, Any]


def convert(
    model: Source,
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    overridable: Collection[str] = (),
    report: Report | None = None,
) -> Program:
    """Convert an ONNX model (a path, bytes, ModelProto or onnx_ir.Model) to a core program; its weights are not read.

    A model with strings, maps or image files becomes a `SplitProgram`: native parts, and steps on the host between them.

    ``dims`` pins named dims to numbers; ``constants`` gives inputs their contents. Initializers that the model lists as
    inputs too are constants, but for those in ``overridable``: they are inputs that a call by name may leave out.
    ``report`` takes the stages, also those before a refusal.

    Raises:
        Refusal: with every finding, if one of them is an error.
    """
    from onnx2torch_mlir.conversion import as_tensors
    from onnx2torch_mlir.model import overridden, read
    from onnx2torch_mlir.program import convert as convert_loaded

    report = Report() if report is None else report
    with report.stage("read"):
        loaded, defaults = overridden(model, overridable) if overridable else (read(model), {})
    program = convert_loaded(loaded, dims=dims, constants=as_tensors(constants or {}), report=report)
    program.defaults = defaults
    return program


def check(
    model: Source, *, dims: Mapping[str, int] | None = None, constants: Mapping[str, Array] | None = None
) -> list[Finding]:
    """Every reason why the model would not convert, and every warning; empty where there is none."""
    from onnx2torch_mlir.conversion import as_tensors
    from onnx2torch_mlir.model import read
    from onnx2torch_mlir.program import check as check_loaded

    try:
        return check_loaded(read(model), dims=dims, constants=as_tensors(constants or {}))
    except Refusal as refusal:
        return list(refusal.findings)


def compile(
    model: Source | Program,
    *,
    threads: int | None = None,
    dims: Mapping[str, int] | None = None,
    overridable: Collection[str] = (),
) -> Engine | PackedProgram | SplitEngine:
    """Native code for a model or a core program, for this machine's CPU.

    It takes and gives arrays; for a model with sequences or optionals also lists of arrays, and None for what is absent.
    ``dims`` and ``overridable`` are as in `convert`.

    Raises:
        Refusal: what `convert` raises; what has no lowering; what the compiler refuses.
    """
    from onnx2torch_mlir.engine import start_compiler

    # Before PyTorch is loaded, which takes longer than many a program is compiled.
    start_compiler()
    from onnx2torch_mlir.program import CoreProgram, SplitProgram

    program = model if isinstance(model, CoreProgram | SplitProgram) else convert(model, dims=dims, overridable=overridable)
    return program.compile(threads=threads)


def verify(model: Source, inputs: Mapping[str, Array] | None = None, **options: Any) -> VerifyReport:
    """Compare the compiled model with onnxruntime, on ``inputs`` or on generated ones; see `verification.verify`."""
    from onnx2torch_mlir.verification import verify as verify_model

    return verify_model(model, inputs, **options)
