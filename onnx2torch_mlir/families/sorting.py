"""TopK, NonZero, Unique: results whose order or count depends on the data."""

from __future__ import annotations

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Size
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import while_loop
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import describe
from onnx2torch_mlir.families.indexing import axis_in

LONGEST_WRITTEN_OUT = 16
"""Slices of more elements than this are ordered in a loop."""


def top_k_attribute(g: ProgramBuilder, data: Value, *, k: int, axis: int = -1) -> tuple[Value, Value]:
    """``k`` as an attribute (opset 1 to 9). Source: ONNX TopK-1."""
    return top_k(g, data, k, axis=axis)


def top_k(
    g: ProgramBuilder, data: Value, k: Size, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Value, Value]:
    """The ``k`` largest or smallest along ``axis``, of equal ones the first; in order, also where ``sorted`` is 0.

    A stable sort, because ``aten::topk`` does not say which of equal elements it takes. Source: ONNX TopK.
    """
    axis = axis_in(axis, data.rank)
    count = g.as_size(k)
    size = data.shape[axis]
    if not D.is_nonnegative(to_dim(size - count)):
        text = f"k = {g.table.describe(count)} of a TopK must be at most {g.table.describe(size)}"
        g.require(sympy.Le(sympy.sympify(count), sympy.sympify(size)), text)
    values, indices = g.call("aten.sort.stable", data, stable=True, dim=axis, descending=bool(largest))
    return g.slice(values, axis, 0, count), g.slice(indices, axis, 0, count)


def non_zero(g: ProgramBuilder, data: Value) -> Value:
    """[rank, count]: the positions of the elements that are not zero, in order. Source: ONNX NonZero."""
    if data.rank == 0:
        data = g.reshape(data, [1])
    return g.permute(g.call("aten.nonzero.default", data), [1, 0])


def unique(
    g: ProgramBuilder, data: Value, *, axis: int | None = None, sorted: int = 1
) -> tuple[Value, Value, Value, Value]:
    """The different elements (or slices along ``axis``), first positions, positions of all, and counts.

    Source: ONNX Unique.

    Raises:
        Refusal: O2M-C003 for complex numbers, which are not sorted here.
    """
    if data.dtype.is_complex:
        raise refuse("O2M-C003", f"Unique of {describe(data.dtype)}: complex numbers have no order", case="X")
    keyed = data if axis is not None else g.reshape(data, [D.product(data.shape)])
    axis = axis_in(axis or 0, keyed.rank)
    rows = g.permute(keyed, [axis, *(other for other in range(keyed.rank) if other != axis)])
    size = rows.shape[0]
    rows = g.reshape(rows, [size, D.product(rows.shape[1:])])
    order = _ordered(g, rows)
    starts, group = _groups(g, g.call("aten.index_select.default", rows, 0, order), size)
    count = starts.shape[0]
    first = g.call("aten.index_select.default", order, 0, starts)
    ends = g.cat([g.slice(starts, 0, D.minimum(1, count), count), g.sizes([size])], 0)
    counts = g.sub(g.slice(ends, 0, 0, count), starts)
    inverse = _inverted(g, order, group)
    if not sorted:
        appearance = g.call("aten.sort.stable", first, stable=True, dim=0)[1]
        first, counts = (g.call("aten.index_select.default", item, 0, appearance) for item in (first, counts))
        rank = _inverted(g, appearance, g.arange(0, count))
        inverse = g.call("aten.index_select.default", rank, 0, inverse)
    return g.call("aten.index_select.default", keyed, axis, first), first, inverse, counts


def _inverted(g: ProgramBuilder, order: Value, values: Value) -> Value:
    """``values`` put at the positions ``order``."""
    return g.call("aten.scatter.src", g.full(order.shape, 0, torch.int64), 0, order, values)


def _ordered(g: ProgramBuilder, rows: Value) -> Value:
    """The stable order of ``rows``, compared from the first element on."""
    size, length = rows.shape
    order = g.arange(0, size)
    if isinstance(length, int) and length <= LONGEST_WRITTEN_OUT:
        for column in reversed(range(length)):
            order = _by_column(g, g.select(rows, 1, column), order)
        return order

    def unfinished(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        return [b.binary("gt", values[0], 0)]

    def step(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        column = b.sub(values[0], 1)
        elements = b.call("aten.index_select.default", rows, 1, b.reshape(column, [1]))
        return [column, _by_column(b, b.reshape(elements, [size]), values[1])]

    return while_loop(g, unfinished, step, [g.size_value(length), order])[1]


def _by_column(g: ProgramBuilder, column: Value, order: Value) -> Value:
    """``order`` sorted by the elements of ``column``, equal ones left as they are."""
    key = g.call("aten.index_select.default", column, 0, order)
    by_key = g.call("aten.sort.stable", key, stable=True, dim=0)[1]
    result: Value = g.call("aten.index_select.default", order, 0, by_key)
    return result


def _groups(g: ProgramBuilder, rows: Value, size: Dim) -> tuple[Value, Value]:
    """Where each run of equal neighbours starts, and for every row the number of its run; NaN equals NaN."""
    positions = g.arange(0, size)
    previous = g.call("aten.index_select.default", rows, 0, g.maximum(g.sub(positions, 1), 0))
    different = g.call("aten.ne.Tensor", rows, previous)
    if rows.dtype.is_floating_point:
        both = g.call("aten.logical_and.default", g.unary("isnan", rows), g.unary("isnan", previous))
        different = g.call("aten.logical_and.default", different, g.unary("logical_not", both))
    begins = g.call("aten.any.dims", different, [1], False)
    begins = g.call("aten.logical_or.default", begins, g.binary("eq", positions, 0))
    starts = g.call("aten.nonzero.default", begins)
    group = g.sub(g.call("aten.cumsum.default", g.cast(begins, torch.int64), 0, dtype=torch.int64), 1)
    return g.reshape(starts, [starts.shape[0]]), group
