"""Writing mapped weights without gathering them in memory.

A weight that is mapped from a file comes into memory when it is written out, and the system keeps it there as long as
there is room. Given back as the writing goes on, a model larger than the memory at hand can be handed on.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence
from typing import BinaryIO

import torch

_PAGE_OUT = 21
"""``MADV_PAGEOUT`` of Linux (madvise(2)): only a hint about what is not needed; no contents are ever lost."""

_STEP = 32 << 20
"""Bytes written between two hints."""


class ReleasingFile:
    """A binary file that gives the pages of ``tensors`` back to the system as it is written."""

    def __init__(self, file: BinaryIO, tensors: Sequence[torch.Tensor]) -> None:
        self._file = file
        self._tensors = tensors
        self._written = 0

    def write(self, data: bytes) -> None:
        """Write ``data``."""
        self._file.write(data)
        self._written += len(data)
        if self._written >= _STEP:
            self._written = 0
            page_out(self._tensors)


def page_out(tensors: Sequence[torch.Tensor]) -> None:
    """Tell the system that the memory of ``tensors`` is not needed for now; a no-op where there is no such hint."""
    if not sys.platform.startswith("linux"):
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for tensor in tensors:
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = (tensor.data_ptr() + tensor.nbytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
        if length > 0:
            madvise(start, length, _PAGE_OUT)
