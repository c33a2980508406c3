"""Draw one-node models from the rows, run them natively, and hold them against onnxruntime and onnx.reference.

python -m tools.fuzz_ops                          50 draws of every row (hours on one core)
python -m tools.fuzz_ops --op 'Reduce.*' --draws 5    some rows
python -m tools.fuzz_ops --minutes 10 --shuffle   as far as it gets in ten minutes

Most of the time goes into LLVM: ONNX2MLIR_OPT_LEVEL=0 takes half of it, and ONNX2MLIR_CACHE=DIR keeps the code of
cases for the next run with the same seed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import queue
import random
import re
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from onnx2torch_mlir.isolation import Worker
from tools.fuzz_ops.hunt import SHRINK_SECONDS, Hunt, Target, hunt, targets
from tools.fuzz_ops.report import is_refused, print_report, records, write_reproducer


def main() -> int:
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    chosen = [target for target in targets() if re.fullmatch(options.op, target.op) and (options.domain in ("", target.domain))]
    skipped = [target for target in chosen if is_refused(target) or target.strategy is None]
    wanted = [target for target in chosen if target not in skipped]
    if options.shuffle:
        random.Random(options.seed).shuffle(wanted)
    start = time.monotonic()
    # Thousands of one-node programs are nothing to keep.
    os.environ.setdefault("ONNX2MLIR_CACHE", "off")
    os.environ.setdefault("ONNX2MLIR_OPT_LEVEL", "0")
    hunts = hunt_all(wanted, options)
    print_report(console, hunts, skipped, time.monotonic() - start)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        document = {
            **{name: importlib.metadata.version(name) for name in ("onnx", "onnxruntime")},
            "seed": options.seed,
            "draws": options.draws,
        }
        lines = ",\n".join(json.dumps(record) for record in records(hunts, skipped))
        options.json.write_text(json.dumps(document)[:-1] + f', "records": [\n{lines}\n]}}\n')
    if options.reproducers is not None:
        for item in hunts:
            for index, (case, verdict) in enumerate(item.failures):
                write_reproducer(options.reproducers, case, verdict, index)
    return 1 if any(item.failures or item.note for item in hunts) else 0


def hunt_all(wanted: Sequence[Target], options: argparse.Namespace) -> list[Hunt]:
    """Hunt through all targets in ``--jobs`` worker processes."""
    until = time.monotonic() + 60 * options.minutes
    waiting: queue.SimpleQueue[tuple[int, Target] | None] = queue.SimpleQueue()
    for pair in enumerate(wanted):
        waiting.put(pair)
    for _ in range(options.jobs):
        waiting.put(None)
    found: dict[int, Hunt] = {}
    terminal = Console(stderr=True)
    quiet = options.verbose or not terminal.is_terminal
    progress = Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=terminal, disable=quiet)
    rows = progress.add_task("rows", total=len(wanted))

    def serve() -> None:
        worker = Worker()
        try:
            while (pair := waiting.get()) is not None and time.monotonic() < until:
                index, target = pair
                found[index] = hunt(
                    target,
                    worker,
                    draws=options.draws,
                    seed=options.seed + index,
                    special=options.special,
                    until=until,
                    shrink_seconds=options.shrink,
                )
                progress.advance(rows)
                if options.verbose:
                    outcomes = [verdict.outcome for _, verdict in found[index].drawn]
                    told = ", ".join(f"{name} {outcomes.count(name)}" for name in dict.fromkeys(outcomes))
                    print(f"{target}: {told} {found[index].note}", file=sys.stderr, flush=True)
                    for case, verdict in found[index].failures:
                        print(f"  {verdict.outcome}: {case.command()}\n    {verdict.reason}", file=sys.stderr, flush=True)
        finally:
            worker.close()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(options.jobs)]
    with progress:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [found[index] for index in sorted(found)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz_ops", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=50, help="cases of each row")
    parser.add_argument("--op", default=".*", metavar="PATTERN", help="only operators whose names match as a whole")
    parser.add_argument("--domain", default="", help="only this domain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--shrink", type=float, default=SHRINK_SECONDS, metavar="SECONDS", help="to make a failure smaller")
    parser.add_argument("--shuffle", action="store_true", help="rows in the order of the seed")
    parser.add_argument("--special", action="store_true", help="floats that are NaN or infinite too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records")
    parser.add_argument("--reproducers", type=Path, metavar="DIR", help="write a folder for each failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each row")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
