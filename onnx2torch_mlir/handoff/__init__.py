"""Handing a core program on: the torch dialect, tosa and stablehlo, ``.pt2`` files, and weights in files."""

from __future__ import annotations

from onnx2torch_mlir.handoff.module import MlirModule
from onnx2torch_mlir.handoff.torch_dialect import to_torch

__all__ = ["MlirModule", "to_torch"]
