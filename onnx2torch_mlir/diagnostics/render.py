"""Findings for people and for programs: grouped by cause, as text on a terminal or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from onnx2torch_mlir.diagnostics.finding import Finding, NodeRef, Severity

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_NODES = 8
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}


@dataclass
class Group:
    """Findings of one cause: the same code, case, reason and severity; ``nodes`` are all that it concerns."""

    first: Finding
    nodes: list[NodeRef] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: the finding's own, with a list of nodes."""
        shown = self.first.as_dict()
        del shown["node"]
        return {**shown, "nodes": [asdict(node) for node in self.nodes]}


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """``findings`` by cause: errors first, then in the order in which they were met."""
    groups: dict[tuple[str, str, str, Severity], Group] = {}
    for finding in findings:
        key = (finding.code, finding.case, finding.reason, finding.severity)
        group = groups.setdefault(key, Group(finding))
        if finding.node is not None and finding.node not in group.nodes:
            group.nodes.append(finding.node)
    order = list(Severity)
    return sorted(groups.values(), key=lambda group: order.index(group.first.severity))


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print ``findings`` grouped by cause, and a line that counts them."""
    groups = grouped(findings)
    for group in groups:
        _print_group(console, group)
    if groups:
        console.print(summary(findings), style="bold", markup=False)


def summary(findings: Sequence[Finding]) -> str:
    """How many of what: ``2 errors, 1 warning``."""
    counts = [(sum(finding.severity is severity for finding in findings), severity) for severity in Severity]
    return ", ".join(f"{count} {severity}{'s' if count != 1 else ''}" for count, severity in counts if count)


def _print_group(console: Console, group: Group) -> None:
    from rich.text import Text

    first = group.first
    head = Text(f"{first.severity} {first.code}", style=_STYLES[first.severity])
    head.append(f" {first.title}", style="bold")
    head.append(f" ({first.stage})", style="dim")
    if first.case:
        head.append(f" [{first.case}]")
    console.print(head)
    console.print(Text("  ").append(first.reason))
    for node in group.nodes[:_SHOWN_NODES]:
        console.print(Text("  at ", style="dim").append(str(node)))
    if len(group.nodes) > _SHOWN_NODES:
        console.print(Text(f"  and at {len(group.nodes) - _SHOWN_NODES} more nodes", style="dim"))
    if first.hint:
        console.print(Text("  hint: ", style="green").append(first.hint))
    console.print(Text(f"  see {first.anchor}, or: onnx2mlir explain {first.code}", style="dim"))


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """``findings`` grouped by cause, as what `json` can write."""
    return [group.as_dict() for group in grouped(findings)]
