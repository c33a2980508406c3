"""Gather, GatherElements, GatherND, Compress, ReverseSequence: elements picked by index."""

from __future__ import annotations

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.indexing import along, axis_in, count_along, wrapped


def gather(g: ProgramBuilder, data: Value, indices: Value, *, axis: int = 0) -> Value:
    """``indices``, of any rank, in place of ``axis``. Source: ONNX Gather."""
    axis = axis_in(axis, data.rank)
    places = wrapped(g, g.reshape(indices, [-1]), data.shape[axis])
    known = places.dims()
    if indices.rank == 0 and known is not None and isinstance(known[0], int):
        return g.select(data, axis, known[0])
    flat = g.call("aten.index_select.default", data, axis, places)
    return g.reshape(flat, [*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]])


def gather_elements(g: ProgramBuilder, data: Value, indices: Value, *, axis: int = 0) -> Value:
    """Every element of ``indices`` replaces its own position along ``axis``. Source: ONNX GatherElements."""
    axis = axis_in(axis, data.rank)
    return g.call("aten.gather.default", data, axis, wrapped(g, indices, data.shape[axis]))


def gather_nd(g: ProgramBuilder, data: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """The last axis of ``indices`` is a position in ``data``'s axes after ``batch_dims``. Source: ONNX GatherND."""
    length = indices.shape[-1]
    if not isinstance(length, int):
        raise refuse("O2M-C004", "the last size of the indices decides the rank and is not known", case="indices")
    if not 0 <= batch_dims <= min(data.rank, indices.rank) or batch_dims + length > data.rank:
        raise refuse(
            "O2M-C005", f"{length} indices after {batch_dims} batch axes for rank {data.rank}", case="batch_dims"
        )
    shape = indices.shape[:-1]
    for own, other in zip(data.shape[:batch_dims], shape, strict=False):
        g.require_equal(own, other, "batch sizes of a GatherND")
    chosen = [count_along(g, shape, axis) for axis in range(batch_dims)]
    chosen += [
        wrapped(g, g.select(indices, indices.rank - 1, item), data.shape[batch_dims + item], reads_from_end=True)
        for item in range(length)
    ]
    if not chosen:
        return g.expand(data, [*shape, *data.shape])
    return g.call("aten.index.Tensor", data, chosen)


def compress(g: ProgramBuilder, data: Value, condition: Value, *, axis: int | None = None) -> Value:
    """The elements along ``axis`` (without it, of the flattened operand) chosen by a mask. Source: ONNX Compress."""
    if axis is None:
        data = g.reshape(data, [D.product(data.shape)])
    axis = axis_in(axis or 0, data.rank)
    condition = g.slice(condition, 0, 0, D.minimum(condition.shape[0], data.shape[axis]))
    kept = g.call("aten.nonzero.default", condition)
    return g.call("aten.index_select.default", data, axis, g.reshape(kept, [kept.shape[0]]))


def reverse_sequence(
    g: ProgramBuilder, data: Value, sequence_lens: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
    """Each batch's first ``sequence_lens`` steps in reverse. Source: ONNX ReverseSequence.

    Where batch and time are neighbours, as ONNX has them, an index says of each step where it is, and not of each element.
    """
    batch, time = axis_in(batch_axis, data.rank), axis_in(time_axis, data.rank)
    if batch == time:
        raise refuse("O2M-C005", "batch_axis and time_axis are the same", case=f"time_axis={time_axis}")
    g.require_equal(sequence_lens.shape[0], data.shape[batch], "length of sequence_lens")
    neighbours = abs(batch - time) == 1
    first = min(batch, time) if neighbours else 0
    pair = data.shape[first : first + 2] if neighbours else data.shape
    lengths = g.reshape(sequence_lens, along(pair, batch - first))
    steps = count_along(g, pair, time - first)
    mirrored = g.sub(g.sub(lengths, 1), steps)
    index = g.where(g.binary("lt", steps, lengths), mirrored, steps)
    if neighbours:
        both = [index, count_along(g, pair, batch - first)]
        return g.call("aten.index.Tensor", data, [None] * first + (both if time < batch else both[::-1]))
    return g.call("aten.gather.default", data, time, g.expand(index, data.shape))
