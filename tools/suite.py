"""Run ONNX's backend suite and say what passes.

python -m tools.suite                          all 2033 cases, natively
python -m tools.suite --eager                  the core programs in eager PyTorch, without MLIR
python -m tools.suite -k reduce_ --kind node   the cases whose names match a pattern
python -m tools.suite --dynamic                every dim of the inputs a symbol (without the light models)
python -m tools.suite --baked                  run-time parameters (axes, sizes, weights …) as initializers
python -m tools.suite --failures-by-reason     what fails, grouped by reason, the largest group first
python -m tools.suite --json results.json      the results in a file; --from results.json reads them back
python -m tools.suite --baked --against results.json   … and exit with 1 where a case that passed there fails
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.suite.cases import KINDS, load_cases
from tests.suite.execution import CaseResult
from tests.suite.pool import run_cases
from tests.suite.rewriting import baked, dynamic


def main() -> int:
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    start = time.perf_counter()
    if options.results is not None:
        results = [CaseResult(**item) for item in json.loads(options.results.read_text())]
        results = [item for item in results if re.search(options.k, item.name) and item.kind in options.kind]
    else:
        results = _run(options, tuple(options.kind))
    if options.json is not None:
        options.json.write_text(json.dumps([item.as_dict() for item in results], indent=1) + "\n")
    _print_summary(console, results)
    if options.failures_by_reason:
        _print_reasons(console, results, options.top)
    if options.verbose:
        for item in results:
            if item.stage != "pass":
                text = f"{item.kind}/{item.name}: {item.stage} {item.code} {item.op} [{item.case}] {item.reason}"
                console.print(text, markup=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - start:.0f} s", style="dim")
    return 0 if options.against is None else _print_lost(console, results, options.against)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="PATTERN", help="only cases whose names match this regular expression")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--eager", action="store_true", help="in eager PyTorch instead of natively")
    how.add_argument("--native", action="store_true", help="natively (the default)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--dynamic", action="store_true", help="with symbolic dims")
    form.add_argument("--baked", action="store_true", help="with run-time parameters as initializers")
    parser.add_argument("--against", type=Path, metavar="FILE", help="name the cases that passed in these results and fail")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--failures-by-reason", action="store_true")
    parser.add_argument("--top", type=int, default=60, help="how many groups of failures to show")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every failing case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument("--from", dest="results", type=Path, metavar="FILE", help="read results instead of running")
    return parser.parse_args()


def _run(options: argparse.Namespace, kinds: tuple[str, ...]) -> list[CaseResult]:
    cases = load_cases(kinds)
    if options.dynamic or options.baked:
        cases = (dynamic if options.dynamic else baked)(cases)
    cases = [case for case in cases if re.search(options.k, case.name)]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    terminal = Console(stderr=True)
    with Progress(*columns, console=terminal, disable=not terminal.is_terminal) as progress:
        task = progress.add_task("cases", total=len(cases))
        count = Counter[bool]()

        def done(result: CaseResult) -> None:
            progress.advance(task)
            count[result.stage == "pass"] += 1
            if not terminal.is_terminal and count.total() % 200 == 0:
                print(f"{count.total()} of {len(cases)} cases, {count[True]} pass", file=sys.stderr, flush=True)

        return run_cases(cases, eager=options.eager, workers=options.workers, done=done)


def _print_summary(console: Console, results: list[CaseResult]) -> None:
    stages = [stage for stage, _ in Counter(item.stage for item in results if item.stage != "pass").most_common()]
    table = Table("kind", "cases", "pass", "%", *stages)
    rows = [(kind, [item for item in results if item.kind == kind]) for kind in KINDS]
    for name, items in [*((kind, items) for kind, items in rows if items), ("all", results)]:
        count = Counter(item.stage for item in items)
        share = f"{100 * count['pass'] / max(1, len(items)):.1f}"
        table.add_row(name, str(len(items)), str(count["pass"]), share, *(str(count[stage] or "") for stage in stages))
    console.print(table)


def _print_lost(console: Console, results: list[CaseResult], against: Path) -> int:
    before = [CaseResult(**item) for item in json.loads(against.read_text())]
    passed = {(item.kind, item.name) for item in before if item.stage == "pass"}
    lost = [item for item in results if item.stage != "pass" and (item.kind, item.name) in passed]
    for item in lost:
        text = f"lost: {item.kind}/{item.name}: {item.stage} {item.code} {item.reason}"
        console.print(text, markup=False, soft_wrap=True)
    console.print(f"{len(lost)} of the cases that passed in {against.name} fail")
    return 1 if lost else 0


def _print_reasons(console: Console, results: list[CaseResult], top: int) -> None:
    groups: dict[tuple[str, str, str, str], list[CaseResult]] = defaultdict(list)
    for item in results:
        if item.stage != "pass":
            reason = re.sub(r"\d+", "N", item.reason.splitlines()[0] if item.reason else "")[:150]
            groups[item.stage, item.code, item.op, reason].append(item)
    table = Table("n", "stage", "code", "operator", "reason", "example")
    for (stage, code, op, reason), items in sorted(groups.items(), key=lambda pair: -len(pair[1]))[:top]:
        table.add_row(str(len(items)), stage, code, op, reason, items[0].name)
    console.print(table, markup=False)


if __name__ == "__main__":
    sys.exit(main())
