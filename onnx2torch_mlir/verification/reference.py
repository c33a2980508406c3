"""The reference's results: onnxruntime on the CPU, or ONNX's reference evaluator where onnxruntime has no kernel."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.hosting import EvaluatorSession, OnnxruntimeSession

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ReferenceRun:
    """Results in the order of the outputs; ``name`` says what computed them, ``note`` why it is not onnxruntime."""

    outputs: list[Any]
    name: str
    note: str = ""


def run_reference(
    source: str | os.PathLike[str] | onnx.ModelProto, feeds: Mapping[str, Array], *, base_dir: Path | None = None
) -> ReferenceRun:
    """Run a model on ``feeds``. ``base_dir`` is where the external data of a ModelProto are.

    Raises:
        Refusal: O2M-V002 where neither onnxruntime nor the reference evaluator can run it.
    """
    try:
        session = OnnxruntimeSession(source, base_dir)
        return ReferenceRun(session.run(feeds), session.name)
    except Exception as error:
        why = _first_line(error)
    try:
        evaluator = EvaluatorSession(source, base_dir)
        return ReferenceRun(evaluator.run(feeds), evaluator.name, f"onnxruntime: {why}")
    except Exception as error:
        reason = f"onnxruntime: {why}; onnx.reference: {_first_line(error)}"
        hint = "if the generated inputs do not fit, give inputs with --inputs, or sizes with --dim NAME=N"
        raise refuse("O2M-V002", reason, hint=hint) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
