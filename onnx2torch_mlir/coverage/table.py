"""Every row with what was measured of it, and the counts by domain and opset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from onnx2torch_mlir.coverage.dtypes import GROUPS, declared
from onnx2torch_mlir.coverage.measured import ALL, LIMITS_KEPT, MODES, NOTHING, Limit, Measured, Run, Tally, load_measured
from onnx2torch_mlir.specs import Ledger, OperatorVersion, Resolution, SpecTable, default_ledger, default_table, replay
from onnx2torch_mlir.specs import Outcome as Mapped


class Status(StrEnum):
    """What measuring says; the values are what a reader sees."""

    MATCHES = "matches"
    PARTLY = "partly matches"
    RUNS = "runs"
    LOWERS = "lowers"
    CONVERTS = "converts"
    REFUSED = "refused"
    UNMEASURED = "not measured"

    @staticmethod
    def of(tally: Tally) -> Status:
        """The furthest stage that any case reached; MATCHES only where all did."""
        if not tally.cases:
            return Status.UNMEASURED
        if tally.matched:
            return Status.MATCHES if tally.matched == tally.cases else Status.PARTLY
        reached = ((tally.ran, Status.RUNS), (tally.lowered, Status.LOWERS), (tally.converted, Status.CONVERTS))
        return next((status for count, status in reached if count), Status.REFUSED)


@dataclass(frozen=True)
class Support:
    """A row: the versions of an operator that one implementation speaks for, and what was measured at any of them.

    Where an operator is expanded into its function body, or nothing speaks for it, each version stands for itself.
    ``next_version`` is the first version after these, None where there is none.
    """

    versions: tuple[OperatorVersion, ...]
    resolution: Resolution
    next_version: int | None
    cells: dict[tuple[str, str], Tally] = field(default_factory=dict)
    measured_at: tuple[int, ...] = ()
    limits: tuple[tuple[Limit, int], ...] = ()

    @property
    def domain(self) -> str:
        """The operator's domain."""
        return self.versions[0].domain

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.versions[0].op

    @property
    def numbers(self) -> tuple[int, ...]:
        """The since_versions."""
        return tuple(version.since_version for version in self.versions)

    @property
    def declared(self) -> list[str]:
        """The dtype groups that ONNX declares for any of the versions, in the report's order."""
        groups = {group for version in self.versions for group in declared(version)}
        return [group for group in GROUPS if group in groups or any(key[0] == group for key in self.cells)]

    @property
    def refused(self) -> bool:
        """Whether the row refuses the operator, or nothing speaks for it."""
        return self.resolution.outcome not in (Mapped.ROW, Mapped.FUNCTION, Mapped.HOST)

    @property
    def deprecated(self) -> bool:
        """Whether ONNX deprecated the newest of the versions."""
        return self.versions[-1].deprecated

    def tally(self, mode: str = "static", group: str = ALL) -> Tally:
        """What was measured in ``mode``, of one dtype group or of all."""
        return self.cells.get((group, mode), NOTHING)

    def status(self, mode: str = "static", group: str = ALL) -> Status:
        """The status in ``mode``, of one dtype group or of all: never more than was measured."""
        return Status.REFUSED if self.refused else Status.of(self.tally(mode, group))

    @property
    def package(self) -> str:
        """The plug-in whose row speaks for the operator, "" for this package."""
        return "" if self.resolution.row is None else self.resolution.row.package

    def how(self) -> str:
        """In words what is done with the operator."""
        row = self.resolution.row
        of = "its own" if not self.package else f"the plug-in {self.package}"
        instead = ", in place of this package's" if self.package and row is not None and row.override else ""
        texts = {
            Mapped.ROW: f"an implementation of {of}{instead}",
            Mapped.FUNCTION: "through ONNX's function body",
            Mapped.HOST: f"on the host: {self.resolution.reason}",
        }
        return texts.get(self.resolution.outcome, f"refused: {self.resolution.reason}")

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        row = self.resolution.row
        return {
            "domain": self.domain,
            "op": self.op,
            "versions": list(self.numbers),
            "deprecated": self.deprecated,
            "outcome": str(self.resolution.outcome),
            "reason": self.resolution.reason,
            "note": "" if row is None else row.note,
            "package": self.package,
            "status": {mode: str(self.status(mode)) for mode in MODES},
            "measured_at": list(self.measured_at),
            "dtypes": {
                group: {mode: {"status": str(self.status(mode, group)), **vars(self.tally(mode, group))} for mode in MODES}
                for group in self.declared
            },
            "limits": [{**vars(limit), "times": times} for limit, times in self.limits],
        }


@dataclass(frozen=True)
class Level:
    """One opset of a domain: how many operators it declares, and how many of them got how far with static shapes.

    ``complete`` is how many matched in every case, ``dynamic`` how many matched in some case with symbolic dims.
    """

    domain: str
    opset: int
    declared: int
    measured: int
    converts: int
    lowers: int
    runs: int
    matches: int
    complete: int
    dynamic: int
    refused: int


@dataclass(frozen=True)
class CoverageTable:
    """All rows of all operators, the runs they were measured in, and the newest opset of each domain."""

    supports: tuple[Support, ...]
    runs: tuple[Run, ...]
    newest: dict[str, int]

    def only(self, domain: str | None = None, pattern: str | None = None) -> CoverageTable:
        """The part of one domain, and of the operators whose names match ``pattern`` (``*`` and ``?``, any case)."""
        wanted = "*" if pattern is None else pattern.lower()
        supports = (item for item in self.supports if domain in (None, item.domain) and fnmatchcase(item.op.lower(), wanted))
        newest = {name: number for name, number in self.newest.items() if domain in (None, name)}
        return CoverageTable(tuple(supports), self.runs, newest)

    def operators(self) -> list[tuple[str, str, list[Support]]]:
        """Domain, name and rows of every operator; rows oldest first."""
        grouped = groupby(self.supports, key=lambda item: (item.domain, item.op))
        return [(domain, op, list(items)) for (domain, op), items in grouped]

    def levels(self) -> list[Level]:
        """The counts for every opset of every domain that declares something; deprecated operators are not counted."""
        all_levels = [self.level(domain, opset) for domain, newest in self.newest.items() for opset in range(1, newest + 1)]
        return [level for level in all_levels if level.declared]

    def current(self, domain: str, opset: int) -> list[Support]:
        """Of each operator, the row that a model of this opset means; without deprecated operators."""
        return [item for item in self.supports if item.domain == domain and _speaks(item, opset)]

    def level(self, domain: str, opset: int) -> Level:
        """The counts of one opset."""
        current = self.current(domain, opset)

        def reached(of: Callable[[Tally], int], mode: str = "static") -> int:
            return sum(not item.refused and of(item.tally(mode)) > 0 for item in current)

        return Level(
            domain,
            opset,
            declared=len(current),
            measured=reached(lambda tally: tally.cases),
            converts=reached(lambda tally: tally.converted),
            lowers=reached(lambda tally: tally.lowered),
            runs=reached(lambda tally: tally.ran),
            matches=reached(lambda tally: tally.matched),
            complete=sum(item.status() is Status.MATCHES for item in current),
            dynamic=reached(lambda tally: tally.matched, "dynamic"),
            refused=sum(item.status() is Status.REFUSED for item in current),
        )

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "runs": [vars(run) for run in self.runs],
            "opsets": [vars(level) for level in self.levels()],
            "rows": [support.as_dict() for support in self.supports],
        }


def _speaks(item: Support, opset: int) -> bool:
    """Whether a model of ``opset`` means this row, and not a version that ONNX has deprecated."""
    meant = [version for version in item.versions if version.since_version <= opset]
    return bool(meant) and (item.next_version is None or opset < item.next_version) and not meant[-1].deprecated


def build(table: SpecTable | None = None, ledger: Ledger | None = None, measured: Measured | None = None) -> CoverageTable:
    """The table of the rows and the ledger (default: this package and the plug-ins), with what was measured."""
    table = default_table() if table is None else table
    ledger = default_ledger() if ledger is None else ledger
    measured = load_measured() if measured is None else measured
    resolutions = replay(table, ledger)
    supports: list[Support] = []
    for _, group in groupby(resolutions, key=lambda item: (item.version.domain, item.version.op)):
        rows = [list(items) for _, items in groupby(group, key=_implementation)]
        following = [*(items[0].version.since_version for items in rows[1:]), None]
        supports += [_support(items, after, measured) for items, after in zip(rows, following, strict=True)]
    newest = {domain: ledger.newest_opset(domain) or 0 for domain in ledger.domains()}
    return CoverageTable(tuple(supports), tuple(measured.runs), newest)


def _implementation(resolution: Resolution) -> tuple[str, int]:
    row = resolution.row
    if row is not None and resolution.outcome in (Mapped.ROW, Mapped.HOST, Mapped.REFUSED):
        return str(resolution.outcome), row.since
    return str(resolution.outcome), resolution.version.since_version


def _support(items: Iterable[Resolution], next_version: int | None, measured: Measured) -> Support:
    resolutions = list(items)
    cells: dict[tuple[str, str], Tally] = {}
    seen: dict[Limit, int] = {}
    measured_at = []
    for item in resolutions:
        if item.row is not None and item.row.package:
            continue  # what was measured is this package's own implementation
        key = (item.version.domain, item.version.op, item.version.since_version)
        for cell, tally in measured.tallies.get(key, {}).items():
            cells[cell] = cells.get(cell, Tally()) + tally
        for limit, times in measured.limits.get(key, {}).items():
            seen[limit] = seen.get(limit, 0) + times
        if any(tally.cases for tally in measured.tallies.get(key, {}).values()):
            measured_at.append(item.version.since_version)
    limits = sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:LIMITS_KEPT]
    versions = tuple(item.version for item in resolutions)
    return Support(versions, resolutions[0], next_version, cells, tuple(measured_at), tuple(limits))
