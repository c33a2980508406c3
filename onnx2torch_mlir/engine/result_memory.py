"""The memory of results that nobody uses any more: the next call finds it again, for fresh pages cost more than most nodes."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from onnx2torch_mlir.engine import arrays, layout
from onnx2torch_mlir.engine.arrays import Array

_SMALL = 1 << 14
"""Results of up to this many bytes are copied: cheaper than an owner of their own."""
_REMEMBERED = 64


class ResultMemory:
    """Blocks of memory (layout.py) that nobody uses any more, at most as many as one call has results (and MOST_LENT).

    Arrays give them back when they end. Those that are gone before the next call do not: that call gives the same arrays again
    (repeated_calls.py), for to make one and to end it takes as long as a small kernel.

    Arrays outlive the engine: what they give back after `close` is freed. There are no locks, for arrays end wherever
    Python collects them, in the midst of these functions too.
    """

    def __init__(self, results: int) -> None:
        """Without blocks yet; of a program that has so many results."""
        self._most = min(results, layout.MOST_LENT)
        self._blocks: list[int] = []
        self.keeps = True
        """Whether calls are to keep what they give for those that come: not while all that was kept is used."""
        self._nothing = (0,) * self._most
        self._write = struct.Struct(f"{self._most}Q").pack_into
        self._windows: dict[tuple[int, int, tuple[int, ...]], Array] = {}
        """Arrays over memory that small results lay in, by address, type and shape: malloc gives the same again. To make one
        takes longer than to copy what is in it; they are read only while the memory is that of a result."""

    def lend(self, context: Any, place: int) -> None:
        """Write blocks for the call that comes, which owns them (layout.LENT; 0 for none), into its ``context``, so many bytes
        from its beginning."""
        blocks = list[int]()
        while len(blocks) < self._most and (block := self._taken()) is not None:
            blocks.append(block)
        self._write(context, place, *blocks, *self._nothing[len(blocks) :])

    def array(self, address: int, block: int, dtype: np.dtype[Any], shape: tuple[int, ...], *, keeps: bool) -> Array:
        """The dense elements at ``address`` in ``block``, which comes back when nothing uses them any more; a copy of few,
        unless later calls are to give the same array (``keeps``), and of none."""
        count = dtype.itemsize * math.prod(shape)
        if not count or (count <= _SMALL and not keeps):
            key = (address, dtype.num, shape)
            window = self._windows.get(key)
            if window is None:
                if len(self._windows) >= _REMEMBERED:
                    self._windows.clear()
                window = self._windows[key] = arrays.window(address, dtype, shape)
            result = window.copy()
            _free(block)
            return result
        return arrays.over(address, dtype, shape, self._give_back, block)

    def close(self) -> None:
        """Free all blocks, those that come back later too."""
        self._most = 0
        while (block := self._taken()) is not None:
            _free(block)

    def _give_back(self, block: int) -> None:
        self._blocks.append(block)
        if len(self._blocks) > self._most:
            # More than one call gives: nobody waits with these for the next one's.
            self.keeps = True
            if (oldest := self._taken()) is not None:
                _free(oldest)

    def _taken(self) -> int | None:
        try:
            return self._blocks.pop(0)
        except IndexError:
            return None


def _free(block: int) -> None:
    arrays.free(layout.allocation(block))
