"""Tasks that the tests run in a worker."""

import ctypes
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from onnx2torch_mlir.diagnostics import refuse


def add(a, b=1):
    return a + b


def pid():
    return os.getpid()


def refuse_it():
    raise refuse("O2M-M001", "a pass failed", case="pass")


def abort():
    os.write(2, b"tool: file.cpp:12: Assertion `x > 0' failed.\n")
    os.abort()


def leave(status):
    os._exit(status)


def segfault():
    os.kill(os.getpid(), signal.SIGSEGV)


def sleep(seconds):
    time.sleep(seconds)


def print_noise():
    print("noise", flush=True)
    os.write(1, b"more noise\n")
    return "quiet"


def heavy_modules():
    return sorted({"torch", "onnx", "numpy", "torch_mlir"} & set(sys.modules))


class LocalError(Exception):
    def __init__(self, a, b):
        super().__init__("two arguments")


def raise_unpicklable():
    raise LocalError(1, 2)


def allocate(size):
    return len(b"x" * size)


def prepare():
    if place := os.environ.get("TASKS_PREPARED"):
        Path(place).write_text(str(os.getpid()))


def heaps(threads):
    """How many heaps malloc has when so many threads hold memory at the same time."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.fopen.restype = ctypes.c_void_p, ctypes.c_void_p
    libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
    libc.malloc_info.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
    all_there = threading.Barrier(threads)

    def hold():
        memory = libc.malloc(5000)
        all_there.wait()
        libc.free(memory)

    every = [threading.Thread(target=hold) for _ in range(threads)]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    with tempfile.NamedTemporaryFile() as told:
        stream = libc.fopen(told.name.encode(), b"w")
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        return told.read().count(b"<heap nr=")
