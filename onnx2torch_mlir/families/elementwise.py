"""Pointwise operators: one primitive, NumPy broadcasting, and the axis rule of opsets before 7."""

from __future__ import annotations

from functools import reduce

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value


def unary(g: ProgramBuilder, x: Value, *, core: str) -> Value:
    """One operand, one primitive."""
    return g.call(core, x)


def binary(g: ProgramBuilder, a: Value, b: Value, *, core: str) -> Value:
    """Two operands broadcast as in NumPy."""
    return g.call(core, a, b)


def binary_legacy(
    g: ProgramBuilder, a: Value, b: Value, *, core: str, broadcast: int = 0, axis: int | None = None
) -> Value:
    """Before opset 7: ``b``'s axes line up with ``a``'s from ``axis`` on, or with the last ones.

    Source: https://github.com/onnx/onnx/blob/main/docs/Broadcasting.md and the Add-6 operator page.
    """
    if broadcast and axis is not None and b.rank:
        trailing = a.rank - (axis % max(a.rank, 1)) - b.rank
        b = g.reshape(b, [*b.shape, *[1] * max(trailing, 0)])
    return g.call(core, a, b)


def variadic(g: ProgramBuilder, *inputs: Value, core: str) -> Value:
    """Folded from the left, broadcasting."""
    return reduce(lambda a, b: g.call(core, a, b), inputs)
