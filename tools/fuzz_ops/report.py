"""What a run found: records for other tools, reproducers, and a table to read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from onnx2torch_mlir.diagnostics import Refusal, refuse
from onnx2torch_mlir.specs import Action
from onnx2torch_mlir.verification import reproducer
from tools.fuzz_ops import group_of
from tools.fuzz_ops.case import Case
from tools.fuzz_ops.execute import Verdict
from tools.fuzz_ops.hunt import Hunt, Target
from tools.fuzz_ops.strategies import UNDRAWN


def records(hunts: Sequence[Hunt], skipped: Sequence[Target]) -> list[dict[str, Any]]:
    """The records of the JSON form (see the package); draws that ended alike are counted in one."""
    counted = Counter(_key(item.target, case, verdict) for item in hunts for case, verdict in item.drawn)
    names = ("domain", "op", "since", "version", "dtype", "group", "dynamic", "outcome", "reached", "code", "reason")
    found = [{**dict(zip(names, key, strict=True)), "count": count} for key, count in counted.items()]
    for target in skipped:
        refused = is_refused(target)
        key = (target.domain, target.op, target.since, 0, "", "", False, "refused row" if refused else "no strategy", "", "")
        reason = target.row.reason if target.row is not None and refused else ""
        found.append({**dict(zip(names, (*key, reason), strict=True)), "count": 0})
    return found


def is_refused(target: Target) -> bool:
    """Whether the row itself refuses the operator."""
    return target.row is not None and target.row.action is Action.REFUSE


def _key(target: Target, case: Case, verdict: Verdict) -> tuple[Any, ...]:
    kind = (case.opset, case.dtype, group_of(case.dtype), case.dynamic)
    outcome = (verdict.outcome, verdict.reached, verdict.code, verdict.reason[:200])
    return (target.domain, target.op, target.since, *kind, *outcome)


def write_reproducer(folder: Path, case: Case, verdict: Verdict, index: int) -> Path | None:
    """A folder with the one-node model, its inputs, and the command that shows the failure."""
    code = verdict.code if verdict.code.startswith("O2M-") else "O2M-C009"
    finding = refuse(code, verdict.detail or verdict.reason, case=case.command()).findings[0]
    name = folder / f"{case.op}-{case.opset}_{verdict.outcome}_{index}"
    try:
        return reproducer.write(name, case.model(), case.feeds(), command="verify", findings=[finding])
    except Refusal:
        return None


def print_report(console: Console, hunts: Sequence[Hunt], skipped: Sequence[Target], seconds: float) -> None:
    """The failures one by one, the refusals by code and reason, and the totals."""
    refusals: dict[tuple[str, str, str], list[Case]] = {}
    for item in hunts:
        for case, verdict in item.drawn:
            if verdict.outcome == "refused":
                refusals.setdefault((verdict.code, case.op, verdict.reason[:110]), []).append(case)
    if refusals:
        table = Table("n", "code", "operator", "refused because", "for example")
        for (code, op, reason), cases in sorted(refusals.items(), key=lambda pair: -len(pair[1]))[:60]:
            table.add_row(str(len(cases)), code, op, reason, min(cases, key=lambda case: case.size).command()[:140])
        console.print(table, markup=False)
    for item in hunts:
        for case, verdict in item.failures:
            console.print(
                f"{verdict.outcome}: {case.command()}\n    {verdict.code} {verdict.reason}", markup=False, soft_wrap=True
            )
    for item in hunts:
        if item.note:
            console.print(f"{item.target}: the strategy failed: {item.note}", markup=False, soft_wrap=True)
    for target in skipped:
        why = target.row.reason if target.row is not None and is_refused(target) else UNDRAWN.get((target.domain, target.op))
        console.print(f"not drawn: {target}: {why or 'no strategy'}", markup=False, soft_wrap=True)
    quiet = [str(item.target) for item in hunts if not any(v.outcome != "both-refuse" for _, v in item.drawn)]
    if quiet:
        console.print(f"no reference ran any draw of: {', '.join(quiet)}", markup=False, soft_wrap=True)
    console.print(_totals(hunts, skipped, seconds), markup=False, soft_wrap=True)


def _totals(hunts: Sequence[Hunt], skipped: Sequence[Target], seconds: float) -> str:
    verdicts = [verdict for item in hunts for _, verdict in item.drawn]
    counts = Counter(verdict.outcome for verdict in verdicts)
    refused = sum(map(is_refused, skipped))
    lines = [
        ("rows", f"{len(hunts)} ({refused} refuse by themselves, {len(skipped) - refused} have no strategy)"),
        ("draws", f"{len(verdicts)} in {seconds:.0f} s"),
        ("agreed", _counted(verdict.oracle for verdict in verdicts if verdict.outcome == "agree")),
        ("refused", _counted(verdict.code for verdict in verdicts if verdict.outcome == "refused")),
        ("disputed", _counted(verdict.reason.split(";")[0] for verdict in verdicts if verdict.outcome == "disputed")),
        ("no reference", str(counts["both-refuse"])),
        ("failed", _counted(verdict.outcome for verdict in verdicts if verdict.failed)),
        ("kinds of failure", str(sum(len(item.failures) for item in hunts))),
    ]
    return "\n".join(f"{name:>16}: {told}" for name, told in lines)


def _counted(names: Iterable[str]) -> str:
    """The total, and what it is made of."""
    counts = Counter(map(_kind, names))
    parts = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    return f"{counts.total()} ({parts})" if parts else "0"


def _kind(name: str) -> str:
    """The name of a reference without versions and types, of anything else as it is."""
    found = re.fullmatch(r"(onnx\w*(?:\.\w+)?) \d[\w.]*( as \w+-\d+.*?)?( \(.* as .*\))?( by parts)?", name)
    if found is None:
        return name
    return ", ".join(
        filter(
            None,
            (
                f"{found[1]}{' restated' if found[2] else ''}",
                "in other types" if found[3] else "",
                "by parts" if found[4] else "",
            ),
        )
    )
