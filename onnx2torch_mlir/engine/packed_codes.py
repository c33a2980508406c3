"""Dequantized weights packed for the contraction driver as codes of a few bits, with a scale for each block of a column.

See compiler/coded_columns.py, which reads them. A weight whose codes do not fit, or whose scales change too often, is packed
as floats; the header tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.derived import Codes
from onnx2torch_mlir.engine.layout import CODES_HEADER, FLOAT_CODES, Packing
from onnx2torch_mlir.engine.pages import Room

_WIDTHS = (2, 4, 8)
_FLOATS = 32
_TYPES: dict[Any, str] = {np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16"}
_ONE = np.float32(1).view(np.uint32)


def packed_codes(weight: Array | Codes, packing: Packing, room: Room) -> Array:
    """``weight`` as ``packing`` says, in ``room``, as words of 32 bits in one dimension.

    The header's words of 64 bits are `CODES_HEADER`. Then come batches of panels of ``packing.width`` columns, each of blocks
    of steps along the sum: for the panel's columns the scales, the zero points (unless all are the same, which then is in the
    header), and the codes, of which those of neighbouring steps share a word, from its lowest bits on.
    """
    if not isinstance(weight, Codes):
        return _floats(weight, packing, room)
    if not np.issubdtype(weight.code.dtype, np.integer):
        return _halves(weight, packing, room)
    code = _steps(weight.code, packing)
    zero, scale = (None if part is None else _steps(part, packing) for part in (weight.zero, weight.scale))
    if zero is None or not code.size:
        zero = np.broadcast_to(np.float32(0), code.shape)
    first = zero[:1, :1, :1]
    same = not any(zero.strides) or bool((zero == first).all())
    zero = first if same and code.size else zero
    parts = [part for part in (None if same else zero, scale) if part is not None]
    batches, steps, count = code.shape
    block = _block(steps, parts)
    bits, base = _bits(code, zero, block, steps)
    if not bits:
        return _floats(weight.numbers(), packing, room)
    block = -(-block * bits // 32) * 32 // bits
    blocks, groups = -(-steps // block), block * bits // 32
    width, panels = packing.width, -(-count // packing.width)
    rows = 2 - same + groups
    starts = slice(0, steps, block)
    result = _words(room, batches * panels * blocks * rows * width)
    records = result[CODES_HEADER:].reshape(batches, panels, blocks, rows, width)
    records[:, :, :, 0] = _columns(scale[:, starts].view(np.uint32), width) if scale is not None else _ONE
    if not same:
        records[:, :, :, 1] = _columns((zero[:, starts] - np.float32(base)).view(np.uint32), width)
    target = records[:, :, :, rows - groups :].view(np.uint8).reshape(batches, panels, blocks, groups, width, 4)
    numbers = np.zeros((batches, panels, blocks * block, width), np.uint8)
    numbers[:, :, :steps] = _columns(code.astype(np.int8, copy=False).view(np.uint8), width)
    numbers = (numbers - np.uint8(base % 256)).reshape(batches, panels, blocks, groups, 4, 8 // bits, width)
    for byte in range(4):
        whole = numbers[..., byte, 0, :]
        for place in range(1, 8 // bits):
            whole = whole | (numbers[..., byte, place, :] << np.uint8(place * bits))
        target[..., byte] = whole
    own = int((first.reshape(-1)[:1] - np.float32(base)).view(np.uint32)[0]) if first.size else 0
    panel = 4 * rows * width * blocks
    words = [bits, block, 4 * rows * width, not same, own, panel, panel * panels, bits]
    result[:CODES_HEADER].view(np.int64)[:] = words
    return result


def _halves(weight: Codes, packing: Packing, room: Room) -> Array:
    """Floats of 16 bits: panels of one block each, whose scales are 1."""
    if weight.zero is not None or weight.scale is not None:
        return _floats(weight.numbers(), packing, room)
    code = _steps(weight.code, packing).view(np.uint16)
    batches, steps, count = code.shape
    width, groups = packing.width, -(-max(steps, 1) // 2)
    panels, rows = -(-count // width), 1 + groups
    result = _words(room, batches * panels * rows * width)
    records = result[CODES_HEADER:].reshape(batches, panels, rows, width)
    records[:, :, 0] = _ONE
    halves = records.view(np.uint16).reshape(batches, panels, 2 * rows, width)[:, :, 2:]
    halves[:, :, :steps] = _columns(code, width)
    halves[:, :, steps:] = 0
    panel = 4 * rows * width
    words = [16, 2 * groups, panel, 0, 0, panel, panel * panels, FLOAT_CODES[_TYPES[weight.code.dtype]]]
    result[:CODES_HEADER].view(np.int64)[:] = words
    return result


def _floats(weight: Array, packing: Packing, room: Room) -> Array:
    """The header, then panels of floats."""
    numbers = _steps(np.asarray(weight, np.float32), packing)
    batches, steps, count = numbers.shape
    panels = -(-count // packing.width)
    result = _words(room, batches * panels * steps * packing.width)
    target = result[CODES_HEADER:].reshape(batches, panels, steps, packing.width)
    target[...] = _columns(numbers.view(np.uint32), packing.width)
    panel = 4 * steps * packing.width
    result[:CODES_HEADER].view(np.int64)[:] = [_FLOATS, max(steps, 1), panel, 0, 0, panel, panel * panels, _FLOATS]
    return result


def _steps(array: Array, packing: Packing) -> Array:
    """The numbers by batch, step along the sum, and column."""
    dims = [*packing.batches, *packing.segments, packing.columns]
    counts = [*(math.prod(n for n, _ in part) for part in (packing.batches, packing.segments)), packing.columns[0]]
    if array.size and not any(array.strides):
        return np.broadcast_to(array.reshape(-1)[0], counts)
    axes = _axes(array.shape, dims) if packing.offset == 0 else None
    if axes is not None:
        # Nothing is laid out anew, which for a transposed weight takes longer than all the rest.
        return array.squeeze(tuple(axis for axis, n in enumerate(array.shape) if n == 1)).transpose(axes).reshape(counts)
    flat = np.ascontiguousarray(array).reshape(-1)[packing.offset :]
    view = as_strided(flat, [n for n, _ in dims], [s * array.itemsize for _, s in dims], writeable=False)
    return view.reshape(counts)


def _axes(shape: tuple[int, ...], dims: Sequence[Sequence[int]]) -> list[int] | None:
    """The axis (of those with more than one element) that each of ``dims`` with more than one turn walks along."""
    strides = {math.prod(shape[axis + 1 :]): n for axis, n in enumerate(shape) if n != 1}
    places = {stride: position for position, stride in enumerate(strides)}
    moving = [(n, stride) for n, stride in dims if n != 1]
    if [strides.get(stride) for _, stride in moving] != [n for n, _ in moving] or len(moving) != len(strides):
        return None
    return [places[stride] for _, stride in moving]


def _columns(array: Array, width: int) -> Array:
    """[batches, steps, columns] as [batches, panels, steps, width], 0 beyond the last column."""
    batches, steps, count = array.shape
    panels = -(-count // width)
    if count % width:
        array = np.concatenate([array, np.zeros((batches, steps, panels * width - count), array.dtype)], axis=2)
    return array.reshape(batches, steps, panels, width).transpose(0, 2, 1, 3)


def _block(steps: int, parts: list[Array]) -> int:
    """The most steps along which no scale and no zero point changes, from multiples of that number on."""
    changes = np.zeros(max(steps - 1, 0), np.bool_)
    for part in parts:
        for numbers in part:
            changes |= (numbers[1:] != numbers[:-1]).any(axis=1)
    places = np.flatnonzero(changes) + 1
    return int(np.gcd.reduce(places)) if places.size else max(steps, 1)


def _bits(code: Array, zero: Array, block: int, steps: int) -> tuple[int, int]:
    """How many bits hold the codes less a number, and that number; 0 where none of the widths do."""
    low, high = (int(code.min()), int(code.max())) if code.size else (0, 0)
    exact = bool((np.abs(zero) < 1 << 22).all() and (zero == np.rint(zero)).all())
    for bits in _WIDTHS:
        base = 0 if low >= 0 else -(1 << (bits - 1))
        fits = base <= low and high - base < 1 << bits and (base == 0 or exact)
        if fits and (block >= steps or block * bits % 32 == 0):
            return bits, base
    return 0, 0


def _words(room: Room, count: int) -> Array:
    return room.empty(4 * (count + CODES_HEADER)).view(np.uint32)
