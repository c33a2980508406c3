"""What was measured, kept in measured.json (written by tools/measure_coverage.py)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("measured.json")

Version = tuple[str, str, int]
"""Domain, operator, since_version."""

MODES = ("static", "dynamic")
"""Static shapes, or symbolic dims."""

ALL = "all"
"""Stands beside the dtype groups for every case: one whose operator has several types counts in several groups."""

LIMITS_KEPT = 3


@dataclass(frozen=True)
class Tally:
    """Cases, and how many of them got how far: each count includes what got further.

    A case is *converted* to core primitives, *lowered* to linalg, *ran* as native code, and *matched* what was expected.
    """

    cases: int = 0
    converted: int = 0
    lowered: int = 0
    ran: int = 0
    matched: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    def __post_init__(self) -> None:
        if not self.cases >= self.converted >= self.lowered >= self.ran >= self.matched >= 0:
            raise ValueError(f"the counts {astuple(self)} do not fall from stage to stage")


NOTHING = Tally()


@dataclass(frozen=True, order=True)
class Limit:
    """A way in which cases of an operator fell short: a finding's code ("" where no finding says it) and a sentence."""

    code: str
    sentence: str
    mode: str = "static"


@dataclass(frozen=True)
class Run:
    """One measuring run: what it is, how many cases (or draws) it has, and how many matched.

    ``lost``: of a run with cases of another one in another form, how many passed there and fail here.
    """

    name: str
    cases: int
    matched: int
    lost: int | None = None


@dataclass
class Measured:
    """All runs, and by operator version: a tally for each (dtype group or `ALL`, mode), and limits with how often seen."""

    runs: list[Run] = field(default_factory=list)
    tallies: dict[Version, dict[tuple[str, str], Tally]] = field(default_factory=dict)
    limits: dict[Version, dict[Limit, int]] = field(default_factory=dict)

    def count(self, version: Version, groups: Iterable[str], mode: str, tally: Tally) -> None:
        """Add ``tally`` to what is known of ``version`` in a mode: to each of its dtype groups, and once to `ALL`."""
        cells = self.tallies.setdefault(version, {})
        for group in {*groups, ALL}:
            cells[group, mode] = cells.get((group, mode), Tally()) + tally

    def limit(self, version: Version, limit: Limit, times: int = 1) -> None:
        """Note that ``limit`` was met ``times`` times."""
        seen = self.limits.setdefault(version, {})
        seen[limit] = seen.get(limit, 0) + times

    def most_seen(self, version: Version) -> list[tuple[Limit, int]]:
        """The limits that are kept of ``version``, the most frequent first."""
        return sorted(self.limits.get(version, {}).items(), key=lambda item: (-item[1], item[0]))[:LIMITS_KEPT]

    def save(self, path: Path = PATH) -> None:
        """Write everything: one line for each operator version, so that a diff shows what changed."""
        lines = [" " + json.dumps(vars(run), ensure_ascii=False) for run in self.runs]
        versions = sorted({*self.tallies, *self.limits})
        rows = [" " + json.dumps(self._row(version), ensure_ascii=False) for version in versions]
        text = '{"runs": [\n' + ",\n".join(lines) + '\n],\n"versions": [\n' + ",\n".join(rows) + "\n]}\n"
        path.write_text(text, encoding="utf-8")

    def _row(self, version: Version) -> dict[str, Any]:
        cells = {f"{group} {mode}": astuple(tally) for (group, mode), tally in sorted(self.tallies.get(version, {}).items())}
        seen = [[limit.code, limit.sentence, limit.mode, times] for limit, times in self.most_seen(version)]
        return {"of": list(version), **cells, **({"limits": seen} if seen else {})}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Measured:
        """What `save` wrote."""
        measured = cls([Run(**run) for run in document["runs"]])
        for row in document["versions"]:
            domain, op, since = row["of"]
            for code, sentence, mode, times in row.get("limits", ()):
                measured.limit((domain, op, since), Limit(code, sentence, mode), times)
            for key in row.keys() - {"of", "limits"}:
                group, mode = key.split(" ")
                measured.tallies.setdefault((domain, op, since), {})[group, mode] = Tally(*row[key])
        return measured


def load_measured(path: Path = PATH) -> Measured:
    """What is checked in; nothing where there is no such file."""
    if not path.exists():
        return Measured()
    return Measured.from_dict(json.loads(path.read_text(encoding="utf-8")))
