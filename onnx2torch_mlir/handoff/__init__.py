"""Handing a core program on: the torch dialect, tosa and stablehlo, ``.pt2`` files, and weights in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx2torch_mlir.handoff.module import MlirModule
    from onnx2torch_mlir.handoff.pt2 import save_pt2
    from onnx2torch_mlir.handoff.torch_dialect import to_torch
    from onnx2torch_mlir.handoff.upstream import to_dialect

__all__ = ["MlirModule", "save_pt2", "to_dialect", "to_torch"]

_HOME = {"MlirModule": "module", "save_pt2": "pt2", "to_dialect": "upstream", "to_torch": "torch_dialect"}


def __getattr__(name: str) -> Any:
    # A worker process that runs an MLIR pipeline imports this package, and must not wait for torch.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
