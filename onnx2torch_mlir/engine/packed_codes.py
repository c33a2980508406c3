"""Dequantized weights packed for the contraction driver as codes of a few bits, with a scale for each block of a column.

See compiler/coded_columns.py, which reads them. A weight whose codes do not fit, or whose scales change too often, is packed
as floats; the header tells.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.computed import Computed
from onnx2torch_mlir.engine.derived import Codes, Value, numbers_of
from onnx2torch_mlir.engine.layout import CODES_HEADER, FLOAT_CODES, INTEGERS, Packing
from onnx2torch_mlir.engine.packing_walk import Walk
from onnx2torch_mlir.engine.pages import Room

_WIDTHS = (2, 4, 8)
_HALF, _FLOATS = 16, 32
_TYPES: dict[Any, str] = {np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16"}
_MAGNITUDE, _SMALLEST_NORMAL = np.uint16(0x7FFF), np.uint16(0x0080)
"""Of a bfloat16: all bits but its sign, and the smallest number that is not subnormal."""
_ONE = np.float32(1).view(np.uint32)


class _Form(NamedTuple):
    """How columns are packed: the bits of a code and what it is counted from, the steps and the rows of words of a block,
    whether columns have zero points of their own, else the bits of the one they have (of bfloat16, whether some are subnormal),
    and the type of the codes."""

    bits: int
    base: int
    block: int
    rows: int
    own: bool
    zero: int
    type: int


def packed_codes(weight: Computed, packing: Packing, room: Room) -> Array:
    """``weight`` as ``packing`` says, in ``room``, as words of 32 bits in one dimension.

    The header's words of 64 bits are `CODES_HEADER`. Then come batches of panels of ``packing.width`` columns, each of blocks
    of steps along the sum: for the panel's columns the scales, the zero points (unless all are the same, which then is in the
    header), and the codes, of which those of neighbouring steps share a word, from its lowest bits on.
    """
    walk = Walk(packing, weight.shape)
    known = _Known(walk.steps)
    while True:
        form: _Form | None = None
        for first, value in walk.parts(weight):
            part = value.moved(walk.by_step) if isinstance(value, Codes) else walk.by_step(value)
            known.add(part)
            if form is None:
                # The first columns mostly tell the form of all.
                form = known.form()
                words, records = _empty(form, walk, room)
            if form == known.form():
                _write(part, records[:, first // walk.width : -(-(first + part.shape[2]) // walk.width)], form)
            # Before the next ones are made.
            del value, part
        if form == known.form():
            return words


def _empty(form: _Form, walk: Walk, room: Room) -> tuple[Array, Array]:
    """Words after the header, and these by batch, panel, block, row and column."""
    panels, blocks = -(-walk.columns // walk.width), 1 if form.bits >= _HALF else -(-walk.steps // form.block)
    record = 4 * form.rows * walk.width
    words = room.empty(4 * CODES_HEADER + walk.batches * panels * blocks * record).view(np.uint32)
    panel = blocks * record
    header = [form.bits, form.block, record, form.own, form.zero, panel, panels * panel, form.type]
    words[:CODES_HEADER].view(np.int64)[:] = header
    return words, words[CODES_HEADER:].reshape(walk.batches, panels, blocks, form.rows, walk.width)


class _Known:
    """What is known of codes by the columns that were looked at: by all of them, what their form is."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._types: set[str] = set()
        """What the codes are, "" where they are none."""
        self._low, self._high = math.inf, -math.inf
        self._block = 0
        """The most steps along which no scale and no zero point changes, from multiples of that number on; 0 if none does."""
        self._zero: Array = np.empty(0, np.float32)
        """The first zero point."""
        self._own, self._exact = False, True
        """Whether there are other zero points; whether all less a small integer are exact."""
        self._subnormal = False
        """Whether there are subnormal numbers of bfloat16."""

    def add(self, part: Value) -> None:
        """Look at some columns [batches, steps, columns]."""
        if not isinstance(part, Codes):
            self._types.add("")
        elif not np.issubdtype(part.code.dtype, np.integer):
            self._types.add(_TYPES[part.code.dtype] if part.zero is None and part.scale is None else "")
            if _TYPES[part.code.dtype] == "bf16" and not self._subnormal:
                magnitudes = part.code.view(np.uint16) & _MAGNITUDE
                self._subnormal = bool(((magnitudes > 0) & (magnitudes < _SMALLEST_NORMAL)).any())
        else:
            self._types.add(INTEGERS)
            if part.code.size:
                self._add_integers(part.code, part.zero, part.scale)

    def _add_integers(self, code: Array, zero: Array | None, scale: Array | None) -> None:
        self._low, self._high = min(self._low, int(code.min())), max(self._high, int(code.max()))
        zero = np.zeros((1, 1, 1), np.float32) if zero is None else zero
        zero = zero if any(zero.strides) else zero[:1, :1, :1]
        if not self._zero.size:
            self._zero = zero[:1, :1, :1].copy()
        own = not bool((zero == self._zero).all())
        for numbers in (zero if own else None, scale):
            if numbers is None or not numbers.strides[1]:
                continue
            changes = (numbers[:, 1:] != numbers[:, :-1]).any(axis=(0, 2))
            self._block = int(np.gcd.reduce(np.flatnonzero(changes) + 1, initial=self._block))
        self._own = self._own or own
        self._exact = self._exact and bool((np.abs(zero) < 1 << 22).all() and (zero == np.rint(zero)).all())

    def form(self) -> _Form:
        """The form by what is known."""
        (only,) = self._types if len(self._types) == 1 else ("",)
        if only in FLOAT_CODES:
            groups = -(-max(self._steps, 1) // 2)
            return _Form(_HALF, 0, 2 * groups, 1 + groups, False, int(self._subnormal), FLOAT_CODES[only])
        block = self._block or max(self._steps, 1)
        bits, base = self._bits(block) if only == INTEGERS else (0, 0)
        if not bits:
            return _Form(_FLOATS, 0, max(self._steps, 1), self._steps, False, 0, _FLOATS)
        groups = -(-block * bits // 32)
        zero = int((self._zero - np.float32(base)).view(np.uint32)[0, 0, 0]) if self._zero.size else 0
        return _Form(bits, base, groups * 32 // bits, 1 + self._own + groups, self._own, zero, bits)

    def _bits(self, block: int) -> tuple[int, int]:
        """How many bits hold the codes less a number, and that number; 0 where none of the widths do."""
        low, high = (self._low, self._high) if self._low <= self._high else (0, 0)
        for bits in _WIDTHS:
            base = 0 if low >= 0 else -(1 << (bits - 1))
            fits = base <= low and high - base < 1 << bits and (base == 0 or self._exact)
            if fits and (block >= self._steps or block * bits % 32 == 0):
                return bits, base
        return 0, 0


def _write(part: Value, records: Array, form: _Form) -> None:
    """Some columns [batches, steps, columns] into [batches, panels, blocks, rows, width]."""
    width = records.shape[-1]
    if not isinstance(part, Codes) or form.bits == _FLOATS:
        records[:, :, 0] = _columns(np.asarray(numbers_of(part), np.float32).view(np.uint32), width)
    elif form.bits == _HALF:
        batches, panels, _, rows, _ = records.shape
        records[:, :, 0, 0] = _ONE
        halves = records[:, :, 0, 1:].view(np.uint16)
        if form.type == FLOAT_CODES["bf16"]:
            # Neighbouring steps share a word.
            by_step = halves.reshape(batches, panels, rows - 1, width, 2).swapaxes(3, 4)
        else:
            by_step = halves.reshape(batches, panels, rows - 1, 2, width)
        columns, steps = _columns(part.code.view(np.uint16), width), part.shape[1]
        pairs = steps // 2
        by_step[:, :, :pairs] = columns[:, :, : 2 * pairs].reshape(batches, panels, pairs, 2, width)
        if steps % 2:
            by_step[:, :, -1, 0], by_step[:, :, -1, 1] = columns[:, :, -1], 0
    else:
        _write_integers(part, records, form)


def _write_integers(part: Codes, records: Array, form: _Form) -> None:
    batches, panels, blocks, _, width = records.shape
    records[..., 0, :] = _ONE if part.scale is None else _columns(part.scale[:, :: form.block].view(np.uint32), width)
    if form.own and part.zero is not None:
        records[..., 1, :] = _columns((part.zero[:, :: form.block] - np.float32(form.base)).view(np.uint32), width)
    # Column by column, so that what shares a word lies side by side.
    numbers = np.zeros((batches, panels * width, blocks * form.block), np.uint8)
    _, steps, count = part.shape
    numbers[:, :count, :steps] = part.code.astype(np.int8, copy=False).view(np.uint8).swapaxes(1, 2)
    numbers -= np.uint8(form.base % 256)
    bits = form.bits
    while bits < 8:
        pairs = numbers.view(np.uint16)
        numbers = (pairs | pairs >> (8 - bits)).astype(np.uint8)
        bits *= 2
    words = numbers.view(np.uint32).reshape(batches, panels, width, blocks, -1)
    records[..., 1 + form.own :, :] = words.transpose(0, 1, 3, 4, 2)


def _columns(array: Array, width: int) -> Array:
    """[batches, steps, columns] as [batches, panels, steps, width], 0 beyond the last column."""
    batches, steps, count = array.shape
    panels = -(-count // width)
    if count % width:
        array = np.concatenate([array, np.zeros((batches, steps, panels * width - count), array.dtype)], axis=2)
    return array.reshape(batches, steps, panels, width).transpose(0, 2, 1, 3)
