"""Weights in the order in which register tiles read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.derived import Codes, Derived, evaluated
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.packed_codes import packed_codes


def prepared(
    weights: Sequence[Array], packings: Sequence[Packing], derived: Sequence[Derived]
) -> tuple[list[Array], list[Array]]:
    """The weights that are computed from ``weights``, and all that ``packings`` ask for.

    What is only read packed is an empty array in its shape's place.
    """
    computed: list[Array] = []
    own = len(weights)
    result = {i: packed(weights[packing.weight], packing) for i, packing in enumerate(packings) if packing.weight < own}
    for number, (shape, is_read, steps) in enumerate(derived, own):
        value = evaluated(steps, weights)
        result |= {i: packed(value, packing) for i, packing in enumerate(packings) if packing.weight == number}
        nothing = as_strided(np.zeros(1, np.float32), shape, [0] * len(shape), writeable=False)
        computed.append(as_floats(value) if is_read else nothing)
    return computed, [result[position] for position in range(len(packings))]


def as_floats(value: Array | Codes) -> Array:
    """The dense array that a weight is."""
    return np.ascontiguousarray(value.numbers() if isinstance(value, Codes) else value)


def packed(weight: Array | Codes, packing: Packing) -> Array:
    """A ``weight`` as ``packing`` says: an array of its ``shape``, or packed codes, 64-byte aligned."""
    if packing.codes:
        return packed_codes(weight, packing)
    weight = as_floats(weight)
    count, step = packing.columns
    dims = [*packing.batches, *packing.segments, (count, step)]
    size = weight.itemsize
    view = as_strided(weight.reshape(-1)[packing.offset :], [n for n, _ in dims], [s * size for _, s in dims], writeable=False)
    if packing.zero is not None:
        return _pairs(view, packing)
    result = _aligned(packing.shape, weight.dtype)
    panels = np.moveaxis(result, len(packing.batches), -2)
    full = count // packing.width
    whole = view[..., : full * packing.width]
    panels[..., :full, :] = whole.reshape(*whole.shape[:-1], full, packing.width)
    if rest := count - full * packing.width:
        panels[..., full, :rest] = view[..., full * packing.width :]
        panels[..., full, rest:] = 0
    return result


def _pairs(view: Array, packing: Packing) -> Array:
    """Bytes [batches, segments, columns] as pairs [batches, panels, pairs, width, 2] of int16."""
    count, width, batches = packing.columns[0], packing.width, view.shape[: len(packing.batches)]
    total = math.prod(n for n, _ in packing.segments)
    numbers = np.zeros((*batches, total + total % 2, -(-count // width) * width), np.int16)
    numbers[..., :total, :count] = view.view(np.int8 if packing.signed else np.uint8).reshape(*batches, total, count)
    numbers[..., :total, :count] -= np.int16(packing.zero or 0)
    pairs = numbers.reshape(*batches, numbers.shape[-2] // 2, 2, -1, width)
    result = _aligned(packing.shape, numbers.dtype)
    result[...] = np.moveaxis(pairs, (-2, -4, -1, -3), (-4, -3, -2, -1))
    return result


def _aligned(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    memory = np.empty(int(np.prod(shape)) * dtype.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + memory.size - 64].view(dtype).reshape(shape)
