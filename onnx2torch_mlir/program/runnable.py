"""A loaded model to something that takes arrays and gives arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from onnx2torch_mlir.diagnostics import Report
from onnx2torch_mlir.program.converting import convert

if TYPE_CHECKING:
    import torch

    from onnx2torch_mlir.model import LoadedModel
    from onnx2torch_mlir.specs import SpecTable


class Runnable(Protocol):
    """A program that runs on arrays."""

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The outputs in order: arrays, lists of arrays for sequences, None for what is absent."""
        ...


def prepare(
    loaded: LoadedModel,
    *,
    eager: bool,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, torch.Tensor] | None = None,
    threads: int | None = None,
    table: SpecTable | None = None,
    report: Report | None = None,
) -> Runnable:
    """``loaded`` as a program in eager PyTorch, or in native code; the stages are put into ``report``.

    Raises:
        Refusal: where it does not convert, lower or compile.
    """
    if not eager:
        from onnx2torch_mlir.engine import start_compiler

        start_compiler()
    program = convert(loaded, dims=dims, constants=constants, table=table, report=report)
    return program.eager() if eager else program.compile(threads=threads)
