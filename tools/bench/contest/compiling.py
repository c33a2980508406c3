"""The table of compilation: seconds with an empty cache, milliseconds from a full one, and peak memory."""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tools.bench.contest import tables
from tools.bench.contest.networks import NOTHING
from tools.bench.contest.rounds import WORKER, Contender, Outcome, Worker, environment
from tools.bench.contest.workload import Workload, made
from tools.bench.memory_watch import watch


def table(
    chosen: Sequence[Workload],
    peers: Sequence[str],
    threads: int,
    plugins: Sequence[Path],
    told: Callable[[str], None],
    record: dict[str, Any],
) -> bool:
    """Print what each peer needs until its first result, and what memory ours takes; whether the targets are met.

    Memory is what compiling and running three times takes at most, above what the same takes for a model that computes
    nothing; beside it stand the bytes of the weights, of the inputs and outputs, and of the intermediate results that
    live at the same time.
    """
    others = [peer for peer in peers if peer not in ("ort", "ours")]
    columns = "".join(f"{tables.short(peer) + ' s':>12}" for peer in others)
    line = f"\n{'':<{tables.WIDTH}}{'convert s':>10}{'compile s':>10}{'load ms':>9}{columns}"
    print(f"{line}{'peak MB':>9}{'needed MB':>10}{'ratio':>7}")
    ratios: dict[str, list[float]] = {peer: [] for peer in others}
    loads, memories = [], []
    idle = _memory(NOTHING.name, threads, ())
    for workload in chosen:
        told(f"{workload.name}: the model is made")
        model = made(workload)
        found = {}
        for peer in ("ours", *others):
            told(f"{workload.name}: {peer} compiles")
            found[peer] = _prepared(Contender(peer, workload.name), threads, plugins)
        info = found["ours"].info
        compiled = info.get("compile_s", math.nan)
        line = f"{workload.name:<{tables.WIDTH}}{info.get('convert_s', math.nan):>10.2f}{compiled:>10.2f}"
        line += f"{1e3 * info.get('load_s', math.nan):>9.1f}"
        for peer in others:
            theirs = found[peer].info.get("compile_s", math.nan)
            ratios[peer] += [] if math.isnan(compiled / theirs) else [compiled / theirs]
            line += f"{theirs:>12.2f}"
        told(f"{workload.name}: memory")
        taken = _memory(workload.name, threads, plugins) - idle
        needed = model.weights + model.live
        print(f"{line}{taken / 1e6:>9.0f}{needed / 1e6:>10.0f}{taken / needed:>7.2f}", flush=True)
        for peer, outcome in found.items():
            if outcome.error:
                print(f"  {peer}: {outcome.error}")
        loads.append(info.get("load_s", math.nan))
        memories.append(taken / needed)
        entry = {"peak": taken, "needed": needed, **{peer: outcome.info for peer, outcome in found.items()}}
        record["workloads"][workload.name] = entry
    targets = {"inductor": 1 / 3, "iree": 1 / 5}
    met = True
    print()
    for peer, values in ratios.items():
        if values:
            met = met and statistics.median(values) <= targets.get(peer.partition("@")[0], math.inf)
            print(f"ours / {peer}, median: {statistics.median(values):.2f}")
    slowest, largest = max(loads, default=0), max(memories, default=0)
    print(f"from the cache, most: {1e3 * slowest:.0f} ms; memory to what is needed, most: {largest:.2f}")
    return met and slowest < 0.1 and largest <= 2


def _prepared(contender: Contender, threads: int, plugins: Sequence[Path]) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="compiling-") as name:
        worker = Worker(contender, threads, plugins, Path(name, "results.npz"), fresh=Path(name))
        try:
            answer = worker.ask(do="prepare")
        finally:
            worker.end()
    return Outcome(error=answer.pop("error", ""), missing=answer.pop("missing", False), info=answer)


def _memory(workload: str, threads: int, plugins: Sequence[Path]) -> float:
    """The median of three: whether the peaks of two processes meet is a matter of a millisecond, and of 1 to 2 MB; and the
    first of all may compile Python's files."""
    given = [argument for path in plugins for argument in ("--plugin", str(path))]
    found = []
    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="compiling-") as name:
            command = [sys.executable, str(WORKER), "ours", workload, "--once", "--threads", str(threads), "--fresh", name]
            found.append(watch([*command, *given], environment(threads)).resident)
    return statistics.median(found)
