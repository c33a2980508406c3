"""The table of all rows, by domain and operator, with the checks that rows need among each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations

from onnx2torch_mlir.diagnostics import Finding, Refusal
from onnx2torch_mlir.specs.loader import read_root
from onnx2torch_mlir.specs.operator import canonical_domain
from onnx2torch_mlir.specs.roots import BUILTIN, Root
from onnx2torch_mlir.specs.row import Row


class SpecTable:
    """All rows; `find` answers which one speaks for a version of an operator."""

    def __init__(self, rows: dict[tuple[str, str], tuple[Row, ...]]) -> None:
        self._rows = rows

    @classmethod
    def load(cls, *roots: Root) -> SpecTable:
        """The table of the rows under ``roots`` (default: what this package ships).

        Raises `Refusal` with one finding for every violation in any file.
        """
        findings: list[Finding] = []
        rows = [row for root in roots or (BUILTIN,) for row in read_root(root, findings)]
        return cls.build(rows, findings)

    @classmethod
    def build(cls, rows: Iterable[Row], findings: Iterable[Finding] = ()) -> SpecTable:
        """The table of ``rows``; raises `Refusal` with ``findings`` and what is wrong among the rows."""
        found = list(findings)
        grouped: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in rows:
            grouped[row.domain, row.op].append(row)
        table = {key: _arranged(group, found) for key, group in grouped.items()}
        if found:
            raise Refusal(found)
        return cls(table)

    def with_rows(self, rows: Iterable[Row], more: Iterable[Row]) -> SpecTable:
        """This table, made of ``rows``, with ``more`` beside them; raises `Refusal` with what is wrong among them."""
        more = list(more)
        touched = {(row.domain, row.op) for row in more}
        part = SpecTable.build([*(row for row in rows if (row.domain, row.op) in touched), *more])
        return SpecTable({**self._rows, **part._rows})

    def find(self, domain: str, op: str, since_version: int) -> Row | None:
        """The row for that version of the operator, or None; never one for a neighbouring version."""
        for row in self._rows.get((canonical_domain(domain), op), ()):
            if row.covers(since_version):
                return row
        return None

    def rows_of(self, domain: str, op: str) -> tuple[Row, ...]:
        """All rows of an operator, oldest first."""
        return self._rows.get((canonical_domain(domain), op), ())

    def operators(self) -> tuple[tuple[str, str], ...]:
        """The (domain, op) pairs that have rows, sorted."""
        return tuple(sorted(self._rows))

    def __iter__(self) -> Iterator[Row]:
        return (row for key in self.operators() for row in self._rows[key])

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


def _arranged(group: list[Row], findings: list[Finding]) -> tuple[Row, ...]:
    """The rows of one operator, oldest first, overrides applied; violations are added to ``findings``."""
    ordered = sorted(group, key=lambda row: row.since)
    plain = [row for row in ordered if not row.override]
    overrides = [row for row in ordered if row.override]
    for rows in (plain, overrides):
        for before, after in combinations(rows, 2):
            findings.extend(_clash(before, after))
    for row in plain[1:]:
        if row.change is None:
            reason = f"{row.span} is not the operator's first row and must say with 'change' why it begins"
            findings.append(Finding("O2M-S001", reason, case=row.place))
    for override in overrides:
        if not any(override.overlaps(row) for row in plain):
            reason = f"{override.span} says 'override' but there is no row to override"
            findings.append(Finding("O2M-S001", reason, case=override.place))
        plain = [piece for row in plain for piece in _without(row, override)]
    return tuple(sorted(plain + overrides, key=lambda row: row.since))


def _clash(before: Row, after: Row) -> Iterator[Finding]:
    if before.overlaps(after):
        same = (before.since, before.until) == (after.since, after.until)
        reason = f"{after.span} {'repeats' if same else 'overlaps'} {before.span} at {before.place}"
        hint = "end the older row with 'until', or say 'override: true' to replace another package's row"
        yield Finding("O2M-S003", reason, hint=hint, case=after.place)


def _without(row: Row, hole: Row) -> Iterator[Row]:
    """What is left of ``row`` outside the range of ``hole``."""
    if not row.overlaps(hole):
        yield row
        return
    if row.since < hole.since:
        yield replace(row, until=hole.since - 1)
    if hole.until is not None and (row.until is None or hole.until < row.until):
        yield replace(row, since=hole.until + 1)
