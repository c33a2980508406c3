"""Indices as ONNX has them (negative ones count from the end) and positions clamped to an axis."""

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

FAR = 2**31 - 1
"""Bounds from here on (INT_MAX, INT64_MAX and their negatives) mean "to the end"."""


def axis_in(axis: int, rank: int) -> int:
    """``axis`` of -rank … rank-1, counted from the front.

    Raises:
        Refusal: O2M-C005 where it is out of range.
    """
    if not -rank <= axis < rank:
        raise refuse("O2M-C005", f"axis {axis} is out of range for rank {rank}", case=f"axis={axis}")
    return axis % rank


def axes_in(axes: Sequence[int], rank: int) -> list[int]:
    """The same for several axes, each named once.

    Raises:
        Refusal: O2M-C005 where one is out of range or named twice.
    """
    result = [axis_in(int(axis), rank) for axis in axes]
    if len(set(result)) != len(result):
        raise refuse("O2M-C005", f"an axis is named twice in {list(axes)}", case=f"axes={list(axes)}")
    return result


def wrapped(g: ProgramBuilder, indices: Value, size: Dim, *, reads_from_end: bool = False) -> Value:
    """``indices`` of any integer dtype as int64 in 0 … size-1; negative ones count from ``size``.

    Those below -size stay negative, where no primitive reads but one: for what ``reads_from_end`` itself they stay below -size.
    """
    indices = g.cast(indices, torch.int64)
    known = indices.dims()
    if known is not None and all(D.is_nonnegative(item) for item in known):
        return indices
    count = g.size_value(size)
    counted = g.add(indices, count)
    is_negative = g.binary("lt", indices, 0)
    if reads_from_end:
        is_negative = g.call("aten.logical_and.default", is_negative, g.binary("ge", counted, 0))
    return g.where(is_negative, counted, indices)


def position(g: ProgramBuilder, bound: Dim, size: Dim) -> Dim:
    """A start or end of a slice, in 0 … size: negative bounds count from ``size``, then all are clamped.

    Where the sign depends on run time the result is a symbol of its own.
    """
    if isinstance(bound, int):
        if bound >= FAR:
            return size
        if bound <= -FAR:
            return 0
    if D.is_nonnegative(bound):
        return D.minimum(bound, size)
    if D.is_nonnegative(to_dim(-bound - 1)):
        return D.maximum(0, to_dim(size + bound))
    counted = sympy.Piecewise((size + bound, sympy.Lt(bound, 0)), (bound, True))
    return g.opaque_size(D.maximum(0, D.minimum(to_dim(counted), size)))


def spread(g: ProgramBuilder, numbers: Value, axes: Value, rank: int, default: int) -> Value:
    """``numbers``, one for each of the run-time ``axes``, as one for every axis; ``default`` for axes not named."""
    whole = g.full([rank], default, torch.int64)
    return g.call("aten.scatter.src", whole, 0, wrapped(g, axes, rank), g.cast(numbers, torch.int64))


def elements(g: ProgramBuilder, numbers: Value, name: str) -> list[Dim]:
    """The elements of a 1-D integer value: known, computed from sizes, or run-time numbers of either sign.

    Raises:
        Refusal: O2M-C004 where their count is only known at run time.
    """
    known = numbers.dims()
    if known is not None:
        return known
    count = numbers.shape[0] if numbers.rank else 1
    if not isinstance(count, int):
        raise refuse(
            "O2M-C004",
            f"the length of input {name} is only known at run time, so the rank of the result is not determined",
            case=name,
            hint=f"make it an initializer, or give it with --constant {name}=VALUE",
        )
    flat = g.reshape(numbers, [count])
    return [g.item(g.select(flat, 0, index), signed=True) for index in range(count)]


def along(shape: Sequence[Dim], axis: int) -> list[Dim]:
    """The shape of a 1-D value of ``shape[axis]`` elements that lies along ``axis`` and broadcasts elsewhere."""
    return [size if position == axis else 1 for position, size in enumerate(shape)]


def count_along(g: ProgramBuilder, shape: Sequence[Dim], axis: int) -> Value:
    """0, 1, 2 … along ``axis``, of size 1 along the others."""
    return g.reshape(g.arange(0, shape[axis]), along(shape, axis))
