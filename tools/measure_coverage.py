"""Measure coverage: what ONNX's backend suite and the differential tester say about every operator version.

python -m tools.measure_coverage           run the suite as it is, with symbolic dims, and with baked parameters
python -m tools.measure_coverage --from suite.json --dynamic dynamic.json --baked baked.json --fuzz fuzz.json
                                           from results of ``tools.suite --json`` and ``tools.fuzz_ops --json``
python -m tools.measure_coverage --page-only    only write the pages anew, from what is recorded

Writes onnx2torch_mlir/coverage/measured.json, docs/coverage.html and docs/coverage.md. The draws of the differential
tester are only counted if ``--fuzz`` gives them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import onnx

from onnx2torch_mlir.coverage import Limit, Measured, Run, Tally, Version, build, in_general, write_pages
from onnx2torch_mlir.coverage.dtypes import group_of
from onnx2torch_mlir.specs import OperatorVersion, canonical_domain, default_ledger
from tests.suite.cases import KINDS, Case, load_cases
from tests.suite.execution import CaseResult
from tests.suite.pool import run_cases
from tests.suite.rewriting import baked, dynamic
from tools.case_operators import operators_of

SENTENCES = {
    "numerics": "the numbers differ by more than the case's own tolerance",
    "shape": "a result has another shape than expected",
    "dtype": "a result has another dtype than expected",
    "structure": "the results are of another kind than expected",
    "crash": "the process ended",
    "timeout": "not done in time",
    "differ": "the numbers are not the reference's",
    "traceback": "ended in an exception that is no finding",
}
"""For ways to fall short that no finding tells, or that differ between machines."""

REACHED = ("", "converted", "lowered", "ran", "matched")

_REACHED_BY_STAGE = {
    "pass": "matched",
    **dict.fromkeys(("numerics", "shape", "dtype", "structure"), "ran"),
    **dict.fromkeys(("compile", "run"), "lowered"),
    "lower": "converted",
}
"""How far a case got that ended at a stage; nothing is claimed of one that crashed or was not done in time."""


@dataclass(frozen=True)
class Form:
    """A form in which the suite was run: its name, the mode it measures (None: it only adds limits), its results."""

    name: str
    mode: str | None
    results: Sequence[CaseResult]
    original: Sequence[CaseResult] | None = None


def main() -> int:
    options = _options()
    if not options.page_only:
        cases = load_cases()
        results = _read(options.results) if options.results else run_cases(cases)
        forms = [Form("backend suite", "static", results)]
        for name, mode, path, rewrite in (
            ("with symbolic dims", "dynamic", options.dynamic, dynamic),
            ("with parameters as initializers", None, options.baked, baked),
        ):
            if path is not None or options.results is None:
                forms.append(Form(name, mode, _read(path) if path else run_cases(rewrite(cases)), results))
        measured = Measured()
        add_suite(measured, cases, forms)
        if options.fuzz is not None:
            add_draws(measured, json.loads(options.fuzz.read_text())["records"])
        measured.save()
    for path in write_pages(build()):
        print(f"wrote {path}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="results", type=Path, metavar="FILE", help="results of the suite as it is")
    parser.add_argument("--dynamic", type=Path, metavar="FILE", help="results of tools.suite --dynamic")
    parser.add_argument("--baked", type=Path, metavar="FILE", help="results of tools.suite --baked")
    parser.add_argument("--fuzz", type=Path, metavar="FILE", help="records of tools.fuzz_ops")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    if options.results is None and (options.dynamic or options.baked):
        parser.error("--dynamic and --baked need --from, the results that they are compared with")
    return options


def _read(path: Path) -> list[CaseResult]:
    return [CaseResult(**item) for item in json.loads(path.read_text())]


def add_suite(measured: Measured, cases: Sequence[Case], forms: Sequence[Form]) -> None:
    """Count what the suite says about the operators of ``cases``, in each form.

    A case that passes counts for every operator in its model, a case that fails for the operator that its finding
    names, or for the only one there is.
    """
    operators = {case.id: operators_of(case) for case in cases}
    for form in forms:
        measured.runs += _runs(form)
        for item in form.results:
            of_case = operators[f"{item.kind}/{item.name}"]
            for version in _concerned(of_case, item):
                if form.mode is not None:
                    reached = _REACHED_BY_STAGE.get(item.stage, "")
                    measured.count(version, of_case[version], form.mode, _tally(reached))
                if item.stage != "pass":
                    _add_limit(measured, version, item.code, SENTENCES.get(item.stage, item.reason), form.mode or "static")


def _runs(form: Form) -> list[Run]:
    passed = sum(item.stage == "pass" for item in form.results)
    if form.original is not None:
        before = {(item.kind, item.name) for item in form.original if item.stage == "pass"}
        lost = sum(item.stage != "pass" and (item.kind, item.name) in before for item in form.results)
        return [Run(form.name, len(form.results), passed, lost)]
    runs = [Run(f"{form.name} of onnx {onnx.__version__}", len(form.results), passed)]
    for kind in KINDS:
        of_kind = [item for item in form.results if item.kind == kind]
        if of_kind:
            runs.append(Run(f"{form.name}: {kind}", len(of_kind), sum(item.stage == "pass" for item in of_kind)))
    return runs


def _concerned(of_case: Mapping[Version, set[str]], item: CaseResult) -> list[Version]:
    if item.stage == "pass" or len(of_case) == 1:
        return sorted(of_case)
    return sorted(version for version in of_case if version[1] == item.op)


def _tally(reached: str, cases: int = 1) -> Tally:
    return Tally(cases, *(cases if REACHED.index(reached) >= stage else 0 for stage in range(1, len(REACHED))))


def _add_limit(measured: Measured, version: Version, code: str, reason: str, mode: str, times: int = 1) -> None:
    of = _declared(version)
    sentence = in_general(reason, of) if of is not None else reason
    measured.limit(version, Limit(code if code.startswith("O2M-") else "", sentence, mode), times)


def _declared(version: Version) -> OperatorVersion | None:
    operator = default_ledger().operator(version[0], version[1])
    return None if operator is None else operator.version_for(version[2])


def add_draws(measured: Measured, records: Sequence[Mapping[str, Any]]) -> None:
    """Count the draws of the differential tester; those that no reference runs say nothing."""
    said = [item for item in records if item["count"] and item["outcome"] != "both-refuse"]
    agreed = sum(item["count"] for item in said if item["outcome"] in ("agree", "disputed"))
    measured.runs.append(Run("draws of the differential tester", sum(item["count"] for item in said), agreed))
    for item in said:
        of = _declared((canonical_domain(item["domain"]), item["op"], item["version"]))
        if of is None:
            continue
        version = (of.domain, of.op, of.since_version)
        mode = "dynamic" if item["dynamic"] else "static"
        matched = item["outcome"] in ("agree", "disputed")
        reached = "matched" if matched else item["reached"]
        measured.count(version, {group_of(item["dtype"])}, mode, _tally(reached, item["count"]))
        if not matched:
            reason = SENTENCES.get(item["outcome"]) or re.sub(r"^\[[^\]]*\] ", "", item["reason"])
            _add_limit(measured, version, item["code"], reason, mode, item["count"])


if __name__ == "__main__":
    sys.exit(main())
