"""Print a skeleton of the rows that operators need, from the ledger: one row per signature.

``python tools/draft_rows.py Softmax Clip`` for some operators, ``--domain ai.onnx.ml`` for another domain,
``--missing`` for every operator that has a version without a row or a function body. Each row comes with its range, the
change at its beginning and the attributes' defaults; what remains to be written is ``family`` or ``convert``.
"""

from __future__ import annotations

import argparse
import json
import sys

from onnx2torch_mlir.specs import (
    Change,
    Operator,
    OperatorVersion,
    Outcome,
    changes,
    default_ledger,
    default_table,
    resolve,
)
from onnx2torch_mlir.specs.changes import SIGNATURE_CHANGES
from onnx2torch_mlir.specs.ledger_text import render_default, render_formals

IGNORED = ("consumed_inputs",)


def signatures(operator: Operator) -> list[list[OperatorVersion]]:
    """The versions in groups of equal signature, oldest first."""
    groups = [[operator.versions[0]]]
    for version in operator.versions[1:]:
        if changes(groups[-1][-1], version, IGNORED) & SIGNATURE_CHANGES:
            groups.append([])
        groups[-1].append(version)
    return groups


def draft(operator: Operator) -> str:
    """The rows of ``operator`` as YAML, without their action."""
    lines: list[str] = []
    groups = signatures(operator)
    for index, group in enumerate(groups):
        first = group[0]
        formals = f"{render_formals(first.inputs)} -> {render_formals(first.outputs)}"
        lines.append(f"- op: {operator.op}  # {formals}{', has a function body' if first.function else ''}")
        if index:
            kind, *others = [kind for kind in Change if kind in changes(groups[index - 1][-1], first, IGNORED)]
            also = f"  # and {', '.join(others)}" if others else ""
            lines += [f"  since: {first.since_version}", f"  change: {kind}{also}"]
        if index + 1 < len(groups):
            lines.append(f"  until: {groups[index + 1][0].since_version - 1}")
        if ignored := [name for name in IGNORED if any(name in version.attributes for version in group)]:
            lines.append(f"  ignore: [{', '.join(ignored)}]")
        known = [spec for name, spec in first.attributes.items() if name not in IGNORED]
        if defaults := [f"{spec.name}: {render_default(spec)}" for spec in known if spec.default is not None]:
            lines.append(f"  attributes: {{{', '.join(defaults)}}}")
        if bare := [f"{spec.name} ({spec.type})" for spec in known if spec.default is None]:
            lines.append(f"  # without default: {', '.join(bare)}")
    return "\n".join(lines)


def missing(domain: str) -> list[str]:
    """The operators of ``domain`` that have a version nothing speaks for."""
    table, ledger = default_table(), default_ledger()
    unexplained = (v.op for v in ledger.versions(domain) if resolve(table, v).outcome is Outcome.UNEXPLAINED)
    return list(dict.fromkeys(unexplained))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", help="names of operators")
    parser.add_argument("--domain", default="ai.onnx")
    parser.add_argument("--missing", action="store_true", help="all operators with an unexplained version")
    options = parser.parse_args()
    names = [*options.ops, *(missing(options.domain) if options.missing else ())]
    for name in names:
        operator = default_ledger().operator(options.domain, name)
        print(draft(operator) if operator is not None else f"# unknown operator {json.dumps(name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
