"""What a run did: the checklist of stages and all findings."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from onnx2torch_mlir.diagnostics.finding import Finding, Refusal, Severity, exit_code


class Outcome(StrEnum):
    """How a stage ended."""

    DONE = "done"
    FAILED = "failed"
    NOT_REACHED = "not reached"


@dataclass
class StageRecord:
    """One stage: its name, how it ended, and its time in seconds."""

    name: str
    outcome: Outcome = Outcome.NOT_REACHED
    seconds: float = 0.0


@dataclass
class Report:
    """Stages in the order they ran, and findings in the order they were met."""

    stages: list[StageRecord] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[StageRecord]:
        """Time a stage; findings of a `Refusal` raised inside are kept, and it is raised on."""
        record = StageRecord(name)
        self.stages.append(record)
        start = time.perf_counter()
        try:
            yield record
        except Refusal as refusal:
            record.outcome = Outcome.FAILED
            self.extend(refusal.findings)
            raise
        except BaseException:
            record.outcome = Outcome.FAILED
            raise
        else:
            record.outcome = Outcome.DONE
        finally:
            record.seconds = time.perf_counter() - start

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings, each once."""
        for finding in findings:
            if finding not in self.findings:
                self.findings.append(finding)

    @property
    def errors(self) -> list[Finding]:
        """The findings that stopped something."""
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]

    @property
    def exit_code(self) -> int:
        """0, or the code of the earliest stage that failed."""
        return exit_code(self.findings)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "stages": [
                {"name": item.name, "outcome": str(item.outcome), "seconds": round(item.seconds, 6)}
                for item in self.stages
            ],
            "findings": [finding.as_dict() for finding in self.findings],
        }
