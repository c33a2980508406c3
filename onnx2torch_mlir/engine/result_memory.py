"""The memory of results that nobody uses any more: the next call finds it again, for fresh pages cost more than most nodes."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from onnx2torch_mlir.engine import arrays, layout
from onnx2torch_mlir.engine.arrays import Array

_SMALL = 1 << 14
"""Results of up to this many bytes are copied: cheaper than an owner of their own."""
_REMEMBERED = 64


class ResultMemory:
    """Blocks of memory (layout.py) that arrays have given back, at most as many as one call has results.

    Arrays outlive the engine: what they give back after `close` is freed. There are no locks, for arrays end wherever
    Python collects them, in the midst of these functions too.
    """

    def __init__(self, most: int) -> None:
        """Without blocks yet; it keeps ``most`` of them."""
        self._most = most
        self._blocks: list[int] = []
        self._windows: dict[tuple[int, int, tuple[int, ...]], Array] = {}
        """Arrays over memory that small results lay in, by address, type and shape: malloc gives the same again. To make one
        takes longer than to copy what is in it; they are read only while the memory is that of a result."""

    def array(self, address: int, block: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The dense elements at ``address`` in ``block``, which comes back when nothing uses them any more."""
        if dtype.itemsize * math.prod(shape) <= _SMALL:
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

    def lend(self, context: int) -> None:
        """Put all blocks among the free ones of a context: what its call does not use of these it frees at its end."""
        if not self._blocks:
            return
        head = context + 8 * layout.FREE
        while (block := self._taken()) is not None:
            first = _word(head).value
            _word(block + 8 * layout.PREVIOUS).value = 0
            _word(block + 8 * layout.NEXT).value = first
            if first:
                _word(first + 8 * layout.PREVIOUS).value = block
            _word(head).value = block

    def close(self) -> None:
        """Free all blocks, those that come back later too."""
        self._most = 0
        while (block := self._taken()) is not None:
            _free(block)

    def _give_back(self, block: int) -> None:
        self._blocks.append(block)
        if len(self._blocks) > self._most and (oldest := self._taken()) is not None:
            _free(oldest)

    def _taken(self) -> int | None:
        try:
            return self._blocks.pop(0)
        except IndexError:
            return None


_word = ctypes.c_uint64.from_address


def _free(block: int) -> None:
    arrays.free(layout.allocation(block))
