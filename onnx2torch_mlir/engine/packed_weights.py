"""Weights in the order in which register tiles read them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.computed import Computed, Told
from onnx2torch_mlir.engine.derived import Derived, Weights, numbers_of
from onnx2torch_mlir.engine.layout import AS_BYTES, AS_FOURS, AS_PAIRS, INTEGERS_HEADER, TILE_PLACES, Packing
from onnx2torch_mlir.engine.packed_codes import packed_codes
from onnx2torch_mlir.engine.packing_walk import Walk
from onnx2torch_mlir.engine.pages import Room

_Placed = tuple[int, int, Array]
"""A part of a weight along a dim of its packing: the dim, where it begins there, and the part, with an axis for each dim."""

_AT_ONCE = 4 << 20
"""Bytes of a weight that are copied before this is told."""
_TIMES_AS_INTEGERS = 4
"""The least with which windows of integers become integers."""
_TRANSFORMED_AT_ONCE = 1 << 16
"""Numbers that windows become before they are copied."""


def prepared(
    weights: Weights, packings: Sequence[Packing], derived: Sequence[Derived], told: Told | None = None
) -> tuple[list[Array], list[Array]]:
    """The weights that are computed from ``weights``, and all that ``packings`` ask for.

    What is only read packed is an empty array in its shape's place. ``told`` what is copied of ``weights``.
    """
    computed: list[Array] = []
    room = Room()
    own = len(weights)
    result = {
        i: packed(weights[packing.weight], packing, room, told) for i, packing in enumerate(packings) if packing.weight < own
    }
    for number, (shape, is_read, steps) in enumerate(derived, own):
        weight = Computed(shape, steps, weights, told)
        result |= {i: packed(weight, packing, room) for i, packing in enumerate(packings) if packing.weight == number}
        computed.append(weight.numbers() if is_read else absent(shape, np.dtype(np.float32)))
    room.end()
    return computed, [result[position] for position in range(len(packings))]


def absent(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """What stands for an array of which only the sizes are read."""
    return as_strided(np.zeros(1, dtype), shape, [0] * len(shape), writeable=False)


def packed(weight: Array | Computed, packing: Packing, room: Room | None = None, told: Told | None = None) -> Array:
    """A ``weight`` as ``packing`` says: an array of its ``shape``, or integers or codes after a header, 64-byte aligned.

    It lies in ``room``, which is one of its own unless it is given. ``told`` is what of the weight has been copied.
    """
    room = room or Room()
    if isinstance(weight, Computed):
        if packing.codes:
            return packed_codes(weight, packing, room)
        return _floats(_computed_parts(weight, packing), np.dtype(np.float32), packing, room)
    count, step = packing.columns
    dims = [*packing.batches, *packing.segments, (count, step)]
    size = weight.itemsize
    flat = np.ascontiguousarray(weight).reshape(-1)[packing.offset :]
    view = as_strided(flat, [n for n, _ in dims], [s * size for _, s in dims], writeable=False)
    if packing.zero is not None:
        integers = _integers(view, packing, room)
        if told is not None:
            told(weight.ctypes.data, weight.nbytes)
        return integers
    return _floats(_parts(view, packing, told), weight.dtype, packing, room)


def _floats(parts: Iterator[_Placed], dtype: np.dtype[Any], packing: Packing, room: Room) -> Array:
    """The parts of a weight in panels."""
    result = room.empty(math.prod(packing.shape) * dtype.itemsize).view(dtype).reshape(packing.shape)
    panels = np.moveaxis(result, len(packing.packed_batches), -2)
    for dim, start, view in parts:
        by_columns = dim == view.ndim - 1
        place = [slice(None)] * (panels.ndim - 2)
        if not by_columns:
            place[dim] = slice(start, start + view.shape[dim])
        for number, columns, first in _by_part(packing, start if by_columns else 0, view.shape[-1]):
            # Columns are an axis of whole panels there.
            whole = slice(first // packing.width, -(-(first + columns.stop - columns.start) // packing.width))
            target = panels[..., number :: packing.parts, :][(*place, whole)]
            (_fill_transformed if packing.windows else _fill)(target, view[..., columns])
    if packing.few:
        _few_by_themselves(result, packing)
    return result


def _few_by_themselves(packed: Array, packing: Packing) -> None:
    """Move the last columns of ``packed`` panels to where they belong: see `Packing`."""
    batches, width = math.prod(packing.packed_batches), packing.width
    lanes, few = width // 2, packing.few
    before = (packing.columns[0] - few) % width
    run = packing.run
    for batch in packed.reshape(batches, -1, math.prod(packing.shape[len(packing.packed_batches) + 1 :])):
        panel = batch[-1].reshape(-1, run, width)
        left, columns = panel[..., :before].copy(), panel[..., before : before + few].copy()
        whole = run // lanes * lanes
        parts = (columns[:, :whole].reshape(len(panel), -1, lanes, few), columns[:, whole:].reshape(len(panel), 1, -1, few))
        by_column = [part.swapaxes(2, 3).reshape(len(panel), -1) for part in parts]
        moved = np.concatenate(by_column, axis=1).reshape(-1)
        batch[-1, : left.size] = left.reshape(-1)
        batch[-1, left.size : left.size + moved.size] = moved


def _by_part(packing: Packing, start: int, count: int) -> Iterator[tuple[int, slice, int]]:
    """``count`` columns from ``start`` on: the number of each part that has some of them, which of them these are, and the
    first's number there."""
    each = packing.columns[0] // packing.parts
    for number in range(packing.parts):
        before = number * each - start
        low, high = max(before, 0), min(before + each, count)
        if low < high or packing.parts == 1:
            yield number, slice(low, high), low - before


def _computed_parts(weight: Computed, packing: Packing) -> Iterator[_Placed]:
    walk = Walk(packing, weight.shape)
    for start, value in walk.parts(weight):
        view = walk.by_dim(numbers_of(value))
        yield view.ndim - 1, start, view


def _parts(view: Array, packing: Packing, told: Told | None) -> Iterator[_Placed]:
    """A view, a piece of memory after the other: along the dim of the largest steps. ``told`` is what has been copied."""
    dim = view.ndim - 1 if packing.windows else int(np.argmax(view.strides))
    count, width = view.shape[dim], packing.width if dim == view.ndim - 1 else 1
    step = max(count, 1)
    if not packing.windows and view.nbytes > _AT_ONCE and min(view.strides) >= 0:
        step = max(count * _AT_ONCE // view.nbytes // width, 1) * width
    for start in range(0, max(count, 1), step):
        part = view[(slice(None),) * dim + (slice(start, start + step),)]
        yield dim, start, part
        if told is not None:
            slowest = max(part.strides)
            told(part.ctypes.data, slowest * part.shape[part.strides.index(slowest)])


def _fill(panels: Array, view: Array) -> None:
    """The columns of a view, in panels; beyond the last there are zeros."""
    count, width = view.shape[-1], panels.shape[-1]
    full = count // width
    whole = view[..., : full * width]
    panels[..., :full, :] = whole.reshape(*whole.shape[:-1], full, width)
    if rest := count - full * width:
        panels[..., full, :rest] = view[..., full * width :]
        panels[..., full, rest:] = 0


def _fill_transformed(panels: Array, windows: Array) -> None:
    """The columns of windows [3, 3, channels, columns], as Winograd's F(2x2, 3x3) multiplies them, in panels."""
    width = panels.shape[-1]
    for start, end in _some_at_a_time(windows, width):
        _fill(panels[..., start // width : -(-end // width), :], _transformed(windows[..., start:end]))


def _some_at_a_time(windows: Array, width: int) -> Iterator[tuple[int, int]]:
    """The first and the end of some columns after the other, in whole panels: while windows are transformed, the numbers
    between take eight times as much memory as floats."""
    channels, count = windows.shape[2:]
    step = max(_TRANSFORMED_AT_ONCE // (TILE_PLACES * max(channels, 1)) // width, 1) * width
    yield from ((start, min(start + step, count)) for start in range(0, count, step))


def _transformed(windows: Array, times: int = 1) -> Array:
    """Windows [3, 3, channels, columns] as numbers that are multiplied one by one, so many times: [16, channels, columns]."""
    places = _filtered(_filtered(windows.astype(np.float64), 0), 1) * times
    return places.astype(windows.dtype).reshape(TILE_PLACES, *windows.shape[2:])


def _filtered(windows: Array, axis: int) -> Array:
    """Four numbers of each three along the axis: the filter transform of Winograd's F(2, 3)."""
    first, middle, last = (windows.take(place, axis) for place in range(3))
    outer, inner = (first + last) / 2, middle / 2
    return np.stack([first, outer + inner, outer - inner, last], axis)


def _integers(view: Array, packing: Packing, room: Room) -> Array:
    """Bytes [batches, segments, columns] as fours or pairs (`layout.AS_FOURS` …), after the header."""
    count, width = packing.columns[0], packing.width
    batches = math.prod(packing.packed_batches)
    segments = packing.segments[-1:] if packing.windows else packing.segments
    steps = math.prod(n for n, _ in segments)
    numbers = view.view(np.int8 if packing.signed else np.uint8)
    zero, panels = packing.zero or 0, -(-count // width)
    low, high = (int(numbers.min()) - zero, int(numbers.max()) - zero) if numbers.size else (0, 0)
    fours = packing.largest > 0 and low >= -packing.largest and high <= min(packing.largest, 127) and not packing.windows
    form = AS_FOURS if fours else AS_BYTES if packing.holds_bytes and not packing.windows else AS_PAIRS
    per, kind = (4 if fours else 2), np.dtype(np.int16 if form == AS_PAIRS else np.int8)
    groups = -(-steps // per)
    whole = np.zeros((batches, groups * per, panels * width), kind)
    if packing.windows:
        for start, end in _some_at_a_time(numbers, width):
            some = numbers[..., start:end].astype(np.int16) - np.int16(zero)
            whole[:, :steps, start:end] = _transformed(some, _TIMES_AS_INTEGERS)
    else:
        whole[:, :steps, :count] = numbers.reshape(batches, steps, count).astype(np.int16) - np.int16(zero)
    size = width * (per * kind.itemsize * groups + 4 * fours)
    memory = room.empty(INTEGERS_HEADER + batches * panels * size)
    memory[:INTEGERS_HEADER].view(np.int64)[:2] = form, panels * size
    records = memory[INTEGERS_HEADER:].reshape(batches, panels, size)
    if fours:
        records[..., : 4 * width].view(np.int32)[...] = whole.sum(axis=1, dtype=np.int32).reshape(batches, panels, width)
    target = records[..., 4 * width * fours :].view(kind).reshape(batches, panels, groups, width, per)
    target[...] = whole.reshape(batches, groups, per, panels, width).transpose(0, 3, 1, 4, 2)
    return memory
