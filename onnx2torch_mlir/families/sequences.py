"""Sequences of a length that is only known at run time: reading, inserting, erasing, joining and splitting.

The elements lie one after the other in one tensor; where each begins is a running sum of the products of their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import RunTimeSequence, known_sizes, widen
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def position_in(g: ProgramBuilder, length: Dim, position: Value, *, end: bool = False) -> Dim:
    """``position`` counted from the front; it lies in -length … length-1, or with ``end`` up to length.

    Asserted when the program runs.

    Raises:
        Refusal: O2M-C006 where it is known to lie outside.
    """
    position = g.reshape(g.cast(position, torch.int64), [])
    beyond = length + 1 if end else length
    message = f"{g.origin or 'a position'}: the position lies outside of the sequence"
    known = position.dims()
    number = known[0] if known is not None else g.item(position, signed=True)
    g.require(_truth(sympy.Ge(sympy.sympify(number + length), 0)), message)
    g.require(_truth(sympy.Lt(sympy.sympify(number), beyond)), message)
    if isinstance(number, int):
        return number if number >= 0 else g.opaque_size(D.to_dim(length + number))
    wrapped = g.where(g.binary("lt", position, 0), g.add(position, g.size_value(length)), position)
    return g.item(wrapped)


def _truth(condition: sympy.Basic) -> sympy.Basic:
    """``condition``, decided where the sizes in it, which are at least 0, decide it."""
    if isinstance(condition, sympy.Ge | sympy.Lt):
        low, high = condition.args
        difference = low - high if isinstance(condition, sympy.Ge) else high - low - 1
        if D.is_nonnegative(D.to_dim(sympy.expand(difference))):
            return sympy.true
    return condition


def offsets(g: ProgramBuilder, shapes: Value) -> Value:
    """Where each element begins, and where the last one ends: int64 [length + 1]."""
    sizes = g.where(g.binary("lt", shapes, 0), 1, shapes)
    counts = g.call("aten.prod.dim_int", sizes, 1, False, dtype=torch.int64)
    ends = g.call("aten.cumsum.default", counts, 0, dtype=torch.int64)
    return g.cat([g.full([1], 0, torch.int64), ends], 0)


def _offset(g: ProgramBuilder, starts: Value, index: Dim) -> Dim:
    return g.item(g.select(starts, 0, index))


def element_sizes(g: ProgramBuilder, sequence: RunTimeSequence) -> tuple[int | None, ...]:
    """What is known of the elements' sizes.

    Raises:
        Refusal: O2M-C004 where not even their rank is known.
    """
    if sequence.sizes is None:
        raise refuse(
            "O2M-C004",
            "the rank of the elements of a sequence decides the rank of the result and is only known at run time",
            case="rank of the elements",
            hint="declare the shape of the sequence's elements where it enters the model",
        )
    return sequence.sizes


def _row(g: ProgramBuilder, sequence: RunTimeSequence, index: Dim) -> list[Dim]:
    """The sizes of an element, which has as many as the sequence has columns: asserted by their sign."""
    row = g.select(sequence.shapes, 0, index)
    result: list[Dim] = []
    for axis, known in enumerate(element_sizes(g, sequence)):
        size = g.item(g.select(row, 0, axis))
        if known is not None:
            g.require_equal(size, known, f"size {axis} of an element of a sequence")
        result.append(size if known is None else known)
    return result


def at(g: ProgramBuilder, sequence: RunTimeSequence, index: Dim) -> Value:
    """The element at ``index``, which lies in 0 … length-1."""
    sizes = _row(g, sequence, index)
    start = _offset(g, offsets(g, sequence.shapes), index)
    flat = g.slice(sequence.data, 0, start, D.to_dim(start + D.product(sizes)))
    return g.reshape(flat, sizes)


def _cut(g: ProgramBuilder, x: Value, start: Dim, end: Dim) -> tuple[Value, Value]:
    """``x`` before ``start`` and from ``end`` on, along axis 0."""
    rest = g.opaque_size(D.to_dim(x.shape[0] - end))
    return g.slice(x, 0, 0, start), g.slice(x, 0, end, D.to_dim(end + rest))


def insert(g: ProgramBuilder, sequence: RunTimeSequence, tensor: Value, index: Dim | None) -> RunTimeSequence:
    """``tensor`` put in front of the element at ``index``, or at the end."""
    columns = sequence.shapes.shape[1]
    shapes, sizes = sequence.shapes, sequence.sizes
    if columns != tensor.rank:
        shapes = widen(g, shapes, D.maximum(columns, tensor.rank))
        sizes = None if sizes is None else (None,) * max(len(sizes), tensor.rank)
    elif sizes is not None:
        own = known_sizes(tensor.shape)
        sizes = tuple(a if a == b else None for a, b in zip(sizes, own, strict=True))
    row = widen(g, g.reshape(g.sizes(tensor.shape), [1, tensor.rank]), shapes.shape[1])
    flat = g.reshape(tensor, [D.product(tensor.shape)])
    if index is None:
        return RunTimeSequence(g.cat([sequence.data, flat], 0), g.cat([shapes, row], 0), sizes)
    start = _offset(g, offsets(g, shapes), index)
    before, after = _cut(g, sequence.data, start, start)
    first, last = _cut(g, shapes, index, index)
    return RunTimeSequence(g.cat([before, flat, after], 0), g.cat([first, row, last], 0), sizes)


def erase(g: ProgramBuilder, sequence: RunTimeSequence, index: Dim) -> RunTimeSequence:
    """Without the element at ``index``."""
    starts = offsets(g, sequence.shapes)
    start, end = _offset(g, starts, index), _offset(g, starts, D.to_dim(index + 1))
    first, last = _cut(g, sequence.shapes, index, D.to_dim(index + 1))
    data = g.cat(list(_cut(g, sequence.data, start, end)), 0)
    return RunTimeSequence(data, g.cat([first, last], 0), sequence.sizes)


def _addresses(g: ProgramBuilder, lengths: Value, outer: Dim, total: Dim, inner: Dim) -> Value:
    """Where the elements of a [outer, total, inner] tensor lie in a sequence of its parts along the middle axis.

    ``lengths`` [n] are the parts' sizes and add up to ``total``; the result is int64 [outer * total * inner].
    """
    ends = g.call("aten.cumsum.default", lengths, 0, dtype=torch.int64)
    places = g.arange(0, total)
    behind = g.binary("ge", g.unsqueeze(places, 1), g.unsqueeze(ends, 0))
    part = g.sum(g.cast(behind, torch.int64), [1])
    begins = g.sub(ends, lengths)
    begin = g.unsqueeze(g.call("aten.index_select.default", begins, 0, part), 1)
    length = g.unsqueeze(g.call("aten.index_select.default", lengths, 0, part), 1)
    inside = g.sub(g.unsqueeze(places, 1), begin)
    rows = g.reshape(g.arange(0, outer), [outer, 1, 1])
    columns = g.reshape(g.arange(0, inner), [1, 1, inner])
    many, each = g.size_value(outer), g.size_value(inner)
    line = g.add(g.mul(rows, g.reshape(length, [1, total, 1])), g.reshape(inside, [1, total, 1]))
    first = g.reshape(g.mul(g.mul(begin, many), each), [1, total, 1])
    addresses = g.add(g.add(first, g.mul(line, each)), columns)
    return g.reshape(addresses, [D.product([outer, total, inner])])


def concatenated(g: ProgramBuilder, sequence: RunTimeSequence, axis: int) -> Value:
    """The elements one after the other along ``axis``; their other sizes are equal, which is asserted."""
    sizes = _common_row(g, sequence, skip=axis)
    lengths = g.select(sequence.shapes, 1, axis)
    total = g.item(g.sum(lengths, [0]))
    outer, inner = D.product(sizes[:axis]), D.product(sizes[axis + 1 :])
    addresses = _addresses(g, lengths, outer, total, inner)
    flat: Value = g.call("aten.index_select.default", sequence.data, 0, addresses)
    return g.reshape(flat, [*sizes[:axis], total, *sizes[axis + 1 :]])


def stacked(g: ProgramBuilder, sequence: RunTimeSequence, axis: int) -> Value:
    """The elements along a new ``axis``; their sizes are equal, which is asserted."""
    sizes = _common_row(g, sequence, skip=None)
    whole = g.reshape(sequence.data, [sequence.length, *sizes])
    order = list(range(1, whole.rank))
    order.insert(axis, 0)
    return g.permute(whole, order)


def _common_row(g: ProgramBuilder, sequence: RunTimeSequence, skip: int | None) -> list[Dim]:
    """The sizes that all elements share, with that of axis ``skip`` left open; there is an element."""
    known = element_sizes(g, sequence)
    message = f"{g.origin or 'a sequence'}: a sequence without elements cannot be concatenated"
    g.require(_truth(sympy.Ge(sympy.sympify(sequence.length), 1)), message)
    sizes = _row(g, sequence, 0)
    for axis in range(len(known)):
        if axis == skip:
            continue
        column = g.select(sequence.shapes, 1, axis)
        largest = g.item(g.amax(column, [0]))
        smallest = g.item(g.amin(column, [0]))
        for extreme in (largest, smallest):
            g.require_equal(sizes[axis], extreme, f"size {axis} of the elements of a sequence")
    return sizes


def split(g: ProgramBuilder, data: Value, lengths: Value, axis: int) -> RunTimeSequence:
    """``data`` in parts of ``lengths`` [n] along ``axis``; they add up to its size, which is asserted."""
    lengths = g.cast(lengths, torch.int64)
    count, total = lengths.shape[0], data.shape[axis]
    message = f"{g.origin or 'a split'}: the sizes of the parts must not be negative"
    negative = g.sum(g.cast(g.binary("lt", lengths, 0), torch.int64), [0])
    g.require(_truth(sympy.Eq(sympy.sympify(g.item(negative)), 0)), message)
    g.require_equal(g.item(g.sum(lengths, [0])), total, "the sum of the sizes of the parts")
    columns = []
    for own, size in enumerate(data.shape):
        column = lengths if own == axis else g.expand(g.reshape(g.size_value(size), [1]), [count])
        columns.append(g.unsqueeze(column, 1))
    outer, inner = D.product(data.shape[:axis]), D.product(data.shape[axis + 1 :])
    addresses = _addresses(g, lengths, outer, total, inner)
    flat = g.reshape(data, [D.product(data.shape)])
    moved: Value = g.call("aten.scatter.src", g.full(flat.shape, 0, data.dtype), 0, addresses, flat)
    sizes = [None if own == axis else size for own, size in enumerate(known_sizes(data.shape))]
    return RunTimeSequence(moved, g.cat(columns, 1), tuple(sizes))


def split_singly(g: ProgramBuilder, data: Value, axis: int, keep: bool) -> RunTimeSequence:
    """``data`` in parts of size 1 along ``axis``, which stays where ``keep`` says so."""
    count = data.shape[axis]
    order = [axis, *(other for other in range(data.rank) if other != axis)]
    flat = g.reshape(g.permute(data, order), [D.product(data.shape)])
    shape: Sequence[Dim] = [1 if own == axis else size for own, size in enumerate(data.shape) if keep or own != axis]
    row = g.reshape(g.sizes(shape), [1, len(shape)])
    return RunTimeSequence(flat, g.expand(row, [count, len(shape)]), known_sizes(shape))
