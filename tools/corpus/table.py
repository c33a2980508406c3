"""The corpus as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tools.corpus.feeds import Sizes
from tools.corpus.result import GOOD, Result
from tools.corpus.subject import Subject


def line(result: Result) -> str:
    """A result in one line, for the log."""
    times = f"convert {result.convert:.1f} s, lower {result.lower:.1f} s, compile {result.compile:.1f} s"
    reason = "" if not result.reason else f" | {result.reason}"
    return f"{result.name}: {result.verdict} | {result.nodes} nodes, {times}{reason}"


def print_table(console: Console, results: Sequence[Result]) -> None:
    """One row for each subject, and how many are equal."""
    table = Table()
    for column in ("model", "exporter"):
        table.add_column(column, overflow="fold")
    for column in ("nodes", "convert s", "compile s", "MiB"):
        table.add_column(column, justify="right")
    table.add_column("sizes", overflow="fold")
    for column in ("ms", "ORT ms", "max error", "spread"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for item in results:
        runs = item.runs
        table.add_row(
            item.name,
            item.exporter,
            str(item.nodes),
            f"{item.convert + item.lower:.1f}",
            f"{item.compile:.1f}",
            f"{item.memory:.0f}",
            "\n".join(_sizes(held.sizes) for held in runs),
            "\n".join(f"{held.run_ms:.1f}" for held in runs),
            "\n".join(f"{held.reference_ms:.1f}" for held in runs),
            "\n".join(f"{held.share:.1e}" for held in runs),
            "\n".join("" if held.spread is None else f"{held.spread:.1e}" for held in runs),
            " ".join([item.verdict, *item.codes]) + (f"\n{item.note}" if item.note else ""),
            style="" if item.good else "red",
        )
    console.print(table, markup=False)
    for item in results:
        if not item.good:
            console.print(f"{item.name}: {item.verdict}: {item.reason}", markup=False, soft_wrap=True)
    count = Counter(item.verdict for item in results)
    console.print(
        f"{sum(count[verdict] for verdict in GOOD)} of {len(results)} equal onnxruntime"
        f" ({', '.join(f'{number} {verdict}' for verdict, number in count.most_common())}), from"
        f" {len({item.exporter for item in results})} exporters;"
        " max error: of the largest number of the output; spread: of onnxruntime from itself, where the tolerance is passed"
    )


def print_list(console: Console, subjects: Sequence[Subject]) -> None:
    """The subjects by name, exporter and sizes."""
    table = Table("model", "kind", "exporter", "sizes")
    for item in subjects:
        table.add_row(item.name, item.kind, item.exporter, "; ".join(_sizes(sizes) for sizes in item.sizes))
    console.print(table, markup=False)


def _sizes(sizes: Sizes) -> str:
    return " ".join(f"{name}={size}" for name, size in sizes.items())
