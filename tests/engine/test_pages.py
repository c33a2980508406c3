"""Memory for many arrays in huge pages."""

import sys
from pathlib import Path

import pytest

from onnx2torch_mlir.engine.pages import Room


def resident(address):
    """Bytes in memory of the mappings of the 64 MiB from ``address`` on."""
    found, here = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if "-" in first:
            start, end = (int(place, 16) for place in first.split("-"))
            here = start < address + (64 << 20) and address < end
        elif here and first == "Rss:":
            found += int(line.split()[1]) << 10
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what is in memory")
def test_a_last_page_of_which_little_is_used_goes_back():
    room = Room()
    arrays = [room.empty(size) for size in (2 << 20, 2 << 20, 5)]
    for array in arrays:
        array[:] = 7
    before = resident(arrays[0].ctypes.data)
    room.end()
    assert resident(arrays[0].ctypes.data) <= min(before, (4 << 20) + (64 << 10))
    assert all((array == 7).all() for array in arrays)
    (later,) = [room.empty(9)]
    later[:] = 8
    assert all((array == 7).all() for array in arrays)
