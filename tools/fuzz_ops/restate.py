"""The same node stated at another version, for references that do not know the version drawn.

Two versions whose pages are the same but for their types mean the same (`_kindred`). Where a page has changed, a rule
of `restate_rules` states an old node by a newer one, or one of today by an older one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import onnx

from onnx2torch_mlir.specs import DEFAULT_DOMAIN
from tools.fuzz_ops.case import Case, Surroundings
from tools.fuzz_ops.restate_rules import DETOURS, RULES
from tools.fuzz_ops.stated import Stated, at


def restated(case: Case) -> Iterator[Stated]:
    """The other ways to state ``case``; the node alone can be stated, without anything around it."""
    if case.around != Surroundings() or any(item is not None and item.type is not None for item in case.inputs):
        return
    ways = [Stated(case)]
    for op, until, since, rule in RULES:
        if case.domain == DEFAULT_DOMAIN and since <= case.opset <= until and re.fullmatch(op, case.op):
            changed = rule(case)
            if changed is not None:
                ways += [changed]
    for way in ways[1:]:
        yield way
    for way in ways:
        for version in _kindred(way.case.domain, way.case.op, way.case.opset):
            # An attribute that was only a hint of how to store results.
            attributes = {name: value for name, value in way.case.attributes.items() if name != "consumed_inputs"}
            yield replace(way, case=replace(way.case, opset=version, attributes=attributes), how=at(way.case.op, version))


@functools.cache
def _kindred(domain: str, op: str, opset: int) -> tuple[int, ...]:
    """The other versions that mean what the one at ``opset`` means, the nearest later ones first, then earlier ones."""
    name = "" if domain == DEFAULT_DOMAIN else domain
    schemas = sorted(_schemas().get((name, op), ()), key=lambda schema: schema.since_version)
    here = max((index for index, schema in enumerate(schemas) if schema.since_version <= opset), default=None)
    if here is None:
        return ()
    first = last = here
    while last + 1 < len(schemas) and _page(schemas[last]) == _page(schemas[last + 1]):
        last += 1
    while first and _page(schemas[first - 1]) == _page(schemas[first]):
        first -= 1
    order = [*range(here + 1, last + 1), *range(here - 1, first - 1, -1)]
    return tuple(schemas[index].since_version for index in order)


@functools.cache
def _schemas() -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated:
            found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def _page(schema: Any) -> tuple[Any, ...]:
    """What a version's page says but for types: its text, its inputs and outputs, its attributes with their defaults."""
    words = re.sub(r"\W+", " ", schema.doc or "").strip().lower()
    attributes = sorted(
        (name, str(item.default_value), item.required) for name, item in schema.attributes.items() if name != "consumed_inputs"
    )
    formals = [[(item.name, str(item.option), item.type_str) for item in side] for side in (schema.inputs, schema.outputs)]
    return words, attributes, formals


def detour(case: Case) -> Stated | None:
    """How to state ``case`` for onnxruntime, which is wrong about it as it stands; None where it is not."""
    found = (rule(case) for op, rule in DETOURS if case.domain == DEFAULT_DOMAIN and re.fullmatch(op, case.op))
    return next(filter(None, found), None)
