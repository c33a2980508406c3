"""What of this process's mappings is in memory, as Linux's ``/proc/self/smaps`` tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path


def of_file(path: Path) -> int:
    """Bytes of the mappings of a file; -1 where it is not mapped."""
    return _sum(lambda line: line.endswith(str(path)))


def of_range(address: int, size: int) -> int:
    """Bytes of the mappings of which some of ``size`` bytes from ``address`` on are a part; -1 where there are none."""

    def meets(line: str) -> bool:
        start, end = (int(place, 16) for place in line.split(maxsplit=1)[0].split("-"))
        return start < address + size and address < end

    return _sum(meets)


def _sum(is_meant: Callable[[str], bool]) -> int:
    found = list(_sizes(is_meant))
    return sum(found) if found else -1


def _sizes(is_meant: Callable[[str], bool]) -> Iterator[int]:
    here = False
    for line in Path("/proc/self/smaps").read_text(errors="replace").splitlines():
        first = line.split(maxsplit=1)[0]
        if not first.endswith(":"):
            here = is_meant(line)
        elif here and first == "Rss:":
            yield int(line.split()[1]) << 10
