"""Reshape, Flatten, Squeeze, Unsqueeze, Transpose: the same elements under another shape."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.indexing import axes_in, axis_in, elements, wrapped


def reshape_attribute(g: ProgramBuilder, data: Value, *, shape: list[int] | None = None) -> Value:
    """The shape as an attribute (opset 1 to 4). Source: ONNX Reshape-1."""
    if shape is None:
        raise refuse("O2M-C005", "attribute shape is missing", case="shape")
    return _reshape(g, data, shape, allowzero=False)


def reshape(g: ProgramBuilder, data: Value, shape: Value, *, allowzero: int = 0) -> Value:
    """The shape as an input: -1 is inferred, 0 copies the operand's size unless ``allowzero``. Source: ONNX Reshape."""
    sizes = shape.dims()
    if sizes is not None and not any(D.has_signed(size) for size in sizes):
        return _reshape(g, data, sizes, allowzero=bool(allowzero))
    sizes = run_time_shape(g, data, g.cast(shape, torch.int64), allowzero=bool(allowzero))
    return g.reshape(data, sizes)


def _reshape(g: ProgramBuilder, data: Value, sizes: Sequence[Dim], *, allowzero: bool) -> Value:
    if sum(size == -1 for size in sizes) > 1 or any(isinstance(size, int) and size < -1 for size in sizes):
        raise refuse("O2M-C005", f"{list(sizes)} is no shape", case="shape")
    if allowzero:
        if -1 in sizes and 0 in sizes:
            raise refuse("O2M-C005", "a shape with allowzero=1 has both a 0 and a -1", case="allowzero=1")
        return g.reshape(data, sizes)
    if any(size == 0 and axis >= data.rank for axis, size in enumerate(sizes)):
        raise refuse("O2M-C006", f"a 0 in shape {list(sizes)} copies an axis that {data!r} does not have", case="shape")
    sizes = [data.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    if -1 in sizes and 0 in sizes:
        raise refuse("O2M-C006", f"-1 in shape {sizes} is not determined, for nothing is left to divide", case="shape")
    return g.reshape(data, sizes)


def run_time_shape(g: ProgramBuilder, data: Value, shape: Value, *, allowzero: bool) -> list[Dim]:
    """The sizes that a run-time ``shape`` of known length stands for, its -1 and 0 resolved when the program runs."""
    count = shape.shape[0]
    if not isinstance(count, int):
        elements(g, shape, "shape")
        raise AssertionError
    if not allowzero:
        own = [data.shape[axis] if axis < data.rank else 0 for axis in range(count)]
        shape = g.where(g.binary("eq", shape, 0), g.sizes(own), shape)
    inferred = g.binary("lt", shape, 0)
    known = g.call("aten.prod.dim_int", g.where(inferred, 1, shape), 0, dtype=torch.int64)
    rest = g.floor_div(g.size_value(D.product(data.shape)), g.maximum(known, 1))
    sizes = g.where(inferred, rest, shape)
    return [g.item(g.select(sizes, 0, axis)) for axis in range(count)]


def flatten(g: ProgramBuilder, data: Value, *, axis: int = 1) -> Value:
    """Two axes: the product of the sizes before ``axis``, and of those from it on. Source: ONNX Flatten."""
    if not -data.rank <= axis <= data.rank:
        raise refuse("O2M-C005", f"axis {axis} is out of range for rank {data.rank}", case=f"axis={axis}")
    axis = axis + data.rank if axis < 0 else axis
    return g.reshape(data, [D.product(data.shape[:axis]), D.product(data.shape[axis:])])


def squeeze_attribute(g: ProgramBuilder, data: Value, *, axes: list[int] | None = None) -> Value:
    """The axes as an attribute (opset 1 to 12). Source: ONNX Squeeze-11."""
    return _squeeze(g, data, axes)


def squeeze(g: ProgramBuilder, data: Value, axes: Value | None = None) -> Value:
    """The axes as an input; without it every axis of size 1 goes. Source: ONNX Squeeze."""
    if axes is None:
        return _squeeze(g, data, None)
    known = axes.tensor
    if known is not None:
        return _squeeze(g, data, known.reshape(-1).tolist())
    count = _length(axes, data.rank)
    kept = _kept(g, axes, data.rank)
    order = g.call("aten.sort.stable", g.cast(g.unary("logical_not", kept), torch.int64), stable=True, dim=0)[1]
    chosen = g.call("aten.index_select.default", g.sizes(data.shape), 0, g.slice(order, 0, 0, data.rank - count))
    return g.reshape(data, [g.item(g.select(chosen, 0, axis)) for axis in range(data.rank - count)])


def _squeeze(g: ProgramBuilder, data: Value, axes: Sequence[int] | None) -> Value:
    if axes is not None:
        return g.squeeze(data, axes_in(axes, data.rank))
    for size in data.shape:
        if not isinstance(size, int):
            name = g.table.describe(size)
            g.require(sympy.Ne(size, 1), f"an axis of size {name} = 1 would change the rank of a Squeeze without axes")
    return g.squeeze(data, [axis for axis, size in enumerate(data.shape) if size == 1])


def unsqueeze_attribute(g: ProgramBuilder, data: Value, *, axes: list[int]) -> Value:
    """The axes as an attribute (opset 1 to 12). Source: ONNX Unsqueeze-11."""
    return _unsqueeze(g, data, axes)


def unsqueeze(g: ProgramBuilder, data: Value, axes: Value) -> Value:
    """New axes of size 1 at positions ``axes`` of the result. Source: ONNX Unsqueeze."""
    known = axes.tensor
    if known is not None:
        return _unsqueeze(g, data, known.reshape(-1).tolist())
    rank = data.rank + _length(axes, None)
    kept = _kept(g, axes, rank)
    source = g.sub(g.call("aten.cumsum.default", g.cast(kept, torch.int64), 0, dtype=torch.int64), 1)
    own = g.sizes([*data.shape, 1])
    sizes = g.where(kept, g.call("aten.index_select.default", own, 0, g.maximum(source, 0)), 1)
    return g.reshape(data, [g.item(g.select(sizes, 0, axis)) for axis in range(rank)])


def _unsqueeze(g: ProgramBuilder, data: Value, axes: Sequence[int]) -> Value:
    for axis in sorted(axes_in(axes, data.rank + len(axes))):
        data = g.unsqueeze(data, axis)
    return data


def _length(axes: Value, limit: int | None) -> int:
    length = axes.shape[0] if axes.rank else 1
    if not isinstance(length, int) or (limit is not None and length > limit):
        raise refuse("O2M-C004", "the number of axes is only known at run time, so the rank is not known", case="axes")
    return length


def _kept(g: ProgramBuilder, axes: Value, rank: int) -> Value:
    """For each of ``rank`` axes whether it is not among the run-time ``axes``."""
    named = g.unsqueeze(wrapped(g, g.reshape(axes, [-1]), rank), 0)
    hit = g.call("aten.eq.Tensor", g.unsqueeze(g.arange(0, rank), 1), named)
    return g.unary("logical_not", g.call("aten.any.dims", hit, [1], False))


def transpose(g: ProgramBuilder, data: Value, *, perm: list[int] | None = None) -> Value:
    """The axes in order ``perm``, reversed without it. Source: ONNX Transpose."""
    order = list(reversed(range(data.rank))) if perm is None else [axis_in(axis, data.rank) for axis in perm]
    return g.permute(data, order)
