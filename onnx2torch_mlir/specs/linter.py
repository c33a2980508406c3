"""Hold the table against the ledger: `lint` finds rows that are not true, `replay` what becomes of every version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from onnx2torch_mlir.diagnostics import Finding
from onnx2torch_mlir.specs.changes import SIGNATURE_CHANGES, Change, changes
from onnx2torch_mlir.specs.ledger import Ledger
from onnx2torch_mlir.specs.ledger_text import attribute_value
from onnx2torch_mlir.specs.operator import AttributeSpec, Operator, OperatorVersion
from onnx2torch_mlir.specs.row import Action, Row
from onnx2torch_mlir.specs.table import SpecTable

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "string": (str,)}


class Outcome(StrEnum):
    """What becomes of a version of an operator."""

    ROW = "row"
    FUNCTION = "function"
    HOST = "host"
    REFUSED = "refused"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Resolution:
    """A version of an operator and what becomes of it: its row, if any, and the reason where it is refused."""

    version: OperatorVersion
    outcome: Outcome
    row: Row | None = None

    @property
    def reason(self) -> str:
        """Why the version is not converted (refused, or run on the host); empty where it is."""
        if self.outcome is Outcome.UNEXPLAINED:
            return f"there is neither a row nor a function body for {self.version}"
        return self.row.reason if self.row is not None else ""


def resolve(table: SpecTable, version: OperatorVersion) -> Resolution:
    """What becomes of ``version``: its row says it, else its own function body is expanded."""
    row = table.find(version.domain, version.op, version.since_version)
    if row is None:
        return Resolution(version, Outcome.FUNCTION if version.function else Outcome.UNEXPLAINED)
    outcomes = {Action.REFUSE: Outcome.REFUSED, Action.FUNCTION: Outcome.FUNCTION, Action.HOST: Outcome.HOST}
    return Resolution(version, outcomes.get(row.action, Outcome.ROW), row)


def replay(table: SpecTable, ledger: Ledger) -> list[Resolution]:
    """The resolution of every version of every operator of every domain of the ledger."""
    return [resolve(table, version) for domain in ledger.domains() for version in ledger.versions(domain)]


def lint(table: SpecTable, ledger: Ledger) -> list[Finding]:
    """Everything in the table that the ledger contradicts, each finding at its ``file:line``."""
    findings: list[Finding] = []
    for domain, op in table.operators():
        rows = table.rows_of(domain, op)
        operator = ledger.operator(domain, op)
        if operator is None:
            findings += [_bad("O2M-S002", row, f"the ledger has no operator {domain}::{op}") for row in rows]
            continue
        for before, row in zip((None, *rows), rows, strict=False):
            findings += _lint_row(row, operator, before)
        findings += _holes(rows, operator)
    return findings


def _bad(code: str, row: Row, reason: str, hint: str = "") -> Finding:
    return Finding(code, reason, hint=hint, case=row.place)


def _lint_row(row: Row, operator: Operator, older: Row | None) -> Iterator[Finding]:
    versions = [version for version in operator.versions if row.covers(version.since_version)]
    known = [version.since_version for version in operator.versions]
    if not versions:
        yield _bad("O2M-S004", row, f"no version of {row.op} lies in {row.span}; its versions are {known}")
        return
    overridden = row.override or (older is not None and older.override)
    if row.since > known[0] and row.since not in known and not overridden:
        yield _bad("O2M-S004", row, f"{row.span} begins where no version does; the versions are {known}")
    elif older is not None and row.change is not None:
        yield from _lint_change(row, operator)
    if row.action is Action.FUNCTION:
        for version in versions:
            if not version.function:
                yield _bad("O2M-S001", row, f"{version} has no function body to expand")
    elif row.action not in (Action.REFUSE, Action.HOST):
        yield from _lint_names(row, versions)
        for version in versions:
            yield from _lint_attributes(row, version)
        yield from _lint_steps(row, versions)


def _lint_change(row: Row, operator: Operator) -> Iterator[Finding]:
    """``change`` must be one of the changes that the schemas show; only SEMANTICS cannot be seen there."""
    steps = [pair for pair in pairwise(operator.versions) if pair[1].since_version == row.since]
    for before, after in steps:
        kinds = changes(before, after)
        if row.change is not Change.SEMANTICS and row.change not in kinds:
            words = ", ".join(sorted(kinds))
            yield _bad("O2M-S001", row, f"from {before} to {after} the change is {words}, not {row.change}")


def _lint_names(row: Row, versions: list[OperatorVersion]) -> Iterator[Finding]:
    for name in (*row.ignore, *row.hosted):
        if not any(name in version.attributes for version in versions):
            what = "ignore" if name in row.ignore else "run on the host for"
            yield _bad("O2M-S002", row, f"no version in {row.span} has the attribute {name!r} to {what}")
    for version in versions:
        names = {formal.name for formal in version.inputs}
        for name in row.constants:
            if name not in names:
                yield _bad("O2M-S002", row, f"{version} has no input {name!r}; it has {sorted(names)}")


def _lint_attributes(row: Row, version: OperatorVersion) -> Iterator[Finding]:
    for name, default in row.attributes.items():
        spec = version.attributes.get(name)
        if spec is None:
            yield _bad("O2M-S002", row, f"{version} has no attribute {name!r}; it has {sorted(version.attributes)}")
        elif default is None:
            if spec.default is not None:
                yield _bad("O2M-S001", row, f"the default of {name!r} in {version} is {spec.default!r}, not null")
        elif not _has_type(default, spec):
            yield _bad("O2M-S001", row, f"{name!r} of {version} has the type {spec.type}, which {default!r} is not")
        elif spec.required:
            yield _bad("O2M-S001", row, f"{name!r} is required in {version} and takes no default")
        elif spec.default is not None and attribute_value(default, spec.type) != spec.default:
            yield _bad("O2M-S001", row, f"the default of {name!r} in {version} is {spec.default!r}, not {default!r}")
    for name, spec in version.attributes.items():
        if spec.default is not None and name not in row.attributes and name not in row.ignore:
            reason = f"{version} has the attribute {name!r} with the default {spec.default!r}, which the row leaves out"
            yield _bad("O2M-S001", row, reason, hint="state it under 'attributes', or in 'ignore' if it means nothing")


def _has_type(value: Any, spec: AttributeSpec) -> bool:
    types = _PYTHON_TYPES.get(spec.type.removesuffix("s"), ())
    items = value if spec.type.endswith("s") else (value,)
    return isinstance(items, tuple) and all(isinstance(item, types) and not isinstance(item, bool) for item in items)


def _lint_steps(row: Row, versions: list[OperatorVersion]) -> Iterator[Finding]:
    """A row is one signature: a step inside its range must not change it."""
    for before, after in pairwise(versions):
        kinds = changes(before, after, row.ignore) & SIGNATURE_CHANGES
        if kinds:
            words = ", ".join(sorted(kinds))
            reason = f"{row.span} spans a change of signature from {before} to {after} ({words})"
            hint = f"end it with 'until: {after.since_version - 1}' and begin a new row at {after.since_version}"
            yield _bad("O2M-S001", row, reason, hint=hint)


def _holes(rows: tuple[Row, ...], operator: Operator) -> Iterator[Finding]:
    covered = [any(row.covers(version.since_version) for row in rows) for version in operator.versions]
    if True not in covered:
        return
    start, end = covered.index(True), len(covered) - covered[::-1].index(True)
    for version, is_covered in list(zip(operator.versions, covered, strict=True))[start:end]:
        if not is_covered:
            after = next(row for row in rows if row.since > version.since_version)
            yield _bad("O2M-S001", after, f"the rows of {version.op} leave a hole: none speaks for {version}")
