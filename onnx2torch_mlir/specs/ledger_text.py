"""The text of one ledger file, both ways: `render_operator` writes it, `parse_operator` reads it.

Example (every scalar is read as text and understood here, so no YAML typing rule can get in the way)::

    since 1:
      inputs: {X: T, W: T, B: T?}         # T? optional; T+ and T* variadic with at least one or no value; '* mixed' of
      outputs: {Y: T}                     # different types
      attributes:
        auto_pad: string = "NOTSET"       # the default is JSON
        axis: int required
        dilations: ints
      types:
        T: double float float16           # tensor(...) is left out, other types are written in full
      deprecated: true
      function: static                    # or context
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.specs.operator import (
    ATTRIBUTE_TYPES,
    AttributeSpec,
    AttributeValue,
    Formal,
    Operator,
    OperatorVersion,
)

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_VERSION_KEYS = frozenset({"inputs", "outputs", "attributes", "types", "deprecated", "function"})


def float32(value: float) -> float:
    """``value`` rounded to float32, the only precision in which ONNX stores float attributes."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _shortest(value: float) -> float:
    """The float with the fewest digits that rounds to the same float32, so that 0.01 is written as 0.01."""
    return next(short for digits in range(1, 10) if float32(short := float(f"{value:.{digits}g}")) == float32(value))


def parse_operator(domain: str, op: str, text: str, file: str) -> Operator:
    """The operator that a ledger file holds. Raises `Refusal` (O2M-S005) where the text does not follow the form."""
    try:
        document = yaml.load(text, _LOADER)
        versions = [_parse_version(domain, op, key, fields or {}) for key, fields in document.items()]
    except (yaml.YAMLError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise refuse("O2M-S005", f"{file} cannot be read: {error}", case=f"{domain}::{op}") from error
    if not versions:
        raise refuse("O2M-S005", f"{file} holds no version", case=f"{domain}::{op}")
    return Operator(domain, op, tuple(sorted(versions, key=lambda version: version.since_version)))


def _parse_version(domain: str, op: str, key: str, fields: Mapping[str, Any]) -> OperatorVersion:
    if unknown := fields.keys() - _VERSION_KEYS:
        raise ValueError(f"unknown key {sorted(unknown)[0]!r} under {key!r}")
    word, _, number = key.partition(" ")
    if word != "since":
        raise ValueError(f"expected 'since <version>', found {key!r}")
    return OperatorVersion(
        domain,
        op,
        int(number),
        inputs=tuple(_parse_formal(*item) for item in fields.get("inputs", {}).items()),
        outputs=tuple(_parse_formal(*item) for item in fields.get("outputs", {}).items()),
        attributes={name: _parse_attribute(name, spec) for name, spec in fields.get("attributes", {}).items()},
        type_constraints={
            name: tuple(_long_type(short) for short in types.split()) for name, types in fields.get("types", {}).items()
        },
        deprecated=fields.get("deprecated") == "true",
        function=fields.get("function", ""),
    )


def _parse_formal(name: str, text: str) -> Formal:
    text, _, mixed = text.partition(" ")
    if not text:
        raise ValueError(f"the formal {name!r} has no type")
    mark = text[-1]
    if mark == "?":
        return Formal(name, text[:-1], "optional")
    if mark in "*+":
        return Formal(name, text[:-1], "variadic", homogeneous=not mixed, min_arity=1 if mark == "+" else 0)
    return Formal(name, text)


def _parse_attribute(name: str, text: str) -> AttributeSpec:
    kind, _, rest = text.partition(" ")
    if kind not in ATTRIBUTE_TYPES:
        raise ValueError(f"unknown attribute type {kind!r}")
    if not rest or rest == "required":
        return AttributeSpec(name, kind, required=bool(rest))
    if not rest.startswith("= "):
        raise ValueError(f"expected a default after {kind!r}, found {rest!r}")
    return AttributeSpec(name, kind, default=attribute_value(json.loads(rest[2:]), kind))


def attribute_value(value: Any, kind: str) -> AttributeValue:
    """A JSON value as an attribute of ONNX type ``kind``: lists become tuples, floats are rounded to float32."""
    if isinstance(value, list | tuple):
        return tuple(attribute_value(item, kind.removesuffix("s")) for item in value)  # type: ignore[return-value]
    if kind == "float":
        return float32(value)
    return value


def _long_type(short: str) -> str:
    return short.replace(",", ", ") if short.endswith(")") else f"tensor({short})"


def _short_type(full: str) -> str:
    inner = full.removeprefix("tensor(").removesuffix(")")
    return inner if full == f"tensor({inner})" and "(" not in inner else full.replace(", ", ",")


def render_operator(operator: Operator) -> str:
    """The ledger file of ``operator``: the same text for the same content."""
    lines: list[str] = []
    for version in operator.versions:
        lines.append(f"since {version.since_version}:")
        lines += [f"  inputs: {render_formals(version.inputs)}"] if version.inputs else []
        lines += [f"  outputs: {render_formals(version.outputs)}"] if version.outputs else []
        lines += _render_block("attributes", ((a.name, _render_attribute(a)) for a in version.attributes.values()))
        types = version.type_constraints.items()
        lines += _render_block("types", ((name, " ".join(map(_short_type, full))) for name, full in types))
        lines += ["  deprecated: true"] if version.deprecated else []
        lines += [f"  function: {version.function}"] if version.function else []
        if lines[-1].endswith(f"since {version.since_version}:"):
            lines[-1] += " {}"
    return "\n".join(lines) + "\n"


def _render_block(title: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    body = [f"    {name}: {text}" for name, text in sorted(entries)]
    return [f"  {title}:", *body] if body else []


def render_formals(formals: tuple[Formal, ...]) -> str:
    """The formals on one line, e.g. ``{X: T, W: T, B: T?}``."""
    return "{" + ", ".join(f"{formal.name}: {_render_formal(formal)}" for formal in formals) + "}"


def _render_formal(formal: Formal) -> str:
    if formal.kind == "variadic":
        if formal.min_arity > 1:
            raise ValueError(f"the ledger's form has no mark for {formal}")
        return formal.type + ("+" if formal.min_arity else "*") + ("" if formal.homogeneous else " mixed")
    return formal.type + ("?" if formal.kind == "optional" else "")


def _render_attribute(attribute: AttributeSpec) -> str:
    if attribute.required:
        return f"{attribute.type} required"
    if attribute.default is None:
        return attribute.type
    return f"{attribute.type} = {render_default(attribute)}"


def render_default(attribute: AttributeSpec) -> str:
    """The default as JSON, floats with as few digits as tell them apart in float32."""
    default = attribute.default
    return json.dumps(_shortest(default) if isinstance(default, float) else default)
