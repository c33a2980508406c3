"""Garbage collection of Python's, which is paused where much is made that stays; and what is free goes back to the system, or
to other threads."""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onnx2torch_mlir.processors import processors

_M_ARENA_MAX = -8
"""Of mallopt(3)."""


@contextmanager
def paused() -> Iterator[None]:
    """Without garbage collection: a conversion or a compilation makes many objects and hardly a cycle, and each collection
    looks through all that there is, PyTorch's modules too (25 ms); of a model of some thousand nodes a third of the time went
    into that."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def now() -> None:
    """Do the collection that is due, of what was made lately at least: for where this process waits for another one."""
    oldest = len(gc.get_threshold()) - 1
    gc.collect(oldest if gc.get_count()[oldest] >= gc.get_threshold()[oldest] else oldest - 1)


def give_back() -> None:
    """Let the system have the memory that is free: malloc keeps it, for an array here or there is still in use."""
    _of_glibc("malloc_trim")(0)


def share_heaps() -> None:
    """Let threads that are yet to come have as many heaps together as there are processors, the first thread's among them.

    glibc gives each that finds the others' in use one of its own, up to eight for a processor, and what is free in one serves
    no other: a compilation takes 3 to 7 MB less so, and hardly longer. Elsewhere nothing.
    """
    if sys.platform == "linux":
        _of_glibc("mallopt")(_M_ARENA_MAX, processors())


@functools.cache
def _of_glibc(name: str) -> Callable[..., object]:
    """A function of glibc's malloc; elsewhere one that does nothing."""
    found = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    return (lambda *_: None) if found is None else found
