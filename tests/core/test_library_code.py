"""Code that is let go of leaves memory and still is what it was."""

import ctypes
import mmap
import sys

import numpy as np
import pytest
import torch

from onnx2torch_mlir.core import library_code
from tests import resident

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system tells nothing of pages")
_SIZE = 2 << 20
_READ, _CODE, _WRITE = 1, 5, 3
"""Protections of mprotect(2)."""


def _protect(address: int, size: int, what: int) -> None:
    found = ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), what)
    assert found == 0


@pytest.fixture
def code(tmp_path):
    """What looks like a library's code: pages of a file, all in memory, with others of the same file behind them."""
    (tmp_path / "code").write_bytes(b"\x07" * (_SIZE + mmap.PAGESIZE))
    with (tmp_path / "code").open("r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=_WRITE)
    numbers = np.frombuffer(mapping, np.uint8)
    address = numbers.ctypes.data
    _protect(address + _SIZE, mmap.PAGESIZE, _READ)
    assert numbers.sum() == 7 * numbers.size
    yield numbers, address
    _protect(address, _SIZE, _WRITE)


def test_code_leaves_memory_and_comes_back(code):
    numbers, address = code
    _protect(address, _SIZE, _CODE)
    assert resident.of_range(address, _SIZE) == _SIZE
    library_code.let_go()
    assert resident.of_range(address, _SIZE) == 0
    assert numbers.sum() == 7 * numbers.size


def test_what_is_in_no_file_stays(code):
    numbers, address = code
    numbers[mmap.PAGESIZE] = 9
    # To write to one page may unmap those around it.
    numbers.sum()
    _protect(address, _SIZE, _CODE)
    library_code.let_go()
    assert numbers[mmap.PAGESIZE] == 9
    assert resident.of_range(address, _SIZE) == _SIZE


def test_what_is_being_loaded_stays(tmp_path):
    (tmp_path / "library").write_bytes(b"\x07" * _SIZE)
    with (tmp_path / "library").open("rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=_READ)
    numbers = np.frombuffer(mapping, np.uint8)
    _protect(numbers.ctypes.data, _SIZE, _CODE)
    assert numbers.sum() == 7 * _SIZE
    library_code.let_go()
    assert resident.of_range(numbers.ctypes.data, _SIZE) == _SIZE


def test_libraries_run_afterwards():
    library_code.let_go()
    assert torch.ones(3, 4).matmul(torch.ones(4, 2)).tolist() == [[4.0, 4.0]] * 3
