"""Code of libraries that a step has run and the next one will not (Linux).

PyTorch's and MLIR's are 170 MB between them, which count as this process's memory for as long as it lives, though hardly any of
it runs again once a model is compiled. Pages that are let go of are no longer mapped: they stay in the system's cache, which
may take them where it needs the room, and are mapped again, some at a time, where their code does run (16 pages take
about a microsecond).
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from onnx2torch_mlir.core.memory_advice import DONT_NEED, advise
from onnx2torch_mlir.core.memory_mappings import mappings

_CODE = "r-xp"
_FEWEST_BYTES = 1 << 20
"""To look at what is smaller takes longer than it is worth."""
_ENTRY = np.dtype(np.uint64)
_PRESENT, _FROM_FILE = np.uint64(1 << 63), np.uint64(1 << 61)
"""Bits of a page in ``/proc/self/pagemap`` (the kernel's Documentation/admin-guide/mm/pagemap.rst)."""


def let_go() -> None:
    """Unmap the pages of libraries' code that are as they are in their files; does nothing where the system tells of none."""
    with contextlib.suppress(OSError), Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
        for start, end in _code():
            pages.seek(start // mmap.PAGESIZE * _ENTRY.itemsize)
            told = pages.read((end - start) // mmap.PAGESIZE * _ENTRY.itemsize)
            known = np.frombuffer(told, _ENTRY, len(told) // _ENTRY.itemsize)
            # A debugger's breakpoints, say, are in no file.
            if not np.any((known & (_PRESENT | _FROM_FILE)) == _PRESENT):
                advise(start, known.size * mmap.PAGESIZE, DONT_NEED)


def _code() -> Iterator[tuple[int, int]]:
    """Where code lies: each from its first byte to behind its last one."""
    for mapping, after in itertools.pairwise(mappings()):
        # While a library is being loaded, all of it may be mapped as code at first, data that are then written to as well.
        is_whole = mapping.end == after.start and mapping.file == after.file
        if mapping.permissions == _CODE and mapping.end - mapping.start >= _FEWEST_BYTES and is_whole:
            yield mapping.start, mapping.end
