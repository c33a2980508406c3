"""Every operator version with what becomes of it, and the counts by domain and opset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx2torch_mlir.coverage.measured import Measured, Tally, load_measured
from onnx2torch_mlir.specs import Ledger, Resolution, SpecTable, default_ledger, default_table, replay
from onnx2torch_mlir.specs import Outcome as Mapped


@dataclass(frozen=True)
class Support:
    """An operator version: what the table says, and the tally of the row that speaks for it.

    A row is one signature and one implementation for all the versions in its range, so what was measured at one of
    them counts for all of them. Where an operator is expanded into its function body, each version counts for itself.
    """

    resolution: Resolution
    tally: Tally

    @property
    def converts(self) -> bool:
        """Whether a row or a function body speaks for the version."""
        return self.resolution.outcome in (Mapped.ROW, Mapped.FUNCTION)

    @property
    def lowers(self) -> bool:
        """Whether some case of it was lowered."""
        return self.converts and self.tally.lowered > 0

    @property
    def matches(self) -> bool:
        """Whether some case of it gave the right numbers."""
        return self.converts and self.tally.matched > 0


@dataclass(frozen=True)
class Level:
    """One opset of a domain: how many of its operators are declared, convert, lower, and match."""

    domain: str
    opset: int
    declared: int
    converts: int
    lowers: int
    matches: int


@dataclass(frozen=True)
class CoverageTable:
    """All versions of all operators."""

    supports: tuple[Support, ...]
    measured: Measured
    newest: dict[str, int]

    def levels(self) -> list[Level]:
        """The counts for every opset of every domain; deprecated operators are not counted."""
        return [self.level(domain, opset) for domain, newest in self.newest.items() for opset in range(1, newest + 1)]

    def level(self, domain: str, opset: int) -> Level:
        """The counts of one opset: of each operator, the version that a model of this opset means."""
        current: dict[str, Support] = {}
        for support in self.supports:
            version = support.resolution.version
            if version.domain == domain and version.since_version <= opset:
                older = current.get(version.op)
                if older is None or older.resolution.version.since_version < version.since_version:
                    current[version.op] = support
        counted = [support for support in current.values() if not support.resolution.version.deprecated]
        return Level(
            domain,
            opset,
            len(counted),
            sum(support.converts for support in counted),
            sum(support.lowers for support in counted),
            sum(support.matches for support in counted),
        )

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "suite": self.measured.suite,
            "kinds": {name: {"cases": pair[0], "passed": pair[1]} for name, pair in self.measured.kinds.items()},
            "opsets": [vars(level) for level in self.levels()],
            "operators": [
                {
                    "domain": support.resolution.version.domain,
                    "op": support.resolution.version.op,
                    "since_version": support.resolution.version.since_version,
                    "outcome": str(support.resolution.outcome),
                    "reason": support.resolution.reason,
                    "cases": support.tally.cases,
                    "lowered": support.tally.lowered,
                    "matched": support.tally.matched,
                }
                for support in self.supports
            ],
        }


def build(
    table: SpecTable | None = None, ledger: Ledger | None = None, measured: Measured | None = None
) -> CoverageTable:
    """The table of the rows and the ledger (default: all that are installed), with what was measured."""
    table = default_table() if table is None else table
    ledger = default_ledger() if ledger is None else ledger
    measured = load_measured() if measured is None else measured
    resolutions = replay(table, ledger)
    tallies: dict[tuple[str, str, str], Tally] = {}
    for resolution in resolutions:
        version = resolution.version
        tally = measured.operators.get((version.domain, version.op, version.since_version))
        if tally is not None:
            tallies.setdefault(_implementation(resolution), Tally()).add(tally)
    supports = tuple(Support(item, tallies.get(_implementation(item), Tally())) for item in resolutions)
    newest = {domain: ledger.newest_opset(domain) or 0 for domain in ledger.domains()}
    return CoverageTable(supports, measured, newest)


def _implementation(resolution: Resolution) -> tuple[str, str, str]:
    version, row = resolution.version, resolution.row
    shared = resolution.outcome is Mapped.ROW and row is not None
    return version.domain, version.op, f"row {row.since}" if shared and row is not None else str(version.since_version)
