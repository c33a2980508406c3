"""What changed between two versions of an operator: the reason why a row ends and the next begins."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from onnx2torch_mlir.specs.operator import AttributeSpec, Formal, OperatorVersion


class Change(StrEnum):
    """The kinds of change at the boundary between two rows."""

    DTYPE_ONLY = "dtype-only"
    WORDING = "wording"
    MOVED_TO_INPUT = "moved-to-input"
    NEW_ATTRIBUTE = "new-attribute"
    NEW_INPUT = "new-input"
    DEFAULT_CHANGED = "default-changed"
    SEMANTICS = "semantics"
    SIGNATURE = "signature"


SIGNATURE_CHANGES = frozenset(
    {Change.MOVED_TO_INPUT, Change.NEW_ATTRIBUTE, Change.NEW_INPUT, Change.DEFAULT_CHANGED, Change.SIGNATURE}
)
"""The changes that a row cannot span: what it says of inputs, outputs or attributes stops being true."""


def changes(before: OperatorVersion, after: OperatorVersion, ignore: Collection[str] = ()) -> frozenset[Change]:
    """All kinds of change from ``before`` to ``after``, leaving out the attributes named in ``ignore``.

    Names of formals do not count, because values are bound by position. ``SEMANTICS`` is never among them: a schema
    cannot show it. A step that changes nothing here is ``{WORDING}``.
    """
    old, new = _attributes(before, ignore), _attributes(after, ignore)
    gone, added = old.keys() - new.keys(), new.keys() - old.keys()
    more_inputs = len(after.inputs) - len(before.inputs)
    found: set[Change] = set()
    if added:
        found.add(Change.NEW_ATTRIBUTE)
    if more_inputs > 0:
        found.add(Change.MOVED_TO_INPUT if gone else Change.NEW_INPUT)
    elif gone:
        found.add(Change.SIGNATURE)
    for name in old.keys() & new.keys():
        if old[name].type != new[name].type:
            found.add(Change.SIGNATURE)
        elif (old[name].default, old[name].required) != (new[name].default, new[name].required):
            found.add(Change.DEFAULT_CHANGED)
    shared = min(len(before.inputs), len(after.inputs))
    if more_inputs < 0 or _arity(before.inputs[:shared]) != _arity(after.inputs[:shared]):
        found.add(Change.SIGNATURE)
    if _arity(before.outputs) != _arity(after.outputs):
        found.add(Change.SIGNATURE)
    if not found:
        same = _types(before) == _types(after) and before.type_constraints == after.type_constraints
        found.add(Change.WORDING if same else Change.DTYPE_ONLY)
    return frozenset(found)


def _attributes(version: OperatorVersion, ignore: Collection[str]) -> Mapping[str, AttributeSpec]:
    return {name: spec for name, spec in version.attributes.items() if name not in ignore}


def _arity(formals: tuple[Formal, ...]) -> list[tuple[str, int]]:
    return [(formal.kind, formal.min_arity) for formal in formals]


def _types(version: OperatorVersion) -> list[tuple[str, bool]]:
    return [(formal.type, formal.homogeneous) for formal in (*version.inputs, *version.outputs)]
