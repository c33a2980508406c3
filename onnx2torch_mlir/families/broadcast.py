"""Axes of which only the run may tell whether they have to be broadcast."""

from __future__ import annotations

import sympy

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import known_equal, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value


def spread(g: ProgramBuilder, x: Value, axis: int, size: Dim) -> Value:
    """``x`` with its ``axis``, of ``size`` or of 1, which only the run may tell, of ``size``.

    An axis that is known to be 1 stays so: operations that broadcast need no more.
    """
    axis %= x.rank
    own = x.shape[axis]
    if own == 1 or known_equal(own, size):
        return x
    g.require(sympy.Or(sympy.Eq(own, 1), sympy.Eq(own, size)), f"an axis of size {own} must be of size {size}, or 1")
    index = g.minimum(g.arange(0, size), g.size_value(to_dim(own - 1)))
    result: Value = g.call("aten.index_select.default", x, axis, index)
    return result
