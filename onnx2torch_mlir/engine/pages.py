"""Memory for many arrays, in huge pages where the system has them.

With pages of 4 KiB, a model's weights are more pages than a processor knows the places of, and where the system finds room for
them decides which parts of a cache they share: the same program would take 7 ms in one process and 9 ms in the next.
"""

from __future__ import annotations

import contextlib
import mmap

import numpy as np

from onnx2torch_mlir.core.memory_advice import DONT_NEED, NO_HUGE_PAGE, advise
from onnx2torch_mlir.engine.arrays import Array

_HUGE = 2 << 20
_FEW = 1 << 20
"""The first bytes, which are all that small models need, are no huge page."""
_MANY = 64 << 20
"""Bytes to take at once afterwards; those that nothing is written to take no memory."""
_LINE = 64


class Room:
    """Arrays side by side, each at the beginning of a line of the cache; memory is given back when no array uses it."""

    def __init__(self) -> None:
        """Without memory yet."""
        self._left = np.empty(0, np.uint8)
        self._begun = False

    def empty(self, size: int) -> Array:
        """So many bytes, of any contents; raises MemoryError where there are none."""
        whole = -(-size // _LINE) * _LINE
        if whole > self._left.size:
            few = not self._begun and whole <= _FEW
            self._left = _aligned(np.empty(_FEW + _LINE, np.uint8), _LINE) if few else _huge(max(whole, _MANY))
            self._begun = True
        found, self._left = self._left[:size], self._left[whole:]
        return found

    def end(self) -> None:
        """Nothing more is to come: what no array uses of the last huge page goes back, if that is more than half of it."""
        address = self._left.ctypes.data
        unused = min(-address % _HUGE, self._left.size)
        if unused > _HUGE // 2:
            advise(address, unused, NO_HUGE_PAGE)
            advise(address, unused, DONT_NEED)
        self._left = self._left[:0]


def _huge(size: int) -> Array:
    # What is shared with other processes, as it would be by default, has no huge pages.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        mapping = mmap.mmap(-1, size + _HUGE, **private)
    except OSError as error:
        raise MemoryError(f"{size} bytes: {error}") from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system that has none
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return _aligned(np.frombuffer(mapping, np.uint8), _HUGE)


def _aligned(memory: Array, step: int) -> Array:
    start = -memory.ctypes.data % step
    return memory[start : start + memory.size - step]
