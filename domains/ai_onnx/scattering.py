"""ScatterElements, ScatterND, TensorScatter: a tensor with some elements replaced or combined."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.indexing import along, axis_in, count_along, wrapped

_REDUCTIONS = {"mul": "prod", "max": "amax", "min": "amin"}
_BOOL_REDUCTIONS = {"add": "max", "mul": "min"}


def scatter_elements(
    g: ProgramBuilder, data: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """Every element of ``updates`` goes to the position its index says along ``axis``. Source: ONNX ScatterElements."""
    axis = axis_in(axis, data.rank)
    return combine(g, data, axis, wrapped(g, indices, data.shape[axis]), updates, reduction)


def scatter_nd(g: ProgramBuilder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """The last axis of ``indices`` is a position in the first axes of ``data``. Source: ONNX ScatterND."""
    length = indices.shape[-1]
    if not isinstance(length, int):
        raise refuse("O2M-C004", "the last size of the indices decides the update's rank, unknown here", case="indices")
    if length > data.rank:
        raise refuse("O2M-C006", f"indices of {length} axes for rank {data.rank}", case="indices")
    outer, inner = data.shape[:length], data.shape[length:]
    places = indices.shape[:-1]
    flat: Value = g.full(list(places), 0, torch.int64)
    outside: list[Value] = []
    for item, size in enumerate(outer):
        place = wrapped(g, g.select(indices, indices.rank - 1, item), size)
        flat = g.add(g.mul(flat, g.size_value(size)), place)
        known = place.dims()
        is_inside = known is not None and all(
            D.is_nonnegative(number) and D.is_nonnegative(size - 1 - number) for number in known
        )
        # Of several axes, what is outside of one may be inside of what they are together.
        if length > 1 and not is_inside:
            outside += [g.binary("lt", place, 0), g.binary("ge", place, g.size_value(size))]
    for condition in outside:
        flat = g.where(condition, -1, flat)
    count, rest = D.product(places), D.product(inner)
    rows = g.reshape(data, [D.product(outer), rest])
    index = g.expand(g.reshape(flat, [count, 1]), [count, rest])
    return g.reshape(combine(g, rows, 0, index, g.reshape(updates, [count, rest]), reduction), data.shape)


def combine(g: ProgramBuilder, data: Value, axis: int, index: Value, updates: Value, reduction: str) -> Value:
    """``aten::scatter`` in the form that ``reduction`` asks for.

    Raises:
        Refusal: O2M-C005 where ONNX has no such reduction, O2M-C003 for the order of complex numbers.
    """
    if data.dtype is torch.bool and reduction in ("add", "mul", "max", "min"):
        wide = [g.cast(item, torch.uint8) for item in (data, updates)]
        kind = _BOOL_REDUCTIONS.get(reduction, reduction)
        return g.cast(combine(g, wide[0], axis, index, wide[1], kind), torch.bool)
    if reduction == "none":
        return g.call("aten.scatter.src", data, axis, index, updates)
    if reduction == "add":
        return g.call("aten.scatter_add.default", data, axis, index, updates)
    if reduction not in _REDUCTIONS:
        raise refuse("O2M-C005", f"there is no reduction {reduction}", case=f"reduction={reduction}")
    if data.dtype.is_complex and reduction != "mul":
        raise refuse("O2M-C003", "complex numbers have no order", case=f"reduction={reduction}")
    return g.call("aten.scatter_reduce.two", data, axis, index, updates, _REDUCTIONS[reduction])


def tensor_scatter(
    g: ProgramBuilder,
    past_cache: Value,
    update: Value,
    write_indices: Value | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Value:
    """A cache with steps along ``axis`` replaced, from each batch's own index on. Source: ONNX TensorScatter."""
    axis = axis_in(axis, past_cache.rank)
    if axis == 0:
        raise refuse("O2M-C005", "the axis of a TensorScatter cannot be the batch axis", case="axis=0")
    index = count_along(g, update.shape, axis)
    if write_indices is not None:
        index = g.add(index, g.reshape(write_indices, along(update.shape, 0)))
    if mode == "circular":
        index = g.binary("remainder", index, g.size_value(past_cache.shape[axis]))
    elif mode != "linear":
        raise refuse("O2M-C005", f"there is no mode {mode}", case=f"mode={mode}")
    return g.call("aten.scatter.src", past_cache, axis, g.expand(index, update.shape), update)
