"""Our side of a comparison: a loaded model to a program that takes arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import torch

from onnx2torch_mlir.conversion import Converted, convert
from onnx2torch_mlir.diagnostics import Report
from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.model import LoadedModel
from onnx2torch_mlir.specs import SpecTable
from onnx2torch_mlir.verification.eager import EagerProgram


class Runnable(Protocol):
    """A program that runs on arrays."""

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
        """The outputs in order."""
        ...


def prepare(
    loaded: LoadedModel,
    *,
    eager: bool,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, torch.Tensor] | None = None,
    threads: int = 1,
    table: SpecTable | None = None,
    report: Report | None = None,
) -> Runnable:
    """``loaded`` as a program in eager PyTorch, or in native code; the stages are put into ``report``.

    Raises:
        Refusal: where it does not convert, lower or compile.
    """
    with report.stage("convert") if report is not None else nullcontext():
        converted = convert(loaded, dims=dims, constants=constants, table=table)
    if report is not None:
        report.extend(converted.findings)
    return EagerProgram(converted) if eager else native(converted, threads, report)


def native(converted: Converted, threads: int = 1, report: Report | None = None) -> Runnable:
    """The core program in native code."""
    from onnx2torch_mlir.engine import compile as compile_lowered
    from onnx2torch_mlir.lowering import lower

    with report.stage("lower") if report is not None else nullcontext():
        lowered = lower(
            converted.exported,
            input_names=[spec.name for spec in converted.inputs],
            output_names=[spec.name for spec in converted.outputs],
            dim_names=converted.dim_names,
        )
    with report.stage("compile") if report is not None else nullcontext():
        return compile_lowered(lowered, threads=threads)
