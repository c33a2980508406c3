"""Files that this process has mapped to read them: pages that were copied from need not stay in memory (Linux).

A model's file is in memory once as it is read, and once more in the order in which code reads it. What is dropped of the file
comes back by itself where somebody reads it again, mostly from the system's own cache.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right

from onnx2torch_mlir.core.memory_advice import DONT_NEED, advise
from onnx2torch_mlir.core.memory_mappings import mappings

_ONLY_READ = "r--s"


class MappedFiles:
    """Those that are mapped when this is made, shared and read-only: pages of others may hold what is not in the file."""

    def __init__(self) -> None:
        """Look them up; there are none where the system does not tell."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._dropped: set[int] = set()
        with contextlib.suppress(OSError):
            for mapping in mappings():
                if mapping.permissions == _ONLY_READ:
                    self._starts.append(mapping.start)
                    self._ends.append(mapping.end)

    def drop(self, address: int, length: int) -> None:
        """Let go of the whole pages among these bytes, if they are of such a file."""
        place = bisect_right(self._starts, address) - 1
        if length > 0 and place >= 0 and address + length <= self._ends[place]:
            advise(address, length, DONT_NEED)
            self._dropped.add(place)

    def drop_rest(self) -> None:
        """Let go of all pages of the files of which some were dropped: the system brings in those around what is read, too."""
        for place in self._dropped:
            advise(self._starts[place], self._ends[place] - self._starts[place], DONT_NEED)
