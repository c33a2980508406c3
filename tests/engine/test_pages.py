"""Memory for many arrays in huge pages."""

import sys

import pytest

from onnx2torch_mlir.engine.pages import Room
from tests import resident

_LOOKED_AT = 64 << 20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what is in memory")
def test_a_last_page_of_which_little_is_used_goes_back():
    room = Room()
    arrays = [room.empty(size) for size in (2 << 20, 2 << 20, 5)]
    for array in arrays:
        array[:] = 7
    before = resident.of_range(arrays[0].ctypes.data, _LOOKED_AT)
    room.end()
    assert resident.of_range(arrays[0].ctypes.data, _LOOKED_AT) <= min(before, (4 << 20) + (64 << 10))
    assert all((array == 7).all() for array in arrays)
    (later,) = [room.empty(9)]
    later[:] = 8
    assert all((array == 7).all() for array in arrays)
