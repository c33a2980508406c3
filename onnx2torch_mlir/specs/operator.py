"""What ONNX declares about an operator: its formals, attributes and versions, as plain immutable data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

DEFAULT_DOMAIN = "ai.onnx"
"""The spelling of ONNX's default domain everywhere in this package; models also spell it ``""``."""

AttributeValue: TypeAlias = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
"""What a default can be; floats are rounded to float32, as a model's own float attributes are."""

ATTRIBUTE_TYPES = frozenset(
    f"{name}{plural}"
    for name in ("int", "float", "string", "tensor", "graph", "sparse_tensor", "type_proto")
    for plural in ("", "s")
)


def canonical_domain(domain: str) -> str:
    """``domain`` in the one spelling used here: ``""`` and ``"ai.onnx"`` are the same domain."""
    return domain or DEFAULT_DOMAIN


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal input or output.

    ``kind`` is ``"single"``, ``"optional"`` or ``"variadic"``; ``type`` is the name of a type constraint or a type such
    as ``tensor(int64)``. For a variadic formal ``min_arity`` says how many values it takes at least, and
    ``homogeneous`` whether all of them have the same type.
    """

    name: str
    type: str
    kind: str = "single"
    homogeneous: bool = True
    min_arity: int = 1


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """An attribute: its ONNX type in lower case, and its default (None where the operator gives none)."""

    name: str
    type: str
    default: AttributeValue | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class OperatorVersion:
    """One version of an operator, as its schema in the ONNX standard declares it.

    ``type_constraints`` maps a constraint's name to its types, e.g. ``{"T": ("tensor(float)", …)}``. ``function`` is
    ``"static"`` where the operator has a fixed function body, ``"context"`` where the body depends on the node, else
    ``""``.
    """

    domain: str
    op: str
    since_version: int
    inputs: tuple[Formal, ...] = ()
    outputs: tuple[Formal, ...] = ()
    attributes: Mapping[str, AttributeSpec] = field(default_factory=dict)
    type_constraints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    deprecated: bool = False
    function: str = ""

    def __str__(self) -> str:
        return f"{self.domain}::{self.op}-{self.since_version}"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator with all its versions, oldest first."""

    domain: str
    op: str
    versions: tuple[OperatorVersion, ...]

    def version_for(self, opset: int) -> OperatorVersion | None:
        """The version that a model importing ``opset`` means: the newest whose since_version is not above it.

        None where the operator is younger than ``opset``. A deprecated version is returned, flagged.
        """
        for version in reversed(self.versions):
            if version.since_version <= opset:
                return version
        return None
