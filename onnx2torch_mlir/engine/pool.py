"""The threads that share the loops of compiled programs: one pool for the process, started when a program first asks.

What they do stands in the object files (`onnx2torch_mlir.engine.compiler.pool_workers`); here they are started and ended.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine import layout, objects
from onnx2torch_mlir.processors import processors

_VARIABLE = "ONNX2MLIR_THREADS"


def threads_of(asked: int | None) -> int:
    """How many threads a program may use: what was ``asked``, else what ``ONNX2MLIR_THREADS`` says, else one per processor
    that this process may run on. Raises `Refusal` O2M-U001 if that is no positive number."""
    if asked is not None:
        if asked < 1:
            raise refuse("O2M-U001", f"threads is {asked}, it has to be at least 1", case="threads")
        return asked
    text = os.environ.get(_VARIABLE, "")
    if not text:
        return processors()
    if not text.isdecimal() or int(text) < 1:
        raise refuse("O2M-U001", f"{_VARIABLE} is {text!r}, it has to be a number of at least 1", case=_VARIABLE)
    return int(text)


class Pool:
    """Memory that callers and workers share, and the workers: threads that run ``code`` until the process ends."""

    def __init__(self, code: objects.Code) -> None:
        """A pool without workers yet."""
        self._memory = ctypes.create_string_buffer(layout.POOL_BYTES + 64)
        self.address = (ctypes.addressof(self._memory) + 63) & ~63
        library = ctypes.CDLL(None)
        for routine, word in ((library.pthread_mutex_init, layout.MUTEX), (library.pthread_cond_init, layout.CONDITION)):
            routine(ctypes.c_void_p(self.address + 8 * word), None)
        self._code = code
        self._work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address(layout.WORKER))
        self._stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address(layout.STOPPER))
        self._workers: list[threading.Thread] = []

    def grow(self, workers: int) -> None:
        """Start threads until there are so many."""
        while len(self._workers) < workers:
            number = len(self._workers) + 1
            name = f"onnx2mlir-{number}"
            # The calls release the GIL: a worker never holds it.
            thread = threading.Thread(target=self._work, args=(self.address, number), name=name, daemon=True)
            thread.start()
            self._workers.append(thread)

    def stop(self) -> None:
        """End the workers: the code they run may be unloaded after that."""
        self._stop(self.address)
        for worker in self._workers:
            worker.join()

    def abandon(self) -> None:
        """After a fork there are no workers: who still knows the pool finds it taken and works alone."""
        ctypes.c_int64.from_address(self.address + 8 * layout.OWNER).value = 1
        self._workers.clear()


_lock = threading.Lock()
_pool: Pool | None = None
_registered = False


def pool_for(threads: int, code: objects.Code) -> int:
    """The address of the process' pool, with workers for ``threads`` threads (the caller is one); 0 for a single thread."""
    global _pool, _registered
    if threads < 2:
        return 0
    with _lock:
        if not _registered:
            atexit.register(_end)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_forget)
            _registered = True
        if _pool is None:
            _pool = Pool(code)
        _pool.grow(threads - 1)
        return _pool.address


def _end() -> None:
    if _pool is not None:
        _pool.stop()


_abandoned: list[Pool] = []


def _forget() -> None:
    """In a child process: a fresh start, and locks that nobody holds."""
    global _pool, _lock
    _lock = threading.Lock()
    if _pool is not None:
        _pool.abandon()
        _abandoned.append(_pool)  # contexts of the parent's engines still point to it
        _pool = None
