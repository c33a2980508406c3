"""What this process has mapped, and where (proc_pid_maps(5) of Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Mapping(NamedTuple):
    """From its first byte to behind its last one; a file is a device and a number."""

    start: int
    end: int
    permissions: str
    file: tuple[str, str]


def mappings() -> Iterator[Mapping]:
    """All of them, by their places; raises OSError where the system does not tell."""
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        places, permissions, _, device, number, *_ = line.split(maxsplit=5)
        start, end = (int(place, 16) for place in places.split("-"))
        yield Mapping(start, end, permissions, (device, number))
