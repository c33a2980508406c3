"""The dtype groups of the report, and which of an operator's inputs and outputs decide the group of a case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from onnx2torch_mlir.specs import Formal, OperatorVersion

GROUPS: dict[str, str] = {
    "float": "float32/64",
    "f16": "float16, bfloat16",
    "int": "signed ints",
    "uint": "unsigned ints",
    "bool": "bool",
    "narrow": "8, 4 and 2-bit floats, 4 and 2-bit ints",
    "string": "string",
    "complex": "complex",
    "other": "no tensor",
}
"""Key and label of every group; "other" has what carries no element type, such as a sequence of unknown elements."""

_MEMBERS = {
    "float": ("float", "double", "float32", "float64"),
    "f16": ("float16", "bfloat16"),
    "int": ("int8", "int16", "int32", "int64"),
    "uint": ("uint8", "uint16", "uint32", "uint64"),
    "bool": ("bool",),
    "string": ("string", "str", "object"),
    "complex": ("complex64", "complex128"),
}
_GROUP_OF = {name: group for group, names in _MEMBERS.items() for name in names}
_NARROW = re.compile(r"(u?int[24]|float[48]\w*)")


def group_of(type_: str) -> str:
    """The group of an ONNX type (``tensor(float16)``, ``seq(tensor(int64))``) or of a dtype's name (``float16``)."""
    names = re.findall(r"\w+", type_)
    name = names[-1].lower() if names else ""
    return _GROUP_OF.get(name) or ("narrow" if _NARROW.fullmatch(name) else "other")


def deciding(version: OperatorVersion) -> tuple[frozenset[str], bool]:
    """The type constraints whose dtypes decide the group of a case, and whether there are any.

    Those that allow more than one group: not the indices of a Gather, the shape of a Reshape, or the condition of a
    Where. Where an operator has none, its first input decides, or its first output if it has no input.
    """
    several = {name for name, types in version.type_constraints.items() if len(set(map(group_of, types))) > 1}
    used = {formal.type for formal in (*version.inputs, *version.outputs)}
    if several & used:
        return frozenset(several & used), True
    first = [*version.inputs, *version.outputs][:1]
    return frozenset(formal.type for formal in first), False


def declared(version: OperatorVersion) -> frozenset[str]:
    """The groups that ONNX declares for ``version``."""
    constraints, _ = deciding(version)
    types = (type_ for name in constraints for type_ in version.type_constraints.get(name, (name,)))
    return frozenset(map(group_of, types)) or frozenset({"other"})


def groups_of(version: OperatorVersion, inputs: Iterable[str], outputs: Iterable[str]) -> frozenset[str]:
    """The groups of a node with these types of its inputs and outputs ("" for one that is left out or not known)."""
    constraints, several = deciding(version)
    pairs = [*_bound(version.inputs, inputs), *_bound(version.outputs, outputs)]
    types = [type_ for formal, type_ in pairs if type_ and formal.type in constraints]
    found = frozenset(map(group_of, types if several else types[:1]))
    return found or frozenset({"other"})


def _bound(formals: tuple[Formal, ...], types: Iterable[str]) -> Iterator[tuple[Formal, str]]:
    for index, type_ in enumerate(types):
        if index < len(formals):
            yield formals[index], type_
        elif formals and formals[-1].kind == "variadic":
            yield formals[-1], type_
