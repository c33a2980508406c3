"""How fast the engine is, beside onnxruntime and others: workloads by peers, whose calls take turns.

    python tools/bench/engine.py [-k REGEX] [--threads 1|2] [--peers ours,ort,eager,inductor,iree] [--seconds 2]
    python tools/bench/engine.py --dynamic      the same models with dims left open, at the same sizes
    python tools/bench/engine.py --primes       sizes without divisors beside sizes with many
    python tools/bench/engine.py --compile      seconds to compile, to load from the cache, and peak memory
    python tools/bench/engine.py --peers ort,ours,ours@../other   this tree beside another one
    python tools/bench/engine.py -k matmul --processes 5          the median of five processes of each

Every peer's results are compared with onnxruntime's before it is measured. Peers run in processes of their own, of which all
but one stand still. Printed are medians: with one thread of the process's CPU time, with more of the clock; a ratio is
onnxruntime's time by the peer's, above 1 where the peer is faster. The models have random weights; they are made once and kept
in the cache folder. ``--plugin FILE`` adds peers and workloads (see contest/peers.py). ``--check`` exits with 1 where one
of ours is below 1.0, their geometric mean below 1.2, or a result differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.bench.contest import compiling, peers, tables
from tools.bench.contest.networks import PRIMES, WORKLOADS
from tools.bench.contest.peak import peak
from tools.bench.contest.rounds import Contender, Outcome, contest, merged
from tools.bench.contest.workload import Made, Workload, made
from tools.bench.import_speed import machine

Told = Callable[[str], None]


def main() -> int:
    """Print the table that the options ask for."""
    options = _options()
    workloads = [*WORKLOADS, *(w for path in options.plugin for w in getattr(peers.plugin(path), "WORKLOADS", ()))]
    if options.only_plugins:
        workloads = workloads[len(WORKLOADS) :]
    named = [peer.partition("@")[0] for peer in options.peers]
    unknown = [peer for peer in named if peer not in peers.PEERS]
    if unknown:
        print(f"there is no peer {', '.join(unknown)}; there are {', '.join(peers.PEERS)}", file=sys.stderr)
        return 2
    chosen = [workload for workload in workloads if re.search(options.k, workload.name)]
    if options.list:
        print("\n".join(workload.name for workload in chosen))
        return 0
    # Workers stand still: nothing but this process ends them.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(machine())
    record: dict[str, Any] = {"machine": machine(), "threads": options.threads, "workloads": {}}
    with _progress() as told:
        if options.primes:
            met = _primes(options, told, record)
        elif options.dynamic:
            met = _dynamic(options, chosen, told, record)
        elif options.compile:
            met = compiling.table(chosen, options.peers, options.threads, options.plugin, told, record)
        else:
            met = _speeds(options, chosen, told, record)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1))
    return 1 if options.check and not met else 0


def _speeds(options: argparse.Namespace, chosen: Sequence[Workload], told: Told, record: dict[str, Any]) -> bool:
    measured = peak(options.threads)
    print(f"peak of {options.threads} thread{'s' if options.threads > 1 else ''}: {measured}\n")
    speeds = tables.Speeds(options.peers, options.threads, measured.gflops)
    print(speeds.head())
    met = True
    for workload, model in _models(chosen, told, dynamic=False):
        outcomes = _contest(options, [Contender(peer, workload.name) for peer in options.peers], [workload], told)
        print(speeds.line(workload.name, model.flops, outcomes), flush=True)
        met = met and not any(outcome.error for contender, outcome in outcomes.items() if contender.peer == "ours")
        _keep(record, workload, model, outcomes)
    print(f"\n{speeds.foot()}")
    ratios = speeds.ratios.get("ours", [])
    return met and min(ratios, default=0) >= 1 and tables.mean(ratios) >= 1.2


def _dynamic(options: argparse.Namespace, chosen: Sequence[Workload], told: Told, record: dict[str, Any]) -> bool:
    columns = f"{'static ms':>10}{'dynamic ms':>12}{'dynamic/static speed':>22}{'ort dynamic ms':>16}{'ratio':>8}"
    print(f"\n{'':<{tables.WIDTH}}{columns}")
    ratios: list[float] = []
    met = True
    for workload, model in _models([w for w in chosen if w.is_dynamic], told, dynamic=True):
        base, still, open_ = (
            Contender("ort", workload.name, True),
            Contender("ours", workload.name),
            Contender("ours", workload.name, True),
        )
        outcomes = _contest(options, [base, still, open_], [workload], told)
        theirs, one, other = (outcomes[contender].seconds(options.threads) for contender in (base, still, open_))
        line = f"{workload.name:<{tables.WIDTH}}{tables.milliseconds(one)}  {tables.milliseconds(other)}{one / other:>22.2f}"
        print(f"{line}      {tables.milliseconds(theirs)}{tables.number(theirs / other)}")
        for contender, outcome in outcomes.items():
            if outcome.error:
                print(f"  {contender.label}: {outcome.error}")
        met = met and not math.isnan(one / other) and one / other >= 0.85
        ratios += [one / other] if not math.isnan(one / other) else []
        _keep(record, workload, model, outcomes)
    print(f"\ngeometric mean: {tables.mean(ratios):.2f}")
    return met


def _primes(options: argparse.Namespace, told: Told, record: dict[str, Any]) -> bool:
    print(f"\n{'':<28}{'ours: speed of prime / divisible':>34}{'ort':>8}{'ours to ort, prime':>20}")
    met = True
    for prime, divisible in PRIMES:
        if not re.search(options.k, prime.name):
            continue
        contenders = [Contender(peer, w.name) for w in (prime, divisible) for peer in ("ort", "ours")]
        works = [_work(workload, model) for workload, model in _models([prime, divisible], told, dynamic=False)]
        outcomes = _contest(options, contenders, [prime, divisible], told)
        times = [outcomes[contender].seconds(options.threads) for contender in contenders]
        scale = works[0] / works[1]
        ours, theirs = times[3] / times[1] * scale, times[2] / times[0] * scale
        print(f"{prime.name:<28}{ours:>34.2f}{theirs:>8.2f}{times[0] / times[1]:>20.2f}", flush=True)
        for contender, outcome in outcomes.items():
            if outcome.error:
                print(f"  {contender.workload} {contender.label}: {outcome.error}")
        met = met and not math.isnan(ours) and ours >= 0.8
        record["workloads"][prime.name] = {"ours": ours, "ort": theirs, "ratio": times[0] / times[1]}
    return met


def _work(workload: Workload, model: Made) -> float:
    """What the time is in proportion to: multiply-adds, or the elements of the inputs."""
    return model.flops or float(sum(array.size for array in workload.feeds().values()))


def _contest(
    options: argparse.Namespace, contenders: Sequence[Contender], workloads: Sequence[Workload], told: Told
) -> dict[Contender, Outcome]:
    tolerances = {workload.name: workload.tolerance for workload in workloads}
    settings = {"threads": options.threads, "seconds": options.seconds, "plugins": options.plugin}
    several = [contest(contenders, tolerances=tolerances, told=told, **settings) for _ in range(options.processes)]
    return {contender: merged([outcomes[contender] for outcomes in several]) for contender in contenders}


def _models(chosen: Sequence[Workload], told: Told, *, dynamic: bool) -> Iterator[tuple[Workload, Made]]:
    """The workloads whose models could be made (in their static form, and dynamic where asked for)."""
    for workload in chosen:
        try:
            told(f"{workload.name}: the model is made")
            model = made(workload)
            if dynamic:
                made(workload, dynamic=True)
        except Exception as error:  # an exporter's: any
            print(f"{workload.name}: the model could not be made: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        yield workload, model


def _keep(record: dict[str, Any], workload: Workload, model: Made, outcomes: dict[Contender, Outcome]) -> None:
    threads = record["threads"]
    entry: dict[str, Any] = {"weights": model.weights, "flops": model.flops}
    for contender, outcome in outcomes.items():
        times = {"cpu_s": outcome.seconds(1), "wall_s": outcome.seconds(2), "seconds": outcome.seconds(threads)}
        kept = {key: value for key, value in times.items() if not math.isnan(value)}
        entry[contender.label] = {**outcome.info, **kept, "error": outcome.error, "calls": len(outcome.wall)}
    record["workloads"][workload.name] = entry


@contextlib.contextmanager
def _progress() -> Iterator[Told]:
    """What tells the user what is being done, on a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="REGEX", help="only workloads whose name this is found in")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=["ort", "ours"])
    parser.add_argument("--seconds", type=float, default=2.0, help="that each peer runs a workload (default: 2)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="of each peer, one after the other (default: 1)")
    parser.add_argument("--plugin", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--only-plugins", action="store_true", help="only the workloads that plug-ins add")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--dynamic", action="store_true", help="models with open dims beside static ones")
    form.add_argument("--primes", action="store_true", help="sizes without divisors beside sizes with many")
    form.add_argument("--compile", action="store_true", help="times to compile, and memory, instead of times to run")
    form.add_argument("--list", action="store_true", help="only print the names of the workloads")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    options = parser.parse_args()
    if options.processes < 1:
        parser.error("--processes has to be at least 1")
    if "ort" in options.peers:  # the others are compared with it
        options.peers = ["ort", *(peer for peer in options.peers if peer != "ort")]
    return options


if __name__ == "__main__":
    sys.exit(main())
