"""Concat, Split, Expand, Tile: sizes that add up, come apart or repeat."""

from __future__ import annotations

from typing import Annotated

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Need, Sizes
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.indexing import axis_in


def concat(g: ProgramBuilder, *inputs: Value, axis: int = 1) -> Value:
    """``inputs`` one after the other. Source: ONNX Concat (the axis has a default of 1 in version 1 only)."""
    return g.cat(inputs, axis_in(axis, inputs[0].rank))


def split_legacy(
    g: ProgramBuilder,
    data: Value,
    sizes: Annotated[list[int] | None, Need.INTS] = None,
    *,
    axis: int = 0,
    split: list[int] | None = None,
    wanted: tuple[bool, ...],
) -> tuple[Value, ...]:
    """The sizes as an attribute (opset 1 to 12) or, in version 1, as an input. Source: ONNX Split-1, Split-11."""
    return split_input(g, data, list(sizes or split or []) or None, axis=axis, wanted=wanted)


def split_input(
    g: ProgramBuilder, data: Value, split: Sizes | None = None, *, axis: int = 0, wanted: tuple[bool, ...]
) -> tuple[Value, ...]:
    """The sizes as an input; without it all parts are equal. Source: ONNX Split-13."""
    axis = axis_in(axis, data.rank)
    if split is None:
        size, count = data.shape[axis], len(wanted)
        part = D.exact_div(size, count)
        if part is None:
            if isinstance(size, int):
                raise refuse("O2M-C006", f"an axis of size {size} does not split into {count} equal parts")
            part = D.floor_div(size, count)
        split = [part] * count
    return _parts(g, data, axis, split)


def split_uneven(
    g: ProgramBuilder,
    data: Value,
    split: Sizes | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    wanted: tuple[bool, ...],
) -> tuple[Value, ...]:
    """Since version 18 the last of ``num_outputs`` parts may be smaller. Source: ONNX Split-18."""
    if split is None:
        axis = axis_in(axis, data.rank)
        size, count = data.shape[axis], num_outputs or len(wanted)
        part = D.ceil_div(size, count)
        last = to_dim(size - part * (count - 1))
        if isinstance(last, int) and last < 0:
            raise refuse("O2M-C006", f"an axis of size {size} does not split into {count} parts of {part}")
        if not isinstance(last, int):
            g.require(sympy.Ge(last, 0), f"an axis of size {g.table.describe(size)} must split into {count} parts")
        split = [part] * (count - 1) + [last]
    return _parts(g, data, axis_in(axis, data.rank), split)


def _parts(g: ProgramBuilder, data: Value, axis: int, split: list[Dim]) -> tuple[Value, ...]:
    sizes = [g.as_size(size) for size in split]
    total = to_dim(sum(sizes[1:], start=sizes[0])) if sizes else 0
    g.require_equal(data.shape[axis], total, "the sum of the sizes of a Split")
    start: Dim = 0
    result = []
    for size in sizes:
        end = to_dim(start + size)
        result.append(g.slice(data, axis, start, end))
        start = end
    return tuple(result)


def expand(g: ProgramBuilder, data: Value, shape: Sizes) -> Value:
    """Broadcast with ``shape`` both ways: an axis of either may be 1. Source: ONNX Expand."""
    return g.expand(data, broadcast_with(g, data.shape, shape))


def broadcast_with(g: ProgramBuilder, own: tuple[Dim, ...], shape: list[Dim]) -> list[Dim]:
    """The broadcast of sizes and a ``shape`` whose elements, if computed, may turn out to be 1 at run time."""
    rank = max(len(own), len(shape))
    result: list[Dim] = []
    for size, wanted in zip([1] * (rank - len(own)) + list(own), [1] * (rank - len(shape)) + list(shape), strict=True):
        if D.stretches(size, wanted):
            result.append(g.as_size(wanted))
            continue
        result.append(size)
        if wanted == 1 or D.known_equal(size, wanted):
            continue
        if isinstance(wanted, int) or _equal_at_one(size, wanted):
            g.require_equal(size, wanted, "sizes of an Expand")
            result[-1] = g.table.simplify(wanted)
        else:
            names = g.table.describe(wanted), g.table.describe(size)
            g.require(sympy.Or(sympy.Eq(wanted, 1), sympy.Eq(wanted, size)), f"{names[0]} must be 1 or {names[1]}")
    return result


def _equal_at_one(size: Dim, wanted: Dim) -> bool:
    """Whether ``size`` is 1 wherever ``wanted`` is, as in min(512, n) and n: then there is nothing to broadcast."""
    return isinstance(wanted, sympy.Symbol) and isinstance(size, sympy.Expr) and size.subs(wanted, 1) == 1


def tile_axis(g: ProgramBuilder, data: Value, tiles: Value, axis: Value) -> Value:
    """One axis repeated (opset 1 to 5); how often, and which one, are numbers of the data's type. Source: ONNX Tile-1."""
    times, place = (g.cast(g.reshape(item, []), torch.int64) for item in (tiles, axis))
    known = place.dims()
    if known is not None and isinstance(known[0], int):
        place = g.scalar(axis_in(known[0], data.rank), torch.int64)
    else:
        number = g.item(place, signed=True)
        inside = sympy.And(sympy.Ge(number, -data.rank), sympy.Lt(number, data.rank))
        g.require(inside, f"axis of {g.origin} must be in range for rank {data.rank}")
        place = g.where(g.binary("lt", place, 0), g.add(place, data.rank), place)
    repeats = g.where(g.binary("eq", g.arange(0, data.rank), place), times, 1)
    sizes = repeats.dims()
    return tile(g, data, [g.item(g.select(repeats, 0, i)) for i in range(data.rank)] if sizes is None else sizes)


def tile(g: ProgramBuilder, data: Value, repeats: Sizes) -> Value:
    """Every axis repeated as often as ``repeats`` says. Source: ONNX Tile."""
    if len(repeats) != data.rank:
        raise refuse("O2M-C006", f"{len(repeats)} repeats are given for {data.rank} axes", case="repeats")
    inner: list[Dim] = []
    outer: list[Dim] = []
    whole: list[Dim] = []
    for size, times in zip(data.shape, map(g.as_size, repeats), strict=True):
        if times != 1:
            inner.append(1)
            outer.append(times)
        inner.append(size)
        outer.append(size)
        whole.append(to_dim(size * times))
    return g.reshape(g.expand(g.reshape(data, inner), outer), whole)
