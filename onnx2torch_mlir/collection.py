"""Garbage collection of Python's, which is paused where much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
