"""A converter that is wrong on purpose."""

from __future__ import annotations

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value


def relu(g: ProgramBuilder, X: Value) -> Value:
    return g.call("aten.neg.default", X)


def capped(g: ProgramBuilder, X: Value) -> Value:
    """Right up to 10."""
    return g.call("aten.clamp.default", X, 0, 10)


def drifting(g: ProgramBuilder, X: Value) -> Value:
    """The operand, and a little more."""
    return g.mul(X, 1.0005)


def impossible(g: ProgramBuilder, X: Value) -> Value:
    """Fails in every call but those with 7 rows."""
    g.require_equal(X.shape[0], 7, "rows")
    return X
