"""Contenders take turns: each in a process of its own, which is stopped while another one is measured."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.contest.workload import folder

WORKER = Path(__file__).resolve().parent / "worker.py"
TURN = 0.05
"""Seconds that a contender is given in one round, or one call if that takes longer."""


@dataclass(frozen=True)
class Contender:
    """A peer on one form of one workload. ``peer@FOLDER`` puts a folder before the other places that modules come from."""

    peer: str
    workload: str
    dynamic: bool = False

    @property
    def label(self) -> str:
        """How it is called in tables."""
        return f"{self.peer} dynamic" if self.dynamic else self.peer


@dataclass
class Outcome:
    """What is known of a contender: figures of its preparation, times in seconds, and what went wrong."""

    info: dict[str, float] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    error: str = ""
    missing: bool = False
    difference: float = float("nan")

    def seconds(self, threads: int) -> float:
        """The median: of CPU time with one thread, which a busy machine disturbs less; else of the clock."""
        times = self.cpu if threads == 1 else self.wall
        return statistics.median(times) if times and not self.error else float("nan")


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Those of several processes as one, whose times are the medians of each: where memory lies differs from process to
    process, and with it times by some per cent."""
    failed = [outcome for outcome in outcomes if outcome.error]
    if failed or len(outcomes) == 1:
        return (failed or list(outcomes))[0]
    walls = [statistics.median(outcome.wall) for outcome in outcomes]
    return replace(outcomes[-1], wall=walls, cpu=[statistics.median(outcome.cpu) for outcome in outcomes])


class Worker:
    """The process of a contender; it stands still between requests."""

    def __init__(
        self, contender: Contender, threads: int, plugins: Sequence[Path], results: Path, fresh: Path | None = None
    ) -> None:
        """Start it. Arrays of its results are written to ``results``; with ``fresh``, a folder, its caches are there, empty."""
        peer, _, place = contender.peer.partition("@")
        command = [sys.executable, str(WORKER), peer, contender.workload, "--threads", str(threads), "--results", str(results)]
        command += ["--place", place] if place else []
        command += ["--dynamic"] if contender.dynamic else []
        command += ["--fresh", str(fresh)] if fresh is not None else []
        for plugin in plugins:
            command += ["--plugin", str(plugin)]
        self.results = results
        self._messages = tempfile.TemporaryFile("w+")  # noqa: SIM115
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._messages}
        self._process = subprocess.Popen(command, text=True, env=environment(threads), **pipes)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Let the process go on until it has answered."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.send_signal(signal.SIGCONT)
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            return {"error": f"the process ended: {self._last_words()}"}
        process.send_signal(signal.SIGSTOP)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._messages):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._messages.seek(0)
        lines = [line.strip() for line in self._messages.read().splitlines() if line.strip()]
        return f"{lines[-1][:200] if lines else 'no message'} (exit status {code})"


def environment(threads: int) -> dict[str, str]:
    """The environment of a worker: this many threads for libraries that ask it, and Python's bytecode kept, as it is where
    packages are installed."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    found = {**os.environ, **counts, "PYTHONPYCACHEPREFIX": str(folder() / "bytecode")}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def contest(
    contenders: Sequence[Contender],
    *,
    threads: int,
    seconds: float,
    tolerances: dict[str, float],
    plugins: Sequence[Path] = (),
    told: Callable[[str], None] = lambda text: None,
) -> dict[Contender, Outcome]:
    """What the contenders need for a call: each is measured for ``seconds``, in turns.

    Before, the results of each are compared with those of the first contender of the same workload (onnxruntime, say): one
    that is off by more than the workload's part of ``tolerances`` is not measured.
    """
    outcomes = {contender: Outcome() for contender in contenders}
    workers: dict[Contender, Worker] = {}
    with tempfile.TemporaryDirectory(prefix="contest-") as name:
        try:
            for number, contender in enumerate(contenders):
                told(f"{contender.workload}: {contender.label} prepares")
                workers[contender] = Worker(contender, threads, plugins, Path(name, f"{number}.npz"))
                _prepared(contender, outcomes, workers, tolerances)
            running = [contender for contender in contenders if not outcomes[contender].error]
            turns = 0
            while running:
                turns += 1
                for contender in list(running):
                    told(f"{contender.workload}: round {turns}, {contender.label}")
                    outcome = outcomes[contender]
                    answer = workers[contender].ask(do="time", seconds=TURN)
                    outcome.error = answer.get("error", "")
                    outcome.wall += answer.get("wall", [])
                    outcome.cpu += answer.get("cpu", [])
                    enough = sum(outcome.wall) >= seconds and turns >= 3
                    if outcome.error or enough:
                        running.remove(contender)
        finally:
            for worker in workers.values():
                worker.end()
    return outcomes


def _prepared(
    contender: Contender,
    outcomes: dict[Contender, Outcome],
    workers: dict[Contender, Worker],
    tolerances: dict[str, float],
) -> None:
    outcome = outcomes[contender]
    answer = workers[contender].ask(do="prepare")
    outcome.error, outcome.missing = answer.pop("error", ""), answer.pop("missing", False)
    outcome.info = answer
    reference = next((other for other in workers if other.workload == contender.workload), contender)
    if outcome.error or outcomes[reference].error:
        return
    outcome.difference = difference(workers[contender].results, workers[reference].results)
    if not outcome.difference <= tolerances[contender.workload]:
        outcome.error = f"its numbers are off by {outcome.difference:.1e} of the largest"


def difference(found: Path, expected: Path) -> float:
    """The largest difference in parts of the largest magnitude, over all results; infinity if they cannot be compared."""
    try:
        with np.load(found) as ones, np.load(expected) as others:
            if ones.files != others.files:
                return float("inf")
            return max(_apart(ones[name], others[name]) for name in ones.files)
    except (OSError, ValueError, zipfile.BadZipFile):
        return float("inf")


def _apart(one: Any, other: Any) -> float:
    if one.shape != other.shape:
        return float("inf")
    if not one.size:
        return 0.0
    one, other = one.astype(np.float64), other.astype(np.float64)
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return float("inf")
    finite = np.isfinite(other)
    return float(
        np.max(np.abs(one - other), where=finite, initial=0) / max(np.max(np.abs(other), where=finite, initial=0), 1e-30)
    )
