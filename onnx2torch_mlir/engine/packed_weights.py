"""Weights in the order in which register tiles read them."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.layout import Packing


def packed(weight: Array, packing: Packing) -> Array:
    """A dense ``weight`` as ``packing`` says: an array of its ``shape``, 64-byte aligned."""
    count, step = packing.columns
    dims = [*packing.batches, *packing.segments, (count, step)]
    size = weight.itemsize
    view = as_strided(weight.reshape(-1)[packing.offset :], [n for n, _ in dims], [s * size for _, s in dims], writeable=False)
    result = _aligned(packing.shape, weight.dtype)
    panels = np.moveaxis(result, len(packing.batches), -2)
    full = count // packing.width
    whole = view[..., : full * packing.width]
    panels[..., :full, :] = whole.reshape(*whole.shape[:-1], full, packing.width)
    if rest := count - full * packing.width:
        panels[..., full, :rest] = view[..., full * packing.width :]
        panels[..., full, rest:] = 0
    return result


def _aligned(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    memory = np.empty(int(np.prod(shape)) * dtype.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + memory.size - 64].view(dtype).reshape(shape)
