"""The operators that onnxruntime adds to ONNX's, read from the schemas that the installed `onnxruntime` carries.

Its own domains keep their names. What it adds to ONNX's default domain (LayerNormalization before opset 17,
SimplifiedLayerNormalization, operators that ONNX withdrew before its first stable release) stands in a domain that
extends it, `EXTENSION`: the ledger looks there for what ``ai.onnx`` itself does not have at an opset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as native

from onnx2torch_mlir.specs.ledger_text import attribute_value
from onnx2torch_mlir.specs.operator import DEFAULT_DOMAIN, AttributeSpec, Formal, OperatorVersion

DOMAINS = ("com.microsoft", "com.microsoft.nchwc")
EXTENSION = "com.microsoft.onnx"


def has_cpu_kernel(domain: str, op: str) -> bool:
    """Whether onnxruntime can run the operator on the CPU, so that its numbers can be compared."""
    return (domain.replace(DEFAULT_DOMAIN, ""), op) in _kernels()


def versions() -> Iterator[OperatorVersion]:
    """Every version of every operator of `DOMAINS`, and of what the default domain gets with a CPU kernel."""
    of_onnx = {(schema.name, schema.since_version) for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    for schema in native.get_all_operator_schema():
        if schema.domain in DOMAINS:
            yield _version(schema, schema.domain)
        elif not schema.domain and (schema.name, schema.since_version) not in of_onnx and ("", schema.name) in _kernels():
            yield _version(schema, EXTENSION)


def _kernels() -> frozenset[tuple[str, str]]:
    if not _KERNELS:
        definitions = native.get_all_opkernel_def()
        _KERNELS.append(frozenset((k.domain, k.op_name) for k in definitions if k.provider == "CPUExecutionProvider"))
    return _KERNELS[0]


_KERNELS: list[frozenset[tuple[str, str]]] = []


def _version(schema: Any, domain: str) -> OperatorVersion:
    types: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for constraint in schema.type_constraints:
        types[constraint.type_param_str] = tuple(sorted(constraint.allowed_type_strs))
    return OperatorVersion(
        domain,
        schema.name,
        schema.since_version,
        inputs=tuple(_formals(schema.inputs, schema.min_input)),
        outputs=tuple(_formals(schema.outputs, schema.min_output)),
        attributes={name: _attribute(spec) for name, spec in sorted(schema.attributes.items())},
        type_constraints=dict(sorted(types.items())),
        deprecated=schema.deprecated,
    )


def _formals(parameters: Any, fewest: int) -> Iterator[Formal]:
    for index, parameter in enumerate(parameters):
        kind = str(parameter.option).rpartition(".")[2].lower()
        if kind == "variadic":
            yield Formal(parameter.name, parameter.typeStr, kind, parameter.isHomogeneous, max(fewest - index, 0))
        else:
            yield Formal(parameter.name, parameter.typeStr, kind)


def _attribute(spec: Any) -> AttributeSpec:
    kind = str(spec.type).rpartition(".")[2].lower()
    default = None
    if spec._default_value:
        stored = onnx.helper.get_attribute_value(onnx.AttributeProto.FromString(spec._default_value))
        decoded = [_text(item) for item in stored] if isinstance(stored, list) else _text(stored)
        default = attribute_value(decoded, kind)
    return AttributeSpec(spec.name, kind, default, spec.required)


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value
