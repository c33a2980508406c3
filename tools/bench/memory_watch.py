"""The memory of a command and of all processes that it starts, watched from outside (Linux)."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PERIOD = 0.002
"""Seconds between two looks: what lasts for less is missed, as is the moment in which one process has not yet given back what
another already has (with 10 ms peaks of the same command differed by 3 MB)."""
_SIZES = ("VmSize", "VmData", "VmStk", "VmExe", "VmLib")


@dataclass
class Peak:
    """What a command needed: its seconds and output; peaks of all its processes together, in bytes.

    ``resident`` counts every page that is mapped and in memory; ``anonymous`` only what the processes made themselves, which
    is what the system cannot take back. ``largest`` is the largest resident memory of one process, as the kernel counted it.
    """

    seconds: float = 0.0
    resident: int = 0
    anonymous: int = 0
    largest: int = 0
    output: str = ""


def watch(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Peak:
    """Run ``command``, in this process' environment unless another is given, and watch its memory.

    Raises:
        RuntimeError: it failed; with the last line of its messages.
    """
    peak = Peak()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        done = threading.Event()
        sampler = threading.Thread(target=_sample, args=(process.pid, peak, done))
        sampler.start()
        process.wait()
        peak.seconds = time.perf_counter() - started
        done.set()
        sampler.join()
        out.seek(0)
        err.seek(0)
        peak.output = out.read()
        if process.returncode != 0:
            lines = [line for line in err.read().splitlines() if line.strip()] or [f"exit status {process.returncode}"]
            raise RuntimeError(lines[-1][:200])
    return peak


def _sample(pid: int, peak: Peak, done: threading.Event) -> None:
    while not done.is_set():
        found = list(_tree(pid))
        peak.resident = max(peak.resident, sum(status.get("VmRSS", 0) for status in found))
        peak.anonymous = max(peak.anonymous, sum(status.get("RssAnon", 0) for status in found))
        peak.largest = max([peak.largest, *(status.get("VmHWM", 0) for status in found)])
        done.wait(_PERIOD)


def _tree(pid: int, above: Mapping[str, int] | None = None) -> Iterator[dict[str, int]]:
    """The status of the process and of all that it started, as far as they are still there."""
    status = _status(pid)
    if above and all(status.get(size) == above.get(size) for size in _SIZES):
        return  # It runs in the memory of the one that starts it (vfork), until it has a program of its own.
    yield status
    # Which of them ends while it is looked at is a matter of luck.
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for child in children.read_text().split():
                    yield from _tree(int(child), status)


def _status(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {key: int(rest.split()[0]) * 1024 for key, _, rest in (line.partition(":") for line in lines) if rest.endswith("kB")}
