"""The report on a terminal: the opsets of each domain, or the rows of some operators in detail."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onnx2torch_mlir.coverage.dtypes import GROUPS
from onnx2torch_mlir.coverage.measured import ALL, MODES
from onnx2torch_mlir.coverage.table import CoverageTable, Status, Support

_STYLES = {
    Status.MATCHES: "green",
    Status.PARTLY: "yellow",
    Status.REFUSED: "dim",
    Status.UNMEASURED: "dim",
}


def print_summary(console: Console, table: CoverageTable) -> None:
    """The runs, the counts of every opset, and what plug-ins bring."""
    if table.runs:
        runs = Table("run", "cases", "match", "%", "lost", title="Runs", title_justify="left")
        for run in table.runs:
            lost = "" if run.lost is None else str(run.lost)
            runs.add_row(run.name, str(run.cases), str(run.matched), f"{100 * run.matched / max(1, run.cases):.1f}", lost)
        console.print(runs)
    columns = ("declared", "measured", "converts", "lowers", "runs", "matches", "complete", "dynamic", "refused")
    levels = Table("domain", "opset", *columns, title="Operators by opset", title_justify="left")
    for level in table.levels():
        levels.add_row(level.domain, str(level.opset), *(str(getattr(level, name)) for name in columns))
    console.print(levels)
    for package in dict.fromkeys(item.package for item in table.supports if item.package):
        operators = dict.fromkeys(f"{item.domain}::{item.op}" for item in table.supports if item.package == package)
        console.print(f"plug-in {package}: {', '.join(operators)}", markup=False)
    told = "complete: matches in every case; dynamic: matches in some case with symbolic dims; details: --op NAME"
    console.print(told, style="dim")


def print_rows(console: Console, table: CoverageTable) -> None:
    """Every row: its cells by dtype group and mode as matched/cases, and its limits in words."""
    for domain, op, rows in table.operators():
        console.print(Text(f"{domain}::{op}", style="bold"))
        for row in rows:
            versions = ", ".join(map(str, row.numbers))
            deprecated = "; deprecated by ONNX" if row.deprecated else ""
            console.print(f"  version {versions}: {row.how()}{deprecated}", markup=False)
            console.print(_cells(row))
            for line in _limits(row):
                console.print(f"    {line}", markup=False)
        console.print()


def _cells(row: Support) -> Table:
    cells = Table("", "dtypes", "cases", "converts", "lowers", "runs", "matches", "status", show_edge=False)
    for mode in MODES:
        for group in (ALL, *row.declared):
            tally, status = row.tally(mode, group), row.status(mode, group)
            counts = (tally.cases, tally.converted, tally.lowered, tally.ran, tally.matched)
            shown = (str(count) if tally.cases else "" for count in counts)
            label = GROUPS.get(group, "all")
            cells.add_row(mode if group == ALL else "", label, *shown, Text(str(status), style=_STYLES.get(status, "red")))
    return cells


def _limits(row: Support) -> Iterator[str]:
    if row.measured_at and len(row.numbers) > 1:
        yield f"executed: version {', '.join(map(str, row.measured_at))}"
    if row.resolution.row is not None and row.resolution.row.note:
        yield f"note: {row.resolution.row.note}"
    for limit, times in row.limits:
        mode = "with symbolic dims: " if limit.mode == "dynamic" else ""
        yield f"{times}× {mode}{f'{limit.code} ' if limit.code else ''}{limit.sentence}"
