"""A converter that is wrong on purpose."""

from __future__ import annotations

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value


def relu(g: ProgramBuilder, X: Value) -> Value:
    return g.call("aten.neg.default", X)
