"""What the system is told about pages of memory that are not needed (madvise(2) of Linux); elsewhere nothing is told."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from typing import Any

DONT_NEED = 4
"""``MADV_DONTNEED``: pages are gone at once. For what is mapped to be read, which comes back from its file, and for what nobody
uses."""
NO_HUGE_PAGE = 15
"""``MADV_NOHUGEPAGE``: these are to be no part of a huge page."""
PAGE_OUT = 21
"""``MADV_PAGEOUT``: only a hint; no contents are ever lost."""


def advise(address: int, length: int, advice: int) -> None:
    """Give ``advice`` for the whole pages among ``length`` bytes from ``address`` on."""
    madvise = _madvise()
    start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + length - start) // mmap.PAGESIZE * mmap.PAGESIZE
    if madvise is not None and length > 0:
        madvise(start, length, advice)


@functools.cache
def _madvise() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    found = ctypes.CDLL(None).madvise
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found
