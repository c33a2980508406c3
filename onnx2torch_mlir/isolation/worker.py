"""A persistent worker process: started on first use, restarted after a crash, ended with the process that owns it."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from onnx2torch_mlir.isolation import frames
from onnx2torch_mlir.isolation.errors import TaskFailed, WorkerCrashed, WorkerTimeout

_STDERR_TAIL = 16_384
_MEMORY_LIMIT = 2 << 30
"""A worker whose peak memory is above this many bytes is replaced before the next task: arenas do not shrink."""

_BOOTSTRAP = """
import sys
sys.path[:] = {path!r}
from onnx2torch_mlir.isolation.serve import main
main({ahead!r})
"""


class Worker:
    """One process that runs tasks one after the other; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._stderr: IO[bytes] | None = None
        self._recycle = False
        self._waits_for_first = False
        self._tasks = 0

    @property
    def pid(self) -> int | None:
        """The worker's process id, or None if it does not run."""
        return None if self._process is None else self._process.pid

    def call(
        self,
        task: str,
        /,
        *args: Any,
        timeout: float | None = None,
        meanwhile: Callable[[], object] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run ``task`` (``"package.module:function"``) with picklable arguments in the worker and return its result.

        Exceptions of the task are raised here, with the traceback of the worker as a note (`TaskFailed` if they cannot
        be pickled). ``meanwhile`` is what this process does while the worker runs it. Raises `WorkerCrashed` if the
        process ends, `WorkerTimeout` after ``timeout`` seconds; in both cases the next call starts a new process.
        """
        request = pickle.dumps((task, args, kwargs), protocol=pickle.HIGHEST_PROTOCOL)
        with self._lock:
            process, stderr = self._running()
            self._waits_for_first = False
            self._tasks += 1
            stderr.truncate(0)
            expired = threading.Event()

            def expire() -> None:
                expired.set()
                process.kill()

            timer = threading.Timer(timeout, expire) if timeout is not None else None
            try:
                if timer is not None:
                    timer.daemon = True
                    timer.start()
                assert process.stdin is not None and process.stdout is not None
                frames.write(process.stdin, request)
                if meanwhile is not None:
                    meanwhile()
                reply = frames.read(process.stdout)
            except (OSError, EOFError):
                returncode = self._reap(process)
                tail = _tail(stderr)
                self._forget()
                if expired.is_set():
                    raise WorkerTimeout(task, timeout or 0.0) from None
                raise WorkerCrashed(task, returncode, tail) from None
            except BaseException:
                # An interrupt between request and reply: the answer that is still to come belongs to nobody.
                self.close()
                raise
            finally:
                if timer is not None:
                    timer.cancel()
            succeeded, payload, memory = pickle.loads(reply)
            self._recycle = memory > _MEMORY_LIMIT
        if succeeded:
            return pickle.loads(payload)
        raise _exception(*payload)

    def start(self, task: str) -> None:
        """Begin what the next `call` would wait for: the process, what the module of ``task`` imports, and what its
        ``prepare()``, if it has one, does while there is no task."""
        if self._lock.acquire(blocking=False):
            try:
                if not self._is_running():
                    self._running(task.partition(":")[0])
                    self._waits_for_first = True
            finally:
                self._lock.release()

    def dismiss(self) -> None:
        """End the worker if it has been started ahead and has had no task: none is to come."""
        self._close_unless_busy(waits_for_first=True)

    def retire(self, *, after: int | None = None) -> None:
        """End the worker unless it is at work or has been started ahead: its owner needs memory more than the next call needs
        it to be there. With ``after``, only if its owner has had no more tasks than these: further ones are not likely."""
        self._close_unless_busy(waits_for_first=False, after=after)

    def _close_unless_busy(self, *, waits_for_first: bool, after: int | None = None) -> None:
        if self._lock.acquire(blocking=False):
            try:
                if self._waits_for_first == waits_for_first and (after is None or self._tasks <= after):
                    self.close()
            finally:
                self._lock.release()

    def close(self) -> None:
        """End the worker; the next call starts a new one."""
        with self._lock:
            process = self._process
            if process is not None and self._owner == os.getpid():
                process.kill()
                self._reap(process)
            self._forget()

    def _is_running(self) -> bool:
        return self._process is not None and self._owner == os.getpid() and self._process.poll() is None

    def _running(self, ahead: str = "") -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        if self._recycle:
            self.close()
        if self._is_running():
            assert self._process is not None and self._stderr is not None
            return self._process, self._stderr
        self._forget()
        # O_APPEND lets this side cut the file while the worker keeps writing at its end.
        handle, path = tempfile.mkstemp(prefix="o2m-worker-", suffix=".err")
        os.close(handle)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        Path(path).unlink()
        self._stderr = os.fdopen(descriptor, "r+b", buffering=0)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOTSTRAP.format(path=[entry or str(Path.cwd()) for entry in sys.path], ahead=ahead)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        self._owner = os.getpid()
        return self._process, self._stderr

    def _reap(self, process: subprocess.Popen[bytes]) -> int | None:
        try:
            return process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _forget(self) -> None:
        for stream in (self._process.stdin, self._process.stdout) if self._process is not None else ():
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._stderr is not None:
            self._stderr.close()
        if self._process is not None and self._owner != os.getpid():
            # A forked child: the process belongs to the parent, and Popen must not wait for it here.
            self._process.returncode = 0
        self._process, self._stderr, self._recycle, self._waits_for_first = None, None, False, False


def _tail(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - _STDERR_TAIL))
    return stderr.read().decode(errors="replace")


def _exception(pickled: bytes | None, trace: str) -> BaseException:
    if pickled is None:
        return TaskFailed(trace)
    error: BaseException = pickle.loads(pickled)
    error.add_note(f"In the worker process:\n{trace}")
    return error


_shared = Worker()


def call(task: str, /, *args: Any, **kwargs: Any) -> Any:
    """`Worker.call` on the one worker that this process shares."""
    return _shared.call(task, *args, **kwargs)


def start(task: str) -> None:
    """`Worker.start` on the shared worker."""
    _shared.start(task)


def dismiss() -> None:
    """`Worker.dismiss` on the shared worker."""
    _shared.dismiss()


def retire(*, after: int | None = None) -> None:
    """`Worker.retire` on the shared worker."""
    _shared.retire(after=after)


def shutdown() -> None:
    """End the shared worker; a later `call` starts a new one."""
    _shared.close()


def _new_in_child() -> None:
    global _shared
    # The parent's lock may be held at the fork, and its pipes are not to be used twice.
    inherited, _shared = _shared, Worker()
    if inherited._process is not None:
        inherited._process.returncode = 0


atexit.register(shutdown)
os.register_at_fork(after_in_child=_new_in_child)
