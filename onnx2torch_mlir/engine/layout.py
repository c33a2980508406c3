"""What the engine and the code it calls agree on: words of a call's context, blocks' headers, memref descriptors."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx2torch_mlir.engine.arrays import Array

ENTRY = "o2m_entry"
"""``i32 o2m_entry(context, packed)``: 0, or 1 after a failure; see `onnx2torch_mlir.engine.compiler.runtime.entry`."""

CONTEXT_BYTES = 1024
JMP_BUF_OFFSET = 64
HEAD, FREE, SERIAL, ERROR, START = range(5)
"""Words of a context: newest live block, first free block, serial number, failed assertion, serial at the call's start."""

HEADER_BYTES = 64
RAW, PREVIOUS, NEXT, AGE, CAPACITY, KEPT = range(-8, -2)
"""Words before a block of memory: malloc's pointer, the list's links, serial number, size, whether a loop passes it on."""

OUT_OF_MEMORY = -1
"""The number that stands for a failed malloc where others stand for assertions."""


def allocation(block: int) -> int:
    """malloc's pointer of a block of memory."""
    return int(ctypes.c_uint64.from_address(block + 8 * RAW).value)


def descriptors(values: list[Array]) -> tuple[Array, Array]:
    """MLIR's ranked memref descriptors of dense arrays, one after the other, and at which word each begins.

    A descriptor is: allocated pointer, aligned pointer, offset, then the sizes, then the strides in elements.
    """
    import numpy as np

    words: list[int] = []
    offsets: list[int] = []
    for value in values:
        offsets.append(len(words))
        address = value.ctypes.data
        strides = []
        step = 1
        for extent in reversed(value.shape):
            strides.append(step)
            step *= extent
        words += [address, address, 0, *value.shape, *reversed(strides)]
    return np.array(words, np.int64), np.array(offsets, np.int64)
