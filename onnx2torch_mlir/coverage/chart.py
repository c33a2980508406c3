"""The chart of a domain: a stacked bar for each opset, as inline SVG, with the same figures as a table beneath."""

from __future__ import annotations

from collections import Counter

from onnx2torch_mlir.coverage.table import CoverageTable, Level, Status

CLASSES = {
    Status.MATCHES: "ok",
    Status.PARTLY: "part",
    Status.RUNS: "bad",
    Status.LOWERS: "bad",
    Status.CONVERTS: "bad",
    Status.REFUSED: "no",
    Status.UNMEASURED: "none",
}
"""The CSS class, and with it the colour, of each status."""

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 180, 34, 20


def chart(table: CoverageTable, domain: str) -> str:
    """The chart and the table of ``domain``; only the table where it has a single opset; "" where it declares nothing."""
    levels = [level for level in table.levels() if level.domain == domain]
    if not levels:
        return ""
    drawn = _svg(table, domain, levels) if len(levels) > 1 else ""
    summary = "as a table" if drawn else f"opset {levels[0].opset}"
    opened = "" if drawn else " open"
    return f"<h3>{domain}</h3>{drawn}<details{opened}><summary>{summary}</summary>{_figures(levels)}</details>"


def _svg(table: CoverageTable, domain: str, levels: list[Level]) -> str:
    top = max(level.declared for level in levels)
    step = (_WIDTH - _LEFT) / len(levels)
    scale = (_HEIGHT - _BOTTOM - 8) / top
    shapes = [f'<text x="{_LEFT - 6}" y="14" text-anchor="end">{top}</text>']
    shapes.append(f'<text x="{_LEFT - 6}" y="{_HEIGHT - _BOTTOM}" text-anchor="end">0</text>')
    for index, level in enumerate(levels):
        x, y = _LEFT + index * step, float(_HEIGHT - _BOTTOM)
        told = f"opset {level.opset}: {level.declared} operators, {level.complete} match in every case, {level.matches} in some"
        shapes.append(f"<g><title>{told}</title>")
        parts = Counter(CLASSES[item.status()] for item in table.current(domain, level.opset))
        for name in dict.fromkeys(CLASSES.values()):
            if parts[name]:
                y -= parts[name] * scale
                size = f'width="{min(step * 0.8, 60):.1f}" height="{parts[name] * scale:.1f}"'
                shapes.append(f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" {size}/>')
        shapes.append(
            f'<text x="{x + min(step * 0.4, 30):.1f}" y="{_HEIGHT - 5}" text-anchor="middle">{level.opset}</text></g>'
        )
    label = f"Operators of {domain} by opset and by what was measured; the same figures follow as a table"
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'


def _figures(levels: list[Level]) -> str:
    columns = {
        "opset": "opset",
        "declared": "declared",
        "measured": "measured",
        "converts": "converts",
        "lowers": "lowers",
        "runs": "runs",
        "matches": "matches",
        "complete": "matches in every case",
        "dynamic": "matches with symbolic dims",
        "refused": "refused",
    }
    head = "".join(f"<th scope=col>{title}" for title in columns.values())
    rows = "".join("<tr>" + "".join(f"<td>{getattr(level, name)}" for name in columns) for level in levels)
    return f'<div class="wide"><table><thead><tr>{head}</thead><tbody>{rows}</tbody></table></div>'
