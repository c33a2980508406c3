"""Reductions: of every kind, over some or all axes, of floats and integers; and positions of extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.parameters import KnownInts
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import wide
from onnx2torch_mlir.families.dtypes import highest, lowest

Reduce = Callable[[ProgramBuilder, Value, list[int], bool], Value]


def normalized_axes(axes: Sequence[int], rank: int) -> list[int]:
    """``axes`` counted from the front, in order.

    Raises:
        Refusal: O2M-C005 where one is out of range or given twice.
    """
    result = []
    for axis in axes:
        if not -rank <= axis < rank:
            raise refuse("O2M-C005", f"axis {axis} is out of range for rank {rank}", case="axes")
        result.append(axis % rank)
    if len(set(result)) != len(result):
        raise refuse("O2M-C005", f"axes {list(axes)} name an axis twice", case="axes")
    return sorted(result)


def total(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    """Sum in the operand's dtype; integers wrap."""
    if x.dtype in wide.WIDE_UNSIGNED:
        return g.cast(g.sum(g.cast(x, torch.int64), axes, keepdim), x.dtype)
    return g.sum(x, axes, keepdim)


def count(axes: Sequence[int], x: Value) -> Dim:
    """How many elements are reduced to one."""
    return D.product(x.shape[axis] for axis in axes)


def _mean(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    if x.dtype.is_floating_point or not axes:
        return g.mean(x, axes, keepdim)
    summed = g.sum(g.cast(x, torch.int64), axes, keepdim)
    number = g.size_value(count(axes, x), torch.int64)
    return g.cast(g.binary("div", summed, number, rounding_mode="trunc"), x.dtype)


def _product(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    dtype = x.dtype
    x = wide.widen(g, x)
    for axis in reversed(axes):
        x = g.call("aten.prod.dim_int", x, axis, keepdim, dtype=x.dtype)
    return g.cast(x, dtype)


def _extremum(largest: bool) -> Reduce:
    def reduce(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
        if not axes:
            return x
        if any(x.shape[axis] == 0 for axis in axes):
            return _filled(g, x, axes, keepdim, lowest(x.dtype) if largest else highest(x.dtype))
        function = g.amax if largest else g.amin
        return wide.in_int64(g, lambda v: function(v, axes, keepdim), x, ordered=True)

    return reduce


def _filled(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool, number: float | int) -> Value:
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdim or axis not in axes]
    return g.full(sizes, number, x.dtype)


def _squares(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    return total(g, wide.in_int64(g, lambda v: g.mul(v, v), x), axes, keepdim)


def _absolute(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    return total(g, x if x.dtype in wide.WIDE_UNSIGNED else g.unary("abs", x), axes, keepdim)


def _root_of_squares(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    return g.unary("sqrt", _squares(g, x, axes, keepdim))


def _log_sum(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    return g.unary("log", total(g, x, axes, keepdim))


def _log_sum_exp(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    if not axes:
        return x
    if any(x.shape[axis] == 0 for axis in axes):
        return _filled(g, x, axes, keepdim, lowest(x.dtype))
    peak = g.amax(x, axes, True)
    infinite = g.unary("isinf", peak)
    peak = g.where(infinite, 0.0, peak)
    summed = g.unary("log", g.sum(g.unary("exp", g.sub(x, peak)), axes, True))
    result = g.add(summed, peak)
    return result if keepdim else g.squeeze(result, axes)


_KINDS: dict[str, Reduce] = {
    "sum": total,
    "mean": _mean,
    "max": _extremum(True),
    "min": _extremum(False),
    "prod": _product,
    "l1": _absolute,
    "l2": _root_of_squares,
    "sum_square": _squares,
    "log_sum": _log_sum,
    "log_sum_exp": _log_sum_exp,
}
_IN_FLOATS = frozenset({"l2", "log_sum", "log_sum_exp"})
_IN_FLOAT32 = frozenset({"l1", "l2", "log_sum", "log_sum_exp", "sum_square", "prod"})
"""Kinds that take several steps, between which a narrow float would round."""


def reduce_axes(g: ProgramBuilder, data: Value, axes: list[int], keepdim: bool, kind: str) -> Value:
    """``data`` reduced over ``axes`` (normalized; none is the identity followed by the kind's pointwise part)."""
    compute = data.dtype
    if data.dtype.is_floating_point:
        compute = torch.float32 if kind in _IN_FLOAT32 and data.dtype.itemsize < 4 else compute
    elif kind in _IN_FLOATS:
        compute = torch.float64
    return g.cast(_KINDS[kind](g, g.cast(data, compute), axes, keepdim), data.dtype)


def reduce(
    g: ProgramBuilder,
    data: Value,
    axes: KnownInts | None = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    kind: str,
) -> Value:
    """Reduction of ``kind``; no axes are all axes, unless ``noop_with_empty_axes``.

    Source: https://onnx.ai/onnx/operators/onnx__ReduceSum.html and its siblings.

    Raises:
        Refusal: O2M-C004 where the axes are only known at run time, O2M-C005 where they are out of range.
    """
    chosen = normalized_axes(axes or [], data.rank)
    if not chosen and not noop_with_empty_axes:
        chosen = list(range(data.rank))
    return reduce_axes(g, data, chosen, bool(keepdims), kind)


def reduce_attribute(
    g: ProgramBuilder, data: Value, *, axes: list[int] | None = None, keepdims: int = 1, kind: str
) -> Value:
    """`reduce` with the axes as an attribute."""
    return reduce(g, data, axes, keepdims=keepdims, kind=kind)


def arg(
    g: ProgramBuilder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0, kind: str
) -> Value:
    """Position of the first (or last) extremum along ``axis``, int64.

    Raises:
        Refusal: O2M-C003 where the axis is known to be empty.
    """
    (position,) = normalized_axes([axis], max(data.rank, 1))
    if data.rank == 0:
        return g.full([], 0, torch.int64)
    size = data.shape[position]
    if size == 0:
        raise refuse("O2M-C003", f"axis {axis} is empty, an extremum has no position", case="axis")
    x = wide.widen(g, data, ordered=True)
    if select_last_index:
        x = g.call("aten.flip.default", x, [position])
    found = g.call(f"aten.arg{kind}.default", x, position, bool(keepdims))
    if not select_last_index:
        return found
    return g.sub(g.size_value(D.to_dim(size - 1)), found)
