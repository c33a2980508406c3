"""Another Mish."""

from __future__ import annotations

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value


def mish(g: ProgramBuilder, X: Value) -> Value:
    """``x tanh(ln(1 + e^x))`` by one exponential: with w = e^x (e^x + 2), it is ``x w / (w + 2)``."""
    e = g.call("aten.exp.default", g.call("aten.clamp.default", X, None, 20.0))
    w = g.mul(e, g.add(e, 2.0))
    return g.mul(X, g.div(w, g.add(w, 2.0)))
