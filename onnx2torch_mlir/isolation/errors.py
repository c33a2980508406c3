"""What can go wrong with a worker, beside the exceptions of the task itself."""

from __future__ import annotations

import signal
from typing import Any


class WorkerCrashed(Exception):
    """The worker's process ended while it ran a task; the caller's process was not touched.

    ``signal`` is the number of the signal that ended it, or None if it exited by itself (``exit_status`` then);
    ``stderr`` is the tail of what it wrote last; ``task`` is the task's ``module:function``.
    """

    def __init__(self, task: str, returncode: int | None, stderr: str) -> None:
        self.task = task
        self.returncode = returncode
        self.stderr = stderr
        super().__init__(f"{task} ended its process by {self.manner}" + (f": {self.last_line}" if stderr else ""))

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended the worker."""
        return -self.returncode if self.returncode is not None and self.returncode < 0 else None

    @property
    def exit_status(self) -> int | None:
        """The worker's exit status, if no signal ended it."""
        return self.returncode if self.returncode is not None and self.returncode >= 0 else None

    @property
    def manner(self) -> str:
        """How the process ended, in words."""
        if self.signal is None:
            return f"exit status {self.returncode}"
        try:
            return f"signal {self.signal} ({signal.Signals(self.signal).name})"
        except ValueError:
            return f"signal {self.signal}"

    @property
    def last_line(self) -> str:
        """The line of the output that most likely says why: an assertion or error before any stack dump."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        telling = [line for line in lines if "Assertion" in line or "rror:" in line or "LLVM ERROR" in line]
        return (telling or lines[-1:] or [""])[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerCrashed, (self.task, self.returncode, self.stderr)


class WorkerTimeout(Exception):
    """A task took longer than its time limit; its process was ended."""

    def __init__(self, task: str, seconds: float) -> None:
        self.task = task
        self.seconds = seconds
        super().__init__(f"{task} did not finish within {seconds:g} s")

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerTimeout, (self.task, self.seconds)


class TaskFailed(Exception):
    """A task raised an exception that cannot cross the pipe; the message is its traceback."""
