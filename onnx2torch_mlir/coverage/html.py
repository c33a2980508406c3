"""The report as one HTML file: no network, no external script; readable without JavaScript, which only filters."""

from __future__ import annotations

from html import escape
from pathlib import Path

from onnx2torch_mlir.coverage.chart import CLASSES, chart
from onnx2torch_mlir.coverage.dtypes import GROUPS
from onnx2torch_mlir.coverage.measured import ALL, MODES, Run, Tally
from onnx2torch_mlir.coverage.table import CoverageTable, Status, Support

SIGNS = {"ok": "✓", "part": "◐", "bad": "✗", "no": "–", "none": "?"}
"""The sign of each class of statuses; the word is beside it or in its title."""

MEANINGS = {
    Status.MATCHES: "every measured case gave the expected numbers",
    Status.PARTLY: "some cases did; the limits say what happened to the others",
    Status.RUNS: "cases ran, and none gave the expected numbers",
    Status.LOWERS: "lowered to linalg, and none ran",
    Status.CONVERTS: "converted to core primitives, and none was lowered",
    Status.REFUSED: "refused with a reason",
    Status.UNMEASURED: "no case was executed: nothing is claimed",
}

_HERE = Path(__file__)


def html_page(table: CoverageTable) -> str:
    """The page."""
    style, script = (_HERE.with_name(f"page.{kind}").read_text(encoding="utf-8").strip() for kind in ("css", "js"))
    operators = table.operators()
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>ONNX operator coverage of onnx2torch_mlir</title><style>\n{style}\n</style></head>",
        "<body><header><h1>ONNX operator coverage</h1>",
        "<p>What <code>onnx2torch_mlir</code> was seen to do: ONNX model → core PyTorch program → linalg MLIR → native code on"
        " the CPU, compared with the expected numbers. Everything here comes from cases that were executed; what was not"
        " executed is shown as <em>not measured</em>, never as supported.</p></header>",
        "<main>",
        _tiles(table),
        "<section><h2>By opset</h2>",
        "<p>For every opset, the operators that a model of this opset means (without deprecated ones), by what was measured"
        " with static shapes.</p>",
        _legend(),
        *(chart(table, domain) for domain in table.newest),
        "</section>",
        _runs(table.runs),
        "<section><h2>Operators</h2>",
        _how_to_read(),
        _filters(table),
        '<p id="count" role="status"></p>',
        '<div class="head" aria-hidden="true"><span>operator</span><span>static shapes</span><span>symbolic dims</span>'
        "<span>versions</span></div>",
        *(_operator(domain, op, rows) for domain, op, rows in operators),
        "</section></main>",
        "<footer>Written by <code>tools/measure_coverage.py</code>; <code>onnx2mlir coverage --check</code> fails when this"
        " page is stale. Not a word of it is written by hand.</footer>",
        f"<script>\n{script}\n</script></body></html>",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _tiles(table: CoverageTable) -> str:
    tiles = [
        _tile(f"{run.matched} / {run.cases}", run.name, "" if run.lost is None else f"{run.lost} that pass as published fail")
        for run in table.runs
        if ":" not in run.name
    ]
    rows = [item for item in table.supports if not item.deprecated]
    versions = sum(len(item.numbers) for item in table.supports)
    matched = sum(item.tally().matched > 0 and not item.refused for item in rows)
    tiles.append(_tile(str(len(table.operators())), "operators", f"{versions} versions in {len(table.newest)} domains"))
    tiles.append(_tile(f"{matched} / {len(rows)}", "version ranges matched", "in at least one case"))
    return f'<section class="tiles" aria-label="Summary">{"".join(tiles)}</section>'


def _tile(figure: str, what: str, more: str) -> str:
    return f'<div class="tile"><b>{escape(figure)}</b><span>{escape(what)}</span><small>{escape(more)}</small></div>'


def _runs(runs: tuple[Run, ...]) -> str:
    rows = "".join(
        f"<tr><th scope=row>{escape(run.name)}<td>{run.cases}<td>{run.matched}<td>{100 * run.matched / max(1, run.cases):.1f} %"
        f"<td>{'' if run.lost is None else run.lost}"
        for run in runs
    )
    return (
        "<section><h2>Runs</h2><table><thead><tr><th scope=col>run<th scope=col>cases<th scope=col>match<th scope=col>share"
        f"<th scope=col>passed as published, fail here</thead><tbody>{rows}</tbody></table></section>"
    )


def _legend() -> str:
    words = {"ok": "matches in every case", "part": "in some", "bad": "in none", "no": "refused", "none": "not measured"}
    return '<p class="legend">' + "".join(f'<span><i class="{key}"></i>{text}</span>' for key, text in words.items()) + "</p>"


def _how_to_read() -> str:
    marks = "".join(f"<dt>{_mark(status, str(status))}<dd>{escape(text)}" for status, text in MEANINGS.items())
    return (
        "<details><summary>How to read this</summary>"
        "<p>An operator opens to its <em>rows</em>: ranges of versions that one implementation speaks for, so that a case of"
        " one version counts for the range; the versions that were executed are named. A cell holds <em>how many cases matched"
        " / how many there are</em>, for the dtypes of the operator's own type parameters; a case with several of them counts"
        f" in several groups. An empty cell is a dtype that ONNX does not declare there.</p><dl>{marks}</dl></details>"
    )


def _filters(table: CoverageTable) -> str:
    newest = max(table.newest.values(), default=0)
    boxes = [
        '<label>Search<input id="search" type="search" placeholder="Conv, Reduce, …" autocomplete="off"></label>',
        _select("domain", "Domain", [("", "all"), *((name, name) for name in table.newest)]),
        _select("opset", "Opset", [("", "all"), *((str(number), str(number)) for number in range(newest, 0, -1))]),
        _select("mode", "Shapes", [("static", "static"), ("dynamic", "symbolic dims")]),
        _select("group", "Dtypes", [(ALL, "all"), *GROUPS.items()]),
        _select("status", "Status", [("", "any"), *((_slug(name), str(name)) for name in Status)]),
    ]
    return f'<form id="filters" hidden>{"".join(boxes)}<button type="reset">Reset</button></form>'


def _select(name: str, label: str, options: list[tuple[str, str]]) -> str:
    listed = "".join(f'<option value="{escape(value)}">{escape(text)}' for value, text in options)
    return f'<label>{label}<select id="{name}">{listed}</select></label>'


def _slug(status: str) -> str:
    return status.replace(" ", "-")


def _operator(domain: str, op: str, rows: list[Support]) -> str:
    newest = rows[-1]
    prefix = "onnx_" + domain.replace(".", "") + "_" if domain != "ai.onnx" else "onnx__"
    link = f"https://onnx.ai/onnx/operators/{prefix}{op}.html"
    versions = ", ".join(str(number) for row in rows for number in row.numbers)
    title = "" if domain == "ai.onnx" else f" <small>{escape(domain)}</small>"
    if newest.deprecated:
        title += " <small>deprecated</small>"
    marks = "".join(f"<span>{_mark(newest.status(mode), str(newest.status(mode)))}</span>" for mode in MODES)
    return (
        f'<details class="op" data-op="{op.lower()}" data-domain="{domain}">'
        f'<summary><span class="name"><b>{op}</b>{title}</span>{marks}<span class="v">{versions}</span></summary>'
        f'<p><a href="{link}">{op} on onnx.ai</a></p>{"".join(_row(row) for row in rows)}</details>'
    )


def _row(row: Support) -> str:
    groups = row.declared
    tokens = " ".join(f"{group}.{mode}.{_slug(row.status(mode, group))}" for group in (ALL, *groups) for mode in MODES)
    last = "" if row.next_version is None else str(row.next_version - 1)
    measured = ", ".join(map(str, row.measured_at)) or "none"
    return (
        f'<section class="row" data-since="{row.numbers[0]}" data-until="{last}" data-marks="{tokens}">'
        f"<h3>{'versions' if len(row.numbers) > 1 else 'version'} {', '.join(map(str, row.numbers))}</h3>"
        f"<p>{escape(row.how())}{'; deprecated by ONNX' if row.deprecated else ''}. Executed: {measured}.</p>"
        f"{_cells(row, groups)}{_limits(row)}</section>"
    )


def _cells(row: Support, groups: list[str]) -> str:
    if not row.cells:
        return f"<p>Declared: {', '.join(GROUPS[group] for group in groups)}; not measured.</p>"
    columns = [ALL, *groups]
    head = "".join(f"<th scope=col>{GROUPS.get(group, 'all cases')}" for group in columns)
    body = ""
    for mode, label in zip(MODES, ("static", "symbolic"), strict=True):
        cells = "".join(f"<td>{_cell(row.status(mode, group), row.tally(mode, group))}" for group in columns)
        body += f"<tr><th scope=row>{label}{cells}"
    return f'<div class="wide"><table><thead><tr><td>{head}</thead><tbody>{body}</tbody></table></div>'


def _cell(status: Status, tally: Tally) -> str:
    if status is Status.UNMEASURED:
        return _mark(status)
    title = f"{tally.cases} cases: {tally.converted} convert, {tally.lowered} lower, {tally.ran} run, {tally.matched} match"
    return f'<span title="{title}">{_mark(status)} {tally.matched}/{tally.cases}</span>'


def _mark(status: Status, word: str = "") -> str:
    name = CLASSES[status]
    shown = f"{SIGNS[name]} {word}".strip()
    label = "" if word else f' role=img aria-label="{status}" title="{status}"'
    return f'<span class="mark {name}"{label}>{shown}</span>'


def _limits(row: Support) -> str:
    note = row.resolution.row.note if row.resolution.row is not None else ""
    items = [escape(note)] if note else []
    for limit, times in row.limits:
        code = f"<code>{limit.code}</code> " if limit.code else ""
        mode = " with symbolic dims" if limit.mode == "dynamic" else ""
        items.append(f"{code}{escape(limit.sentence)} <small>({times}×{mode})</small>")
    return f"<ul>{''.join(f'<li>{item}' for item in items)}</ul>" if items else ""
