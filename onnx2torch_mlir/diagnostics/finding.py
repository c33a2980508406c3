"""One type for everything that is wrong: `Finding`, and `Refusal`, the exception that carries findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from onnx2torch_mlir.diagnostics.codes import CODES, EXIT_CODES, Stage


class Severity(StrEnum):
    """Whether the work can go on."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class NodeRef:
    """Where in a model a finding is: the ONNX node and its place.

    ``place`` is the path of graphs from the root, e.g. ``"main"`` or ``"main/If_3.then_branch"``; ``index`` is the
    node's position in that graph as stored in the file. ``since_version`` is the operator version that the model's
    opset import selects.
    """

    name: str
    op_type: str
    domain: str = ""
    since_version: int | None = None
    place: str = "main"
    index: int | None = None

    def __str__(self) -> str:
        version = "" if self.since_version is None else f"-{self.since_version}"
        position = "" if self.index is None else f"[{self.index}]"
        return f"{self.name or '(unnamed)'} ({self.domain or 'ai.onnx'}::{self.op_type}{version}) at {self.place}{position}"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where, why, and what to do about it.

    ``code`` is a key of `CODES`; ``case`` names the attribute, input, dtype, rank or file concerned; ``reason`` is one
    sentence; ``hint`` says what the user can do next, and may be empty.
    """

    code: str
    reason: str
    hint: str = ""
    case: str = ""
    node: NodeRef | None = None
    severity: Severity = Severity.ERROR

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code} is not in the list of finding codes")

    @property
    def stage(self) -> Stage:
        """The stage that the code belongs to."""
        return CODES[self.code].stage

    @property
    def title(self) -> str:
        """The code's title."""
        return CODES[self.code].title

    @property
    def anchor(self) -> str:
        """The place in the documentation that explains the code."""
        return f"docs/findings.md#{self.code.lower()}"

    def at(self, node: NodeRef) -> Finding:
        """This finding placed at ``node``, unless it already has a place."""
        return self if self.node is not None else replace(self, node=node)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "code": self.code,
            "stage": str(self.stage),
            "severity": str(self.severity),
            "title": self.title,
            "node": None if self.node is None else asdict(self.node),
            "case": self.case,
            "reason": self.reason,
            "hint": self.hint,
            "anchor": self.anchor,
        }

    def __str__(self) -> str:
        where = f" {self.node}:" if self.node is not None else ""
        case = f" [{self.case}]" if self.case else ""
        hint = f" Hint: {self.hint}" if self.hint else ""
        return f"{self.code} {self.title}:{where}{case} {self.reason}{hint}"


class Refusal(Exception):
    """Raised where work cannot go on; carries at least one finding of severity error."""

    def __init__(self, findings: Finding | Iterable[Finding]) -> None:
        self.findings: tuple[Finding, ...] = (findings,) if isinstance(findings, Finding) else tuple(findings)
        super().__init__("\n".join(str(finding) for finding in self.findings))

    def __reduce__(self) -> tuple[Any, ...]:
        return Refusal, (self.findings,)


def refuse(code: str, reason: str, *, hint: str = "", case: str = "", node: NodeRef | None = None) -> Refusal:
    """A `Refusal` with one finding; write ``raise refuse("O2M-C003", …)``."""
    return Refusal(Finding(code, reason, hint=hint, case=case, node=node))


def exit_code(findings: Iterable[Finding]) -> int:
    """The command's exit code: that of the earliest stage with an error, or 0."""
    stages = {finding.stage for finding in findings if finding.severity is Severity.ERROR}
    return next((EXIT_CODES[stage] for stage in Stage if stage in stages), 0)
