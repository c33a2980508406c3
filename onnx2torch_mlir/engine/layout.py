"""What the engine and the code it calls agree on: words of a call's context, blocks' headers, memref descriptors."""

from __future__ import annotations

import ctypes

ENTRY = "o2m_entry"
"""``i32 o2m_entry(context, packed)``: 0, or 1 after a failure; see `onnx2torch_mlir.engine.compiler.runtime.entry`."""

CONTEXT_BYTES = 1024
JMP_BUF_OFFSET = 64
HEAD, FREE, SERIAL, ERROR, START = range(5)
"""Words of a context: newest live block, first free block, serial number, failed assertion, serial at the start."""

HEADER_BYTES = 64
RAW, PREVIOUS, NEXT, AGE, CAPACITY, KEPT = range(-8, -2)
"""Words before a block of memory: malloc's pointer, links of the list, serial number, size, whether a loop keeps it."""

OUT_OF_MEMORY = -1
"""The number that stands for a failed malloc where others stand for assertions."""


def allocation(block: int) -> int:
    """malloc's pointer of a block of memory."""
    return int(ctypes.c_uint64.from_address(block + 8 * RAW).value)
