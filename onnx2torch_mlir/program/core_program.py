"""`CoreProgram`: a converted model, and everything that can be made of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from torch.export import ExportedProgram

from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.diagnostics import Report, refuse

if TYPE_CHECKING:
    import torch

    from onnx2torch_mlir.engine import Engine
    from onnx2torch_mlir.handoff import MlirModule
    from onnx2torch_mlir.lowering import Lowered
    from onnx2torch_mlir.model import LoadedModel
    from onnx2torch_mlir.program.eager import EagerProgram
    from onnx2torch_mlir.specs import SpecTable

Weights = Literal["inline", "args", "external"]

DIALECTS = ("torch", "linalg", "tosa", "stablehlo")


@dataclass
class CoreProgram:
    """An ONNX model as a program of core primitives.

    ``exported`` is the `torch.export.ExportedProgram`; ``inputs`` and ``outputs`` carry the ONNX names in graph order;
    ``dim_names`` maps the program's symbols to the model's dims; ``report`` holds the stages and all findings.
    """

    exported: ExportedProgram
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dim_names: Mapping[str, str]
    report: Report = field(default_factory=Report)

    @cached_property
    def lowered(self) -> Lowered:
        """The program as linalg on tensors, weights as arguments.

        Raises:
            Refusal: with everything that has no lowering.
        """
        from onnx2torch_mlir.lowering import lower

        with self.report.stage("lower"):
            return lower(
                self.exported,
                input_names=[spec.name for spec in self.inputs],
                output_names=[spec.name for spec in self.outputs],
                dim_names=self.dim_names,
            )

    def to_mlir(self, dialect: str = "torch", *, weights: Weights = "inline") -> MlirModule:
        """The program as a module of ``dialect``: torch, linalg, tosa or stablehlo.

        ``weights`` are constants of the module (``inline``), arguments of its function (``args``), or arguments whose data
        are saved beside it (``external``).

        Raises:
            Refusal: O2M-U001 for another dialect; what has no lowering or hand-off.
        """
        if dialect not in DIALECTS:
            raise refuse("O2M-U001", f"there is no dialect {dialect!r}; choose one of {', '.join(DIALECTS)}", case=dialect)
        if dialect == "linalg":
            from onnx2torch_mlir.handoff.linalg import to_linalg

            lowered = self.lowered
            with self.report.stage("emit linalg"):
                return to_linalg(lowered, weights=weights)
        from onnx2torch_mlir.handoff import to_dialect

        with self.report.stage(f"emit {dialect}"):
            return to_dialect(self.exported, dialect, weights=weights)

    def compile(self, *, threads: int = 1) -> Engine:
        """Native code for this machine's CPU.

        Raises:
            Refusal: with everything that has no lowering; what the compiler refuses.
        """
        from onnx2torch_mlir.engine import compile as compile_lowered

        lowered = self.lowered
        with self.report.stage("compile"):
            return compile_lowered(lowered, threads=threads)

    def eager(self) -> EagerProgram:
        """The program in eager PyTorch, without any MLIR."""
        from onnx2torch_mlir.program.eager import EagerProgram

        return EagerProgram(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program as a ``.pt2`` file (`torch.export.save`)."""
        from onnx2torch_mlir.handoff import save_pt2

        save_pt2(self.exported, path)

    def __str__(self) -> str:
        return str(self.exported)


def convert(
    loaded: LoadedModel,
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, torch.Tensor] | None = None,
    table: SpecTable | None = None,
    report: Report | None = None,
) -> CoreProgram:
    """The program of a loaded model; its weights are not read.

    ``dims`` pins named dims to numbers; ``constants`` gives inputs their contents; ``report`` takes the stage and the
    findings.

    Raises:
        Refusal: with every finding, if one of them is an error.
    """
    from onnx2torch_mlir.conversion import convert as convert_loaded

    report = Report() if report is None else report
    with report.stage("convert"):
        converted = convert_loaded(loaded, dims=dims, constants=constants, table=table)
    report.extend(converted.findings)
    return CoreProgram(converted.exported, converted.inputs, converted.outputs, converted.dim_names, report)
