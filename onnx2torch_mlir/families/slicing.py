"""Slice: starts, ends and steps that are known, computed from sizes, or only known at run time."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.indexing import FAR, axes_in, elements, position, spread


def slice_attribute(
    g: ProgramBuilder, data: Value, *, starts: list[int], ends: list[int], axes: list[int] | None = None
) -> Value:
    """Everything as attributes (opset 1 to 9). Source: ONNX Slice-1."""
    chosen = axes_in(axes if axes is not None else range(len(starts)), data.rank)
    return _sliced(g, data, chosen, starts, ends, [1] * len(starts))


def slice_(
    g: ProgramBuilder, data: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value:
    """Everything as inputs; negative steps walk backwards. Source: ONNX Slice."""
    named = None if axes is None else axes.tensor
    strides = None if steps is None else steps.tensor
    if (axes is not None and named is None) or (steps is not None and strides is None):
        return _by_position(g, data, starts, ends, axes, steps)
    first, last = elements(g, starts, "starts"), elements(g, ends, "ends")
    chosen = axes_in(range(len(first)) if named is None else named.reshape(-1).tolist(), data.rank)
    step = [1] * len(first) if strides is None else [int(item) for item in strides.reshape(-1).tolist()]
    return _sliced(g, data, chosen, first, last, step)


def _sliced(
    g: ProgramBuilder,
    data: Value,
    axes: Sequence[int],
    starts: Sequence[Dim],
    ends: Sequence[Dim],
    steps: Sequence[int],
) -> Value:
    if not len(axes) == len(starts) == len(ends) == len(steps):
        raise refuse("O2M-C005", "starts, ends, axes and steps of a Slice have different lengths")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = data.shape[axis]
        if step == 0:
            raise refuse("O2M-C005", "a step of a Slice is 0", case="steps")
        if step < 0:
            data = g.call("aten.flip.default", data, [axis])
            last = D.maximum(0, to_dim(size - 1))
            start, end = _mirrored(g, start, size, last), _mirrored(g, end, size, size)
        else:
            start, end = position(g, start, size), position(g, end, size)
        if not D.is_nonnegative(D.difference(end, start)):
            end = D.maximum(start, end)
        data = g.slice(data, axis, start, end, abs(step))
    return data


def _mirrored(g: ProgramBuilder, bound: Dim, size: Dim, limit: Dim) -> Dim:
    """``bound`` of a backward slice as a position in the reversed axis: size-1-bound, clamped to 0 … ``limit``."""
    if isinstance(bound, int):
        if bound >= FAR:
            return 0
        if bound <= -FAR:
            return limit
    if D.is_nonnegative(bound):
        return D.maximum(0, to_dim(size - 1 - bound))
    if D.is_nonnegative(to_dim(-bound - 1)):
        return D.minimum(limit, to_dim(-1 - bound))
    mirrored = sympy.Piecewise((-1 - bound, sympy.Lt(bound, 0)), (size - 1 - bound, True))
    return g.opaque_size(D.maximum(0, D.minimum(to_dim(mirrored), limit)))


def _by_position(
    g: ProgramBuilder, data: Value, starts: Value, ends: Value, axes: Value | None, steps: Value | None
) -> Value:
    """Axes or steps are only known at run time: every axis is indexed by the positions it keeps."""
    count = starts.shape[0]
    if axes is None and isinstance(count, int):
        axes = g.arange(0, count)
    if axes is None or not isinstance(axes.shape[0], int):
        raise refuse("O2M-C004", "the number of sliced axes is only known at run time", case="axes")
    named = axes.tensor
    full_starts, full_steps, full_ends, given = (
        spread(g, numbers, axes, data.rank, default)
        for numbers, default in (
            (starts, 0),
            (steps if steps is not None else g.full([axes.shape[0]], 1, torch.int64), 1),
            (ends, 0),
            (g.full([axes.shape[0]], 1, torch.int64), 0),
        )
    )
    for axis in range(data.rank) if named is None else axes_in(named.reshape(-1).tolist(), data.rank):
        size = g.size_value(data.shape[axis])
        start, step, end, sliced = (g.select(item, 0, axis) for item in (full_starts, full_steps, full_ends, given))
        end = g.where(g.binary("eq", sliced, 1), end, size)
        backward = g.binary("lt", step, 0)
        low = g.where(backward, -1, g.scalar(0, torch.int64))
        high = g.where(backward, g.sub(size, 1), size)
        start, end = (g.where(g.binary("lt", item, 0), g.add(item, size), item) for item in (start, end))
        start = g.minimum(g.maximum(start, 0), high)
        end = g.minimum(g.maximum(end, low), high)
        length = g.maximum(g.unary("neg", g.floor_div(g.sub(start, end), step)), 0)
        steps_taken = g.arange(0, g.item(length))
        index = g.add(g.mul(steps_taken, step), start)
        data = g.call("aten.index_select.default", data, axis, index)
    return data
