"""Measure coverage: run ONNX's backend suite, record it, and write docs/coverage.md.

python -m tools.measure_coverage                      run all cases (some minutes)
python -m tools.measure_coverage --from results.json  from the results of ``python -m tools.suite --json``
python -m tools.measure_coverage --page-only          only write the page anew, from what is recorded
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import onnx

from onnx2torch_mlir.coverage import PAGE, Measured, Tally, build, page
from onnx2torch_mlir.specs import canonical_domain, default_ledger
from tests.suite.cases import KINDS, Case, load_cases
from tests.suite.execution import CaseResult
from tests.suite.pool import run_cases

Version = tuple[str, str, int]

_LOWERED = frozenset({"pass", "compile", "run", "numerics", "shape", "dtype", "structure"})
"""Ways to end that come after lowering."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="results", type=Path, metavar="FILE")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    if not options.page_only:
        cases = load_cases()
        if options.results is not None:
            results = [CaseResult(**item) for item in json.loads(options.results.read_text())]
        else:
            results = run_cases(cases)
        measure(cases, results).save()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(build()), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


def measure(cases: Sequence[Case], results: Sequence[CaseResult]) -> Measured:
    """What ``results`` say about the operators of ``cases``.

    A case that passes counts for every operator in its model, a case that fails for the operator that its finding
    names, or for the only one there is.
    """
    by_id = {case.id: case for case in cases}
    measured = Measured(f"the backend suite of onnx {onnx.__version__}")
    for kind in KINDS:
        of_kind = [item for item in results if item.kind == kind]
        if of_kind:
            measured.kinds[kind] = (len(of_kind), sum(item.stage == "pass" for item in of_kind))
    for item in results:
        versions = operators_of(by_id[f"{item.kind}/{item.name}"])
        passed = item.stage == "pass"
        named = {version for version in versions if version[1] == item.op}
        blamed = versions if passed or len(versions) == 1 else named
        lowered = int(item.stage in _LOWERED)
        for version in blamed:
            measured.operators.setdefault(version, Tally()).add(Tally(1, lowered, int(passed)))
    return measured


def operators_of(case: Case) -> set[Version]:
    """The operator versions that the nodes of a case's model mean, sub-graphs included."""
    content = case.model if isinstance(case.model, bytes) else Path(case.model).read_bytes()
    model = onnx.ModelProto.FromString(content)
    opsets = {canonical_domain(item.domain): item.version for item in model.opset_import}
    ledger = default_ledger()
    found: set[Version] = set()
    stack = list(model.graph.node)
    while stack:
        node = stack.pop()
        domain = canonical_domain(node.domain)
        operator = ledger.operator(domain, node.op_type)
        version = None if operator is None else operator.version_for(opsets.get(domain, 1))
        if version is not None:
            found.add((domain, node.op_type, version.since_version))
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                stack.extend(graph.node)
    return found


if __name__ == "__main__":
    sys.exit(main())
