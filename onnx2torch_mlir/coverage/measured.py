"""What a run of ONNX's backend suite measured, kept in measured.json (written by tools/measure_coverage.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("measured.json")


@dataclass
class Tally:
    """Cases of one operator version: how many there are, how many were lowered, how many gave the right numbers."""

    cases: int = 0
    lowered: int = 0
    matched: int = 0

    def add(self, other: Tally) -> None:
        """Count the cases of ``other`` too."""
        self.cases += other.cases
        self.lowered += other.lowered
        self.matched += other.matched


@dataclass
class Measured:
    """A run of ``suite``: ``kinds`` has (cases, passed) by kind, ``operators`` a tally by (domain, op, version)."""

    suite: str
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    operators: dict[tuple[str, str, int], Tally] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form: domain, operator, version to [cases, lowered, matched]."""
        operators: dict[str, dict[str, dict[str, list[int]]]] = {}
        for (domain, op, version), tally in sorted(self.operators.items()):
            counts = [tally.cases, tally.lowered, tally.matched]
            operators.setdefault(domain, {}).setdefault(op, {})[str(version)] = counts
        return {
            "suite": self.suite,
            "kinds": {name: list(pair) for name, pair in self.kinds.items()},
            "operators": operators,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Measured:
        """The inverse of `as_dict`."""
        operators = {
            (domain, op, int(version)): Tally(*counts)
            for domain, ops in document["operators"].items()
            for op, versions in ops.items()
            for version, counts in versions.items()
        }
        kinds = {name: (int(pair[0]), int(pair[1])) for name, pair in document["kinds"].items()}
        return cls(str(document["suite"]), kinds, operators)

    def save(self, path: Path = PATH) -> None:
        """Write the run: one line for each operator, so that a diff shows what changed."""
        document = self.as_dict()
        lines = [f' "suite": {json.dumps(document["suite"])},', f' "kinds": {json.dumps(document["kinds"])},']
        domains = []
        for domain, ops in document["operators"].items():
            rows = ",\n".join(f"   {json.dumps(op)}: {json.dumps(versions)}" for op, versions in ops.items())
            domains.append(f"  {json.dumps(domain)}: {{\n{rows}\n  }}")
        lines += [' "operators": {\n' + ",\n".join(domains) + "\n }"]
        path.write_text("{\n" + "\n".join(lines) + "\n}\n", encoding="utf-8")


def load_measured(path: Path = PATH) -> Measured:
    """The run that is checked in; an empty one where there is none."""
    if not path.exists():
        return Measured("no run is recorded")
    return Measured.from_dict(json.loads(path.read_text(encoding="utf-8")))
