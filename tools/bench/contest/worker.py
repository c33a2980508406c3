"""A process that holds one peer's program and is told when to run it: pools of threads never meet in one process.

Requests are lines of JSON on standard input, answers lines on what was standard output; what libraries print goes to standard
error. ``{"do": "prepare"}`` is answered with the peer's figures, ``{"do": "time", "seconds": s}`` with the times of calls.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import numpy as np

from tools.bench.contest import peers
from tools.bench.contest.networks import NOTHING, PRIMES, WORKLOADS
from tools.bench.contest.workload import Workload, made


def workloads(plugins: list[Path]) -> dict[str, Workload]:
    """All workloads by name, those of plug-ins too."""
    found = [NOTHING, *WORKLOADS, *(workload for pair in PRIMES for workload in pair)]
    for path in plugins:
        found += getattr(peers.plugin(path), "WORKLOADS", ())
    return {workload.name: workload for workload in found}


def prepare(options: argparse.Namespace) -> tuple[peers.Call, dict[str, Any]]:
    """The call that the peer prepared, after it ran once; and what there is to tell of it."""
    workload = workloads(options.plugin)[options.workload]
    path = made(workload, dynamic=options.dynamic).path
    if options.fresh is not None:
        os.environ |= {"ONNX2MLIR_CACHE": str(options.fresh), "TORCHINDUCTOR_CACHE_DIR": str(options.fresh)}
    job = peers.Job(workload, path, options.threads)
    call = peers.PEERS[options.peer](job)
    results = [np.asarray(result) for result in call()]
    if options.results is not None:
        np.savez(options.results, *results)
    return call, dict(job.info)


def measured(call: peers.Call, seconds: float) -> dict[str, list[float]]:
    """Wall time and CPU time of calls, for about ``seconds``; the first one, which finds cold caches, is left out."""
    call()
    walls: list[float] = []
    processor: list[float] = []
    end = time.perf_counter() + seconds
    while not walls or time.perf_counter() < end:
        used, started = time.process_time(), time.perf_counter()
        call()
        walls.append(time.perf_counter() - started)
        processor.append(time.process_time() - used)
    return {"wall": walls, "cpu": processor}


def main() -> None:
    """Answer requests until there are no more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer")
    parser.add_argument("workload")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--place", metavar="FOLDER", help="where the peer's modules are looked for first")
    parser.add_argument("--plugin", type=Path, action="append", default=[])
    parser.add_argument("--fresh", type=Path, metavar="FOLDER", help="where compilers keep what they made, empty")
    parser.add_argument("--once", action="store_true", help="prepare, run three times, and end")
    options = parser.parse_args()
    if options.place:
        sys.path.insert(0, options.place)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    call: peers.Call | None = None
    for line in ['{"do": "prepare"}'] if options.once else sys.stdin:
        request = json.loads(line)
        try:
            if call is None:
                call, answer = prepare(options)
            else:
                answer = measured(call, request["seconds"])
        except Exception as error:
            reason = next(iter(str(error).splitlines()), "")
            answer = {"error": f"{type(error).__name__}: {reason}"[:300], "missing": isinstance(error, peers.MissingError)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    if options.once and call is not None:
        for _ in range(2):
            call()


if __name__ == "__main__":
    main()
