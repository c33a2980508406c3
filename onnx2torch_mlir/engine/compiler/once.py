"""Work that several threads may come to, and one does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Once(Generic[_T]):
    """What ``work`` comes to, its result or its error; nobody has begun with it."""

    def __init__(self, work: Callable[[], _T]) -> None:
        self._work, self._begun, self._made = work, threading.Lock(), Future[_T]()

    @property
    def is_made(self) -> bool:
        """Whether it is there, or never will be."""
        return self._made.done()

    @property
    def is_refused(self) -> bool:
        """Whether it ended with an error."""
        return self._made.done() and self._made.exception() is not None

    def make(self) -> None:
        """Do the work, unless somebody does or has done it. An error is kept for those who ask for the `result`."""
        if self._begun.acquire(blocking=False):
            try:
                self._made.set_result(self._work())
            except BaseException as error:
                self._made.set_exception(error)

    def result(self) -> _T:
        """What it came to, when that is there: somebody has to `make` it. Raises what the work raised."""
        return self._made.result()
