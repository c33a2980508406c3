"""Reductions: of every kind, over some or all axes, of floats and integers; and positions of extrema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import wide
from onnx2torch_mlir.families.dtypes import highest, lowest

Reduce = Callable[[ProgramBuilder, Value, list[int], bool], Value]
Pointwise = Callable[[ProgramBuilder, Value], Value]


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
    if x.dtype.is_floating_point:
        return g.mean(x, axes, keepdim)
    summed = g.sum(g.cast(x, torch.int64), axes, keepdim)
    return g.cast(quotient(g, summed, g.size_value(count(axes, x))), x.dtype)


def quotient(g: ProgramBuilder, total: Value, number: Value) -> Value:
    """``total`` by ``number`` (int64) elements; integers are truncated, as in onnxruntime."""
    if total.dtype.is_floating_point:
        return g.div(total, g.cast(number, total.dtype))
    wide_total = g.cast(total, torch.int64)
    return g.cast(g.binary("div", wide_total, number, rounding_mode="trunc"), total.dtype)


def _product(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    dtype = x.dtype
    x = wide.widen(g, x)
    for axis in reversed(axes):
        x = g.call("aten.prod.dim_int", x, axis, keepdim, dtype=x.dtype)
    return g.cast(x, dtype)


def _extremum(largest: bool) -> Reduce:
    def reduce(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
        if any(x.shape[axis] == 0 for axis in axes):
            return _filled(g, x, axes, keepdim, lowest(x.dtype) if largest else highest(x.dtype))
        function = g.amax if largest else g.amin
        return wide.in_int64(g, lambda v: function(v, axes, keepdim), x, ordered=True)

    return reduce


def _filled(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool, number: float | int) -> Value:
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdim or axis not in axes]
    return g.full(sizes, number, x.dtype)


def _log_sum_exp(g: ProgramBuilder, x: Value, axes: list[int], keepdim: bool) -> Value:
    if any(x.shape[axis] == 0 for axis in axes):
        return _filled(g, x, axes, keepdim, lowest(x.dtype))
    peak = g.amax(x, axes, True)
    peak = g.where(g.unary("isinf", peak), 0.0, peak)
    summed = g.unary("log", g.sum(g.unary("exp", g.sub(x, peak)), axes, True))
    result = g.add(summed, peak)
    return result if keepdim else g.squeeze(result, axes)


def _square(g: ProgramBuilder, x: Value) -> Value:
    return wide.in_int64(g, lambda v: g.mul(v, v), x)


def _absolute(g: ProgramBuilder, x: Value) -> Value:
    return x if x.dtype in wide.WIDE_UNSIGNED else g.unary("abs", x)


def _same(g: ProgramBuilder, x: Value) -> Value:
    return x


@dataclass(frozen=True)
class Kind:
    """A reduction: ``combine`` between two pointwise steps; ``combine`` along one axis after another gives the same."""

    combine: Reduce
    before: Pointwise = _same
    after: Pointwise = _same
    in_floats: bool = False
    """Whether integers are computed in float64 and truncated."""


KINDS: dict[str, Kind] = {
    "sum": Kind(total),
    "mean": Kind(_mean),
    "max": Kind(_extremum(True)),
    "min": Kind(_extremum(False)),
    "prod": Kind(_product),
    "l1": Kind(total, _absolute),
    "l2": Kind(total, _square, lambda g, x: g.unary("sqrt", x), in_floats=True),
    "sum_square": Kind(total, _square),
    "log_sum": Kind(total, _same, lambda g, x: g.unary("log", x), in_floats=True),
    "log_sum_exp": Kind(_log_sum_exp, in_floats=True),
}
_SINGLE_STEP = frozenset({"sum", "mean", "max", "min"})
"""Kinds that PyTorch rounds once; the steps of the others would each round a narrow float."""


def steps_dtype(dtype: torch.dtype, kind: str) -> torch.dtype:
    """The dtype that a reduction of ``kind`` is computed in."""
    if dtype.is_floating_point:
        return torch.float32 if kind not in _SINGLE_STEP and dtype.itemsize < 4 else dtype
    return torch.float64 if KINDS[kind].in_floats else dtype


def reduce_axes(g: ProgramBuilder, data: Value, axes: list[int], keepdim: bool, kind: str) -> Value:
    """``data`` reduced over ``axes`` (normalized; none leaves the kind's pointwise steps)."""
    steps = KINDS[kind]
    x = steps.before(g, g.cast(data, steps_dtype(data.dtype, kind)))
    return g.cast(steps.after(g, steps.combine(g, x, axes, keepdim) if axes else x), data.dtype)


def reduce(
    g: ProgramBuilder,
    data: Value,
    axes: Value | None = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    kind: str,
) -> Value:
    """Reduction of ``kind``; no axes are all axes, unless ``noop_with_empty_axes``.

    Source: https://onnx.ai/onnx/operators/onnx__ReduceSum.html and its siblings.

    Raises:
        Refusal: O2M-C005 where axes are out of range, O2M-C004 where not even the result's rank is known.
    """
    known: Sequence[Dim] | None = [] if axes is None or axes.shape == (0,) else axes.dims()
    if known is None or not all(isinstance(axis, int) for axis in known):
        from onnx2torch_mlir.families.run_time_axes import reduce_run_time

        assert axes is not None
        return reduce_run_time(g, data, axes, bool(keepdims), bool(noop_with_empty_axes), kind)
    return _reduce_known(g, data, [int(axis) for axis in known], keepdims, noop_with_empty_axes, kind)


def _reduce_known(g: ProgramBuilder, data: Value, axes: list[int], keepdims: int, noop: int, kind: str) -> Value:
    chosen = normalized_axes(axes, data.rank)
    if not chosen and not noop:
        chosen = list(range(data.rank))
    return reduce_axes(g, data, chosen, bool(keepdims), kind)


def reduce_attribute(
    g: ProgramBuilder, data: Value, *, axes: list[int] | None = None, keepdims: int = 1, kind: str
) -> Value:
    """`reduce` with the axes as an attribute."""
    return _reduce_known(g, data, axes or [], keepdims, 0, kind)


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
    found: Value = g.call(f"aten.arg{kind}.default", x, position, bool(keepdims))
    if not select_last_index:
        return found
    return g.sub(g.size_value(D.to_dim(size - 1)), found)
