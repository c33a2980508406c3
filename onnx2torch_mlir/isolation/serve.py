"""The worker's side: read a task, run it, write its result or its exception. Imports nothing heavy by itself."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import pickle
import queue
import resource
import sys
import threading
import traceback
from pathlib import Path
from typing import IO

from onnx2torch_mlir import collection
from onnx2torch_mlir.isolation import frames

_SWITCH_SECONDS = 0.001


def main(ahead: str = "") -> None:
    """Serve tasks from standard input until it closes; the module ``ahead`` is imported before the first comes.

    Where none has come by then, what the module has for that, ``prepare()``, is called.
    """
    # Native code prints to standard output when it likes; the replies need a pipe of their own.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    faulthandler.enable()
    collection.share_heaps()
    # A thread whose native code has ended waits so long for one that runs Python, as a task's main thread does.
    sys.setswitchinterval(_SWITCH_SECONDS)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # Reading in a thread of its own notices that the owner is gone even while a task runs.
    threading.Thread(target=_receive, args=(requests, tasks), daemon=True).start()
    if ahead:
        # What fails here fails again where a task is to be answered.
        with contextlib.suppress(Exception), collection.paused():
            module = importlib.import_module(ahead)
            if tasks.empty() and hasattr(module, "prepare"):
                module.prepare()
    while True:
        reply = _run(tasks.get())
        # Before the answer, for whoever waits for it will need memory for what was made. The next task may be long in coming.
        collection.give_back()
        frames.write(replies, reply)
        del reply


def _receive(requests: IO[bytes], tasks: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            tasks.put(frames.read(requests))
    except (EOFError, OSError):
        os._exit(0)


def _run(request: bytes) -> bytes:
    payload: bytes | tuple[bytes | None, str]
    try:
        task, args, kwargs = pickle.loads(request)
        module, _, name = task.partition(":")
        function = getattr(importlib.import_module(module), name)
        with collection.paused():
            result = function(*args, **kwargs)
        succeeded, payload = True, pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
    except KeyboardInterrupt:
        os._exit(130)
    except BaseException as error:
        succeeded, payload = False, (_pickled(error), traceback.format_exc())
    return pickle.dumps((succeeded, payload, _peak_memory()), protocol=pickle.HIGHEST_PROTOCOL)


def _peak_memory() -> int:
    """Bytes that this process had in memory at most."""
    try:
        # Linux's ru_maxrss begins with what the parent had at the fork: the worker of a large process would seem large.
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _pickled(error: BaseException) -> bytes | None:
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return None
    return pickled
