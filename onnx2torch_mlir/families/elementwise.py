"""Pointwise operators: one primitive, NumPy broadcasting, and the axis rule of opsets before 7."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import wide
from onnx2torch_mlir.families.dtypes import is_integer

_ON_FLOATS_ONLY = frozenset({"aten.erf.default"})
_UNCHANGED_UNSIGNED = frozenset({"aten.abs.default", "aten.relu.default"})


def identity(g: ProgramBuilder, x: Any) -> Any:
    """The input itself, a tensor or any other value."""
    return x


def unary(g: ProgramBuilder, x: Value, *, core: str) -> Value:
    """One operand, one primitive."""
    if x.dtype in wide.WIDE_UNSIGNED and core in _UNCHANGED_UNSIGNED:
        return x
    if core in _ON_FLOATS_ONLY and is_integer(x.dtype):
        # In float, as ONNX's reference: from 4 on the function is 1 there, and a little less in double.
        return g.cast(g.call(core, g.cast(x, torch.float32)), x.dtype)
    if x.dtype is torch.uint64 and core == "aten.sign.default":
        return g.cast(g.binary("ne", x, 0), x.dtype)
    return wide.call(g, core, x)


def binary(g: ProgramBuilder, a: Value, b: Value, *, core: str) -> Value:
    """Two operands broadcast as in NumPy."""
    return wide.call(g, core, a, b)


comparison = binary


def aligned(g: ProgramBuilder, a: Value, b: Value, broadcast: int, axis: int | None) -> Value:
    """``b`` shaped so that NumPy's broadcasting against ``a`` is that of opsets before 7.

    ``b``'s axes line up with ``a``'s from ``axis`` on, or with the last ones. Without ``broadcast`` the shapes must be
    equal. Source: https://github.com/onnx/onnx/blob/main/docs/Broadcasting.md and the Add-6 operator page.

    Raises:
        Refusal: O2M-C006 where the shapes do not allow it.
    """
    if not broadcast:
        if a.rank != b.rank:
            raise refuse("O2M-C006", f"operands of ranks {a.rank} and {b.rank} without broadcast=1", case="broadcast")
        for left, right in zip(a.shape, b.shape, strict=True):
            g.require_equal(left, right, "sizes of operands without broadcast=1")
        return b
    if b.rank > a.rank:
        raise refuse("O2M-C006", f"an operand of rank {b.rank} is broadcast to rank {a.rank}", case="broadcast")
    if axis is None or b.rank == 0:
        return b
    trailing = a.rank - (axis + a.rank if axis < 0 else axis) - b.rank
    if trailing < 0:
        raise refuse("O2M-C006", f"axis {axis} leaves too few axes for an operand of rank {b.rank}", case="axis")
    return g.reshape(b, [*b.shape, *[1] * trailing])


def binary_legacy(
    g: ProgramBuilder, a: Value, b: Value, *, core: str, broadcast: int = 0, axis: int | None = None
) -> Value:
    """Two operands before opset 7; see `aligned`."""
    return binary(g, a, aligned(g, a, b, broadcast, axis), core=core)


def variadic(g: ProgramBuilder, *inputs: Value, core: str) -> Value:
    """Folded from the left, broadcasting."""
    return wide.in_int64(
        g, lambda *items: reduce(lambda a, b: g.call(core, a, b), items), *inputs, ordered=core in wide.ORDERED
    )
