"""A weight that is computed from others: what it is, part after part, so that little more than the result is in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from onnx2torch_mlir.engine.derived import Array, Step, Value, Weights, evaluated, numbers_of
from onnx2torch_mlir.engine.derived_parts import Part, part_of, shapes_of, work

Told = Callable[[int, int], None]
"""Called with the address and the number of bytes of what has been read for good."""

_AT_ONCE = 1 << 18
"""Numbers of a weight that are computed at once: more would not stay in a cache from one operation to the next."""
_MOST_WORK = 1.5
"""Times the work of the whole that all parts together may take."""


class Computed:
    """What the last of ``steps`` (derived.py) makes of ``weights``."""

    def __init__(self, shape: Sequence[int], steps: Sequence[Step], weights: Weights, told: Told | None = None) -> None:
        """``told`` is which memory of the weights has been read."""
        self.shape = tuple(shape)
        self._steps = steps
        self._weights = {step[1]: weights[step[1]] for step in steps if step[0] == "weight"}
        self._shapes = shapes_of(steps, self._weights)
        self._told = told

    def parts(self, axis: int | None, multiple: int = 1) -> Iterator[tuple[int, Value]]:
        """Where each part begins along ``axis``, and what it is, in their order; each is a ``multiple`` long but for the last.

        The whole is the only part without an axis, or where the parts would take much more work.
        """
        step = None if axis is None else self._step(axis, multiple)
        if axis is None or step is None:
            yield 0, evaluated(self._steps, self._weights)
        else:
            for start in range(0, self.shape[axis], step):
                steps, reads = self._part(axis, start, step)
                # What lies in many pieces is copied: each operation would have to collect it.
                yield start, evaluated(steps, [np.asarray(array, order="C") for _, array in reads])
                self._tell(array for number, array in reads if array.size < self._weights[number].size)
        self._tell(self._weights.values())

    def numbers(self) -> Array:
        """The dense array."""
        result = np.empty(self.shape, np.float32)
        axis = next((axis for axis, size in enumerate(self.shape) if size > 1), None)
        for start, value in self.parts(axis):
            found = numbers_of(value)
            place = () if axis is None else (slice(None),) * axis + (slice(start, start + found.shape[axis]),)
            result[(*place, ...)] = found
        return result

    def _step(self, axis: int, multiple: int) -> int | None:
        """How long parts along the axis are; None if there had better be none."""
        count, size = self.shape[axis], math.prod(self.shape)
        step = max(_AT_ONCE * count // max(size, 1) // multiple, 1) * multiple
        if step >= count:
            return None
        steps, reads = self._part(axis, 0, step)
        works = -(-count // step) * work(steps, shapes_of(steps, [array for _, array in reads]))
        return step if works <= _MOST_WORK * work(self._steps, self._shapes) else None

    def _part(self, axis: int, start: int, step: int) -> tuple[list[Step], list[tuple[int, Array]]]:
        """The steps that make a part, and their weights: of which each is a part, and that."""
        part: Part = tuple((start, min(step, size - start)) if at == axis else (0, size) for at, size in enumerate(self.shape))
        steps, reads = part_of(self._steps, self._shapes, part)
        cuts = ((number, tuple(slice(first, first + many) for first, many in ranges)) for number, ranges in reads)
        return steps, [(number, self._weights[number][cut]) for number, cut in cuts]

    def _tell(self, arrays: Iterable[Array]) -> None:
        """Tell of those that are one piece of memory."""
        for array in arrays:
            if self._told is not None and array.flags.c_contiguous:
                self._told(array.ctypes.data, array.nbytes)
