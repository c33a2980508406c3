"""The memory of results that nobody uses any more: the next call finds it again, for fresh pages cost more than most nodes."""

from __future__ import annotations

import math
import struct
from ctypes import addressof
from sys import getrefcount
from typing import Any, NamedTuple
from weakref import getweakrefcount

import numpy as np

from onnx2torch_mlir.engine import arrays, layout
from onnx2torch_mlir.engine.arrays import Array

_SMALL = 1 << 14
"""Results of up to this many bytes are copied: cheaper than an owner of their own."""
_REMEMBERED = 64
_REFERENCES = 3
"""To an array that nobody uses: of its `Unused`, of a variable, and of what counts them. The array refers to its memory."""


class Unused(NamedTuple):
    """An array that a call gave and that nobody uses any more, with its memory (`arrays.Lent`), which belongs to nobody now."""

    array: Array
    memory: Any


class ResultMemory:
    """Blocks of memory (layout.py) that nobody uses any more, at most as many as one call has results (and MOST_LENT).

    Where results are gone before the next call, that gives the same arrays again: to make one and to end it takes as long as a
    small kernel. Arrays that are used for longer give their blocks back when they end.

    Arrays outlive the engine: what they give back after `close` is freed. There are no locks, for arrays end wherever
    Python collects them, in the midst of these functions too.
    """

    def __init__(self, results: int) -> None:
        """Without blocks yet; of a program that has so many results."""
        self._most = min(results, layout.MOST_LENT)
        self._blocks: list[int] = []
        self._latest: list[Unused] = []
        """What the latest call gave, if the one before found its own unused."""
        self._keeps_latest = True
        self._nothing = (0,) * self._most
        self._write = struct.Struct(f"{self._most}Q").pack_into
        self._windows: dict[tuple[int, int, tuple[int, ...]], Array] = {}
        """Arrays over memory that small results lay in, by address, type and shape: malloc gives the same again. To make one
        takes longer than to copy what is in it; they are read only while the memory is that of a result."""

    def lend(self, context: Any, place: int) -> dict[int, Unused]:
        """Write blocks for the call that comes, which owns them (layout.LENT; 0 for none), into its ``context``, so many bytes
        from its beginning; the arrays that lie in some of these, by their block."""
        found: dict[int, Unused] = {}
        latest = self._latest
        # Other threads add to these at the same time.
        while latest and len(found) < self._most:
            try:
                one = latest.pop()
            except IndexError:  # another thread took it
                break
            array, memory = one
            is_used = getrefcount(array) > _REFERENCES or getrefcount(memory) > _REFERENCES + 1
            if is_used or getweakrefcount(array):
                self._keeps_latest = False
            else:
                found[memory.block] = one
                memory.block = 0
        if latest:
            # Of other threads' calls: these are not waited for.
            latest.clear()
        if not found and not self._blocks:
            self._write(context, place, *self._nothing)
            return found
        blocks = [*found]
        while len(blocks) < self._most and (block := self._taken()) is not None:
            blocks.append(block)
        self._write(context, place, *blocks, *self._nothing[len(blocks) :])
        return found

    def array(
        self, address: int, block: int, dtype: np.dtype[Any], shape: tuple[int, ...], unused: dict[int, Unused]
    ) -> Array:
        """The dense elements at ``address`` in ``block``, which comes back when nothing uses them any more; one of the arrays
        that are ``unused``, where that is such an array."""
        given = unused.pop(block, None) if unused else None
        if given is not None:
            array, memory = given
            # All that can be set in an array, and where it lies.
            fits = array.shape == shape and array.dtype is dtype and array.flags.carray and array.base is memory
            if fits and addressof(memory) == address:
                memory.block = block
                self._latest.append(given)
                return array
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
        array, memory = arrays.over(address, dtype, shape, self._give_back, block)
        if self._keeps_latest and len(self._latest) < self._most:
            self._latest.append(Unused(array, memory))
        return array

    def close(self) -> None:
        """Free all blocks, those that come back later too."""
        self._most = 0
        self._latest.clear()
        while (block := self._taken()) is not None:
            _free(block)

    def _give_back(self, block: int) -> None:
        self._blocks.append(block)
        if len(self._blocks) > self._most:
            # More than one call gives: nobody waits with these for the next one's.
            self._keeps_latest = True
            if (oldest := self._taken()) is not None:
                _free(oldest)

    def _taken(self) -> int | None:
        try:
            return self._blocks.pop(0)
        except IndexError:
            return None


def _free(block: int) -> None:
    arrays.free(layout.allocation(block))
