"""Stretch."""

from __future__ import annotations

import onnx2torch_com_example.primitives  # noqa: F401  registers the primitive
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def stretch(g: ProgramBuilder, X: Value, *, times: int) -> Value:
    """Every row ``times`` times. Source: the documentation of com.example."""
    if times < 1 or X.rank == 0:
        raise refuse("O2M-C003", "there have to be rows, and each is repeated once at least", case=f"times={times}")
    return g.call("com_example.stretch.default", X, times)
