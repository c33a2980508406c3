"""The operators on sequences of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import RunTimeSequence, SequenceValue, StaticSequence, as_run_time
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import sequences as run_time
from onnx2torch_mlir.families.dtypes import torch_dtype
from onnx2torch_mlir.families.indexing import axis_in

STATIC_LIMIT = 64
"""An axis of a known size up to this is split into as many values; beyond, it becomes a run-time sequence."""


def sequence_empty(g: ProgramBuilder, *, dtype: int = 1) -> StaticSequence:
    """No elements. Source: https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html"""
    return StaticSequence((), torch_dtype(dtype))


def sequence_construct(g: ProgramBuilder, *inputs: Value) -> StaticSequence:
    """``inputs``, which have one dtype. Source: https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html"""
    for item in inputs:
        _check_dtype(item, inputs[0].dtype)
    return StaticSequence(tuple(inputs), inputs[0].dtype)


def sequence_length(g: ProgramBuilder, input_sequence: SequenceValue) -> Value:
    """The number of elements, 0-d int64. Source: https://onnx.ai/onnx/operators/onnx__SequenceLength.html"""
    return g.size_value(_length(input_sequence))


def sequence_at(g: ProgramBuilder, input_sequence: SequenceValue, position: Value) -> Value:
    """The element at ``position``, from the end where that is negative.

    Source: https://onnx.ai/onnx/operators/onnx__SequenceAt.html
    """
    index = run_time.position_in(g, _length(input_sequence), position)
    if isinstance(input_sequence, StaticSequence):
        if isinstance(index, int):
            return input_sequence.items[index]
        shapes = {item.shape for item in input_sequence.items}
        if len(shapes) == 1:
            return g.select(g.cat([g.unsqueeze(item, 0) for item in input_sequence.items], 0), 0, index)
    return run_time.at(g, as_run_time(g, input_sequence), index)


def sequence_insert(
    g: ProgramBuilder, input_sequence: SequenceValue, tensor: Value, position: Value | None = None
) -> SequenceValue:
    """With ``tensor`` in front of the element at ``position``, or at the end.

    Source: https://onnx.ai/onnx/operators/onnx__SequenceInsert.html
    """
    _check_dtype(tensor, input_sequence.dtype)
    length = _length(input_sequence)
    index = length if position is None else run_time.position_in(g, length, position, end=True)
    if isinstance(input_sequence, StaticSequence) and isinstance(index, int):
        items = input_sequence.items
        return StaticSequence((*items[:index], tensor, *items[index:]), input_sequence.dtype)
    return run_time.insert(g, as_run_time(g, input_sequence), tensor, None if index is length else index)


def sequence_erase(g: ProgramBuilder, input_sequence: SequenceValue, position: Value | None = None) -> SequenceValue:
    """Without the element at ``position``, or without the last one.

    Source: https://onnx.ai/onnx/operators/onnx__SequenceErase.html
    """
    position = g.scalar(-1, torch.int64) if position is None else position
    index = run_time.position_in(g, _length(input_sequence), position)
    if isinstance(input_sequence, StaticSequence) and isinstance(index, int):
        items = input_sequence.items
        return StaticSequence((*items[:index], *items[index + 1 :]), input_sequence.dtype)
    return run_time.erase(g, as_run_time(g, input_sequence), index)


def concat_from_sequence(g: ProgramBuilder, input_sequence: SequenceValue, *, axis: int, new_axis: int = 0) -> Value:
    """The elements one after the other along ``axis``, or stacked along a new one.

    Source: https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html
    """
    if isinstance(input_sequence, StaticSequence):
        items = input_sequence.items
        if not items:
            raise refuse("O2M-C006", "a sequence without elements cannot be concatenated")
        if new_axis:
            where = axis_in(axis, items[0].rank + 1)
            return g.cat([g.unsqueeze(item, where) for item in items], where)
        return g.cat(items, axis_in(axis, items[0].rank))
    rank = len(run_time.element_sizes(g, input_sequence))
    if new_axis:
        return run_time.stacked(g, input_sequence, axis_in(axis, rank + 1))
    return run_time.concatenated(g, input_sequence, axis_in(axis, rank))


def split_to_sequence(
    g: ProgramBuilder, data: Value, split: Value | None = None, *, axis: int = 0, keepdims: int = 1
) -> SequenceValue:
    """Parts along ``axis``: of the sizes ``split`` [n], of one size (the last part may be smaller), or of size 1.

    Source: https://onnx.ai/onnx/operators/onnx__SplitToSequence.html
    """
    axis = axis_in(axis, data.rank)
    size = data.shape[axis]
    if split is None:
        if isinstance(size, int) and size <= STATIC_LIMIT:
            parts = [g.slice(data, axis, at, at + 1) for at in range(size)]
            return StaticSequence(tuple(part if keepdims else g.squeeze(part, [axis]) for part in parts), data.dtype)
        return run_time.split_singly(g, data, axis, bool(keepdims))
    if split.rank == 0:
        return _chunks(g, data, axis, g.cast(split, torch.int64))
    if not isinstance(split.shape[0], int):
        return run_time.split(g, data, split, axis)
    known = split.dims()
    sizes = known or [g.item(g.select(split, 0, index), signed=True) for index in range(split.shape[0])]
    return _parts(g, data, axis, [g.as_size(item) for item in sizes])


def _parts(g: ProgramBuilder, data: Value, axis: int, sizes: Sequence[Dim]) -> StaticSequence:
    total = D.to_dim(sum(sizes[1:], start=sizes[0])) if sizes else 0
    g.require_equal(data.shape[axis], total, "the sum of the sizes of the parts")
    start: Dim = 0
    parts = []
    for size in sizes:
        end = D.to_dim(start + size)
        parts.append(g.slice(data, axis, start, end))
        start = end
    return StaticSequence(tuple(parts), data.dtype)


def _chunks(g: ProgramBuilder, data: Value, axis: int, chunk: Value) -> SequenceValue:
    """Parts of ``chunk``, the last one of what is left."""
    size = data.shape[axis]
    known = chunk.dims()
    step = known[0] if known is not None else g.item(chunk, signed=True)
    if isinstance(step, int) and step <= 0:
        raise refuse("O2M-C006", f"an axis cannot be split into parts of size {step}", case="split")
    if isinstance(step, int) and isinstance(size, int) and -(-size // step) <= STATIC_LIMIT:
        return _parts(g, data, axis, [min(step, size - start) for start in range(0, size, step)])
    if not isinstance(step, int):
        g.require(sympy.Ge(step, 1), f"{g.origin or 'a split'}: the size of the parts must be at least 1")
    part = g.as_size(step)
    starts = g.mul(g.arange(0, D.ceil_div(size, part)), g.size_value(part))
    lengths = g.minimum(g.sub(g.size_value(size), starts), g.size_value(part))
    return run_time.split(g, data, lengths, axis)


def _length(sequence: SequenceValue) -> Dim:
    return sequence.length if isinstance(sequence, RunTimeSequence) else len(sequence.items)


def _check_dtype(tensor: Value, dtype: torch.dtype) -> None:
    if tensor.dtype is not dtype:
        raise refuse("O2M-C005", f"a tensor of {tensor.dtype} cannot be in a sequence of {dtype}")
