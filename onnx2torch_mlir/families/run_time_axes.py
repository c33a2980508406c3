"""Reductions over axes that are only known when the program runs: all sizes of the result are data-dependent."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.reduction import KINDS, quotient, steps_dtype


def reduce_run_time(g: ProgramBuilder, data: Value, axes: Value, keepdims: bool, noop: bool, kind: str) -> Value:
    """``data`` reduced over the axes listed in ``axes`` (1-D integers).

    Every axis is reduced and its result put behind it; a slice then takes the axis or its result.

    Raises:
        Refusal: O2M-C004 where the number of axes decides the rank of the result and is not known either.
    """
    if axes.rank != 1:
        raise refuse("O2M-C005", f"input axes has rank {axes.rank}, not 1", case="axes")
    if not keepdims and not isinstance(axes.shape[0], int):
        raise refuse(
            "O2M-C004",
            "the number of axes is only known at run time, so the rank of the result is not determined",
            case="axes",
            hint="make the input an initializer, or give it with --constant axes=VALUE",
        )
    chosen = [g.select(mask_of(g, axes, data.rank, noop), 0, axis) for axis in range(data.rank)]
    steps = KINDS[kind]
    x = steps.before(g, g.cast(data, steps_dtype(data.dtype, kind)))
    combine = KINDS["sum"].combine if kind == "mean" else steps.combine
    for axis, flag in enumerate(chosen):
        x = _where_chosen(g, x, combine(g, x, [axis], True), axis, flag)
    if kind == "mean":
        number = g.known(torch.tensor(1))
        for axis, flag in enumerate(chosen):
            number = g.mul(number, g.where(flag, g.size_value(data.shape[axis]), 1))
        x = quotient(g, x, number)
    result = g.cast(steps.after(g, x), data.dtype)
    return result if keepdims else _without(g, result, chosen, data.rank - int(axes.shape[0]))


def mask_of(g: ProgramBuilder, axes: Value, rank: int, noop: bool) -> Value:
    """Which of ``rank`` axes are listed in ``axes``: bools [rank]; none listed means all, unless ``noop``."""
    listed = g.binary("remainder", g.cast(axes, torch.int64), max(rank, 1))
    equal = g.binary("eq", g.unsqueeze(listed, 1), g.unsqueeze(g.arange(0, rank), 0))
    mask: Value = g.call("aten.any.dims", equal, [0], False)
    if noop or isinstance(axes.shape[0], int):
        return mask
    nothing = g.binary("eq", g.size_value(axes.shape[0]), 0)
    all_or_listed: Value = g.call("aten.logical_or.default", mask, nothing)
    return all_or_listed


def _where_chosen(g: ProgramBuilder, x: Value, reduced: Value, axis: int, flag: Value) -> Value:
    size = x.shape[axis]
    start = g.item(g.where(flag, g.size_value(size), 0))
    length = g.item(g.where(flag, 1, g.size_value(size)))
    return g.slice(g.cat([x, reduced], axis), axis, start, D.to_dim(start + length))


def _without(g: ProgramBuilder, x: Value, chosen: list[Value], rank: int) -> Value:
    """``x`` without its ``chosen`` axes, whose size is 1."""
    if rank < 0:
        raise refuse("O2M-C005", "more axes are given than there are", case="axes")
    flags = g.cat([g.reshape(g.cast(flag, torch.int64), [1]) for flag in chosen], 0)
    order = g.call("aten.sort.stable", flags, stable=True)[1]
    sizes = g.call("aten.index_select.default", g.sizes(x.shape), 0, order)
    kept: list[Dim] = [g.item(g.select(sizes, 0, position)) for position in range(rank)]
    return g.reshape(x, kept)
