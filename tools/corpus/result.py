"""What came of a subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

GOOD = ("equal", "exact", "as close")
"""Verdicts that are no failure (`judging`)."""


@dataclass(frozen=True)
class Held:
    """One run at one set of sizes: the largest error of any output, absolute and relative to the output's largest number.

    ``spread`` is how far onnxruntime is from itself at that output, where that was asked. ``wrong`` is the number of elements
    outside the tolerance, ``reason`` says what differs.
    """

    sizes: Mapping[str, int]
    verdict: str
    max_abs: float = 0.0
    share: float = 0.0
    wrong: int = 0
    spread: float | None = None
    run_ms: float = 0.0
    reference_ms: float = 0.0
    reason: str = ""


@dataclass
class Result:
    """A subject's outcome.

    ``verdict`` is one of `judging`, or "refused", "crash", "time" or "not made". Times are in
    seconds; ``memory`` is the largest resident memory in MiB, of converting, compiling and running, without the reference's.
    ``operators`` counts the nodes by operator, of domains other than ai.onnx by "domain::operator".
    """

    name: str
    exporter: str
    kind: str
    verdict: str = "not made"
    nodes: int = 0
    operators: dict[str, int] = field(default_factory=dict)
    opset: int = 0
    convert: float = 0.0
    lower: float = 0.0
    compile: float = 0.0
    memory: float = 0.0
    reference: str = ""
    runs: list[Held] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    reason: str = ""
    note: str = ""

    @property
    def good(self) -> bool:
        """Whether the subject equals the reference at every set of sizes."""
        return self.verdict in GOOD

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)
