"""What is done about memory that nobody uses."""

from __future__ import annotations

import gc
import platform
from pathlib import Path

import numpy as np
import pytest

from onnx2torch_mlir import collection


def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")
def test_what_malloc_holds_goes_back() -> None:
    held = [np.ones(8_000) for _ in range(1000)]  # 64 KB each: of malloc's heap
    del held[:-1]  # the last one keeps it from shrinking by itself
    before = resident()
    collection.give_back()
    assert before - resident() > 40e6
    assert held[0].sum() == 8_000


def test_collecting_is_as_it_was_after_a_pause() -> None:
    for enabled in (False, True):
        (gc.enable if enabled else gc.disable)()
        with collection.paused():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
