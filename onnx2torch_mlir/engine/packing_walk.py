"""How a packing walks over a computed weight: along which axes, and the weight's parts as it meets them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.computed import Computed
from onnx2torch_mlir.engine.derived import Value
from onnx2torch_mlir.engine.layout import Packing


class Walk:
    """What ``packing`` walks over, a weight of ``shape``, in dims: batches, segments (steps along the sum), and columns."""

    def __init__(self, packing: Packing, shape: Sequence[int]) -> None:
        self.batches, self.steps = (math.prod(n for n, _ in part) for part in (packing.batches, packing.segments))
        self.columns, self.width = packing.columns[0], packing.width
        self._dims = [*packing.batches, *packing.segments, packing.columns]
        self._offset = packing.offset
        self._axes = _axes(shape, self._dims) if packing.offset == 0 else None
        """The weight's axis of each dim, None where that does not move; None if there are no such axes."""

    def parts(self, weight: Computed) -> Iterator[tuple[int, Value]]:
        """Some columns of the weight after the other, in whole panels: the number of the first, and what they are."""
        return weight.parts(None if self._axes is None else self._axes[-1], self.width)

    def by_dim(self, array: Array) -> Array:
        """What belongs to a part of the weight, with an axis for each dim."""
        if self._axes is not None:
            # Nothing is laid out anew, which for a transposed weight takes longer than all the rest.
            moving = [axis for axis in self._axes if axis is not None]
            others = [axis for axis in range(array.ndim) if axis not in moving]
            return array.transpose(moving + others).reshape([1 if axis is None else array.shape[axis] for axis in self._axes])
        counts, steps = zip(*self._dims, strict=True)
        if array.size and not any(array.strides):
            return np.broadcast_to(array.reshape(-1)[0], counts)
        flat = np.ascontiguousarray(array).reshape(-1)[self._offset :]
        return as_strided(flat, counts, [step * array.itemsize for step in steps], writeable=False)

    def by_step(self, array: Array) -> Array:
        """The same as [batches, steps, columns]."""
        found = self.by_dim(array)
        return found.reshape(self.batches, self.steps, found.shape[-1])


def _axes(shape: Sequence[int], dims: Sequence[Sequence[int]]) -> list[int | None] | None:
    """The axis (of those with more than one element) that each of ``dims`` with more than one turn walks along."""
    places = {math.prod(shape[axis + 1 :]): axis for axis, size in enumerate(shape) if size != 1}
    axes = [None if count == 1 else places.get(step, -1) for count, step in dims]
    moving = [(axis, count) for axis, (count, _) in zip(axes, dims, strict=True) if axis is not None]
    whole = all(shape[axis] == count for axis, count in moving) and sorted(axis for axis, _ in moving) == sorted(
        places.values()
    )
    return axes if whole else None
