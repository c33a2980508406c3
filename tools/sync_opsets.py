"""Write the ledger ``opsets/<domain>/<Op>.yaml`` from the operator schemas of the installed `onnx` and `onnxruntime`.

``python -m tools.sync_opsets`` rewrites what differs and removes what they no longer have;
``python -m tools.sync_opsets --check`` changes nothing, lists what is stale and exits with 1 if anything is.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx.defs import OpSchema

from onnx2torch_mlir.specs.ledger import DOMAIN_FILE
from onnx2torch_mlir.specs.ledger_text import attribute_value, render_operator
from onnx2torch_mlir.specs.operator import DEFAULT_DOMAIN, AttributeSpec, Formal, Operator, OperatorVersion, canonical_domain
from tools import ort_schemas

OPSETS = Path(__file__).resolve().parent.parent / "opsets"


def formal(parameter: OpSchema.FormalParameter) -> Formal:
    kind = _enum_name(parameter.option)
    if kind != "variadic":
        return Formal(parameter.name, parameter.type_str, kind)
    return Formal(parameter.name, parameter.type_str, kind, parameter.is_homogeneous, parameter.min_arity)


def attribute(spec: OpSchema.Attribute) -> AttributeSpec:
    kind = _enum_name(spec.type)
    default = None
    if spec.default_value.type:
        default = onnx.helper.get_attribute_value(spec.default_value)
        decoded = [_text(item) for item in default] if isinstance(default, list) else _text(default)
        default = attribute_value(decoded, kind)
    return AttributeSpec(spec.name, kind, default, spec.required)


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _enum_name(member: Any) -> str:
    """The name in lower case; `onnx`'s own type stubs do not know that its enums have names."""
    return str(member.name).lower()


def _function(schema: Any) -> str:
    """Which kind of function body the schema has; the stubs do not know these two properties either."""
    return "static" if schema.has_function else "context" if schema.has_context_dependent_function else ""


def version(schema: OpSchema) -> OperatorVersion:
    return OperatorVersion(
        canonical_domain(schema.domain),
        schema.name,
        schema.since_version,
        inputs=tuple(map(formal, schema.inputs)),
        outputs=tuple(map(formal, schema.outputs)),
        attributes={name: attribute(spec) for name, spec in sorted(schema.attributes.items())},
        type_constraints={
            constraint.type_param_str: tuple(sorted(constraint.allowed_type_strs))
            for constraint in sorted(schema.type_constraints, key=lambda c: c.type_param_str)
        },
        deprecated=schema.deprecated,
        function=_function(schema),
    )


def operators() -> list[Operator]:
    """Every operator of every domain that `onnx` or `onnxruntime` declares, with its whole history."""
    history: dict[tuple[str, str], list[OperatorVersion]] = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        history[canonical_domain(schema.domain), schema.name].append(version(schema))
    for added in ort_schemas.versions():
        history[added.domain, added.op].append(added)
    return [
        Operator(domain, op, tuple(sorted(versions, key=lambda v: v.since_version)))
        for (domain, op), versions in sorted(history.items())
    ]


def expected_files() -> dict[Path, str]:
    """What the ledger has to hold: the text of every file, by its path below ``opsets``."""
    files: dict[Path, str] = {}
    newest: dict[str, int] = defaultdict(int)
    for operator in operators():
        files[Path(operator.domain, f"{operator.op}.yaml")] = render_operator(operator)
        newest[operator.domain] = max(newest[operator.domain], operator.versions[-1].since_version)
    released = {canonical_domain(row[0]): row[1] for row in _released()}
    for domain, number in newest.items():
        files[Path(domain, DOMAIN_FILE)] = f"newest_opset: {max(number, released.get(domain, 0))}\n"
    files[Path(ort_schemas.EXTENSION, DOMAIN_FILE)] += f"extends: {DEFAULT_DOMAIN}\n"
    return files


def _released() -> list[tuple[str, int]]:
    domains = ("ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training")
    return list(zip(domains, onnx.helper.VERSION_TABLE[-1][2:5], strict=True))


def stale(root: Path, files: dict[Path, str]) -> list[str]:
    """One line per difference between the checked-in ledger under ``root`` and ``files``."""
    domains = {path.parts[0] for path in files}
    present = {path.relative_to(root) for domain in domains if (root / domain).is_dir() for path in (root / domain).iterdir()}
    missing = [f"missing   {path}" for path in sorted(files.keys() - present)]
    extra = [f"unknown   {path}" for path in sorted(present - files.keys())]
    both = sorted(files.keys() & present)
    return missing + extra + [f"different {path}" for path in both if (root / path).read_text("utf-8") != files[path]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare; exit with 1 if the ledger is stale")
    parser.add_argument("--root", type=Path, default=OPSETS, help="the ledger's folder (default: opsets)")
    options = parser.parse_args(arguments)
    files = expected_files()
    differences = stale(options.root, files)
    print(
        "\n".join(differences)
        or f"{len(files)} files are up to date with onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__}"
    )
    if options.check:
        return 1 if differences else 0
    for line in differences:
        path = Path(line.split(maxsplit=1)[1])
        if path in files:
            (options.root / path).parent.mkdir(parents=True, exist_ok=True)
            (options.root / path).write_text(files[path], "utf-8")
        else:
            (options.root / path).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
