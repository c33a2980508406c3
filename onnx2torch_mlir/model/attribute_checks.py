"""Whether an AttributeProto says one thing: a name, a type and the value of that type."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

_A = onnx.AttributeProto
FIELD_OF_TYPE: dict[int, str] = {
    _A.FLOAT: "f",
    _A.INT: "i",
    _A.STRING: "s",
    _A.TENSOR: "t",
    _A.GRAPH: "g",
    _A.SPARSE_TENSOR: "sparse_tensor",
    _A.TYPE_PROTO: "tp",
    _A.FLOATS: "floats",
    _A.INTS: "ints",
    _A.STRINGS: "strings",
    _A.TENSORS: "tensors",
    _A.GRAPHS: "graphs",
    _A.SPARSE_TENSORS: "sparse_tensors",
    _A.TYPE_PROTOS: "type_protos",
}
_LISTS = {name for name in FIELD_OF_TYPE.values() if name.endswith("s") and name != "s"}
_MUST_BE_SET = {"t", "g", "sparse_tensor", "tp"}


def filled_fields(attribute: onnx.AttributeProto) -> list[str]:
    """The value fields that hold something."""
    return [
        name
        for name in FIELD_OF_TYPE.values()
        if (len(getattr(attribute, name)) > 0 if name in _LISTS else attribute.HasField(name))
    ]


def problem_of(attribute: onnx.AttributeProto, parameters: frozenset[str] | None) -> str:
    """What is wrong with ``attribute``, or ``""``; ``parameters`` are those of the function around it, if one is.

    A scalar whose field is absent has protobuf's default (0, 0.0, empty), as writers of proto3 leave it out. A type
    that is absent, as in files of IR version 1, is that of the only field set.
    """
    if not attribute.name:
        return "An attribute has no name."
    filled = filled_fields(attribute)
    if attribute.ref_attr_name:
        if filled:
            return f"It refers to the attribute {attribute.ref_attr_name!r} and has a value of its own."
        if parameters is None:
            return f"It refers to the attribute {attribute.ref_attr_name!r}, but is in no function."
        if attribute.ref_attr_name not in parameters:
            return f"It refers to {attribute.ref_attr_name!r}, which is no attribute of the function."
        return "" if attribute.type else "It refers to an attribute and has no type."
    if len(filled) > 1:
        return f"It has {len(filled)} values, in the fields {' and '.join(filled)}."
    if not attribute.type:
        return "" if filled else "It has neither a type nor a value."
    field = FIELD_OF_TYPE[attribute.type]
    if filled and filled[0] != field:
        return f"Its type is {_A.AttributeType.Name(attribute.type)}, but its value is in the field {filled[0]}."
    if not filled and field in _MUST_BE_SET:
        return f"Its type is {_A.AttributeType.Name(attribute.type)}, but it has no value."
    return ""


def settle_type(attribute: onnx.AttributeProto) -> None:
    """Write down the type that the only value implies, where it is absent."""
    if not attribute.type and not attribute.ref_attr_name:
        field = filled_fields(attribute)[0]
        attribute.type = next(type_ for type_ in _A.AttributeType.values() if FIELD_OF_TYPE.get(type_) == field)


def graphs_of(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """The sub-graphs of ``node``, each with the name of its attribute (and its index in a list)."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{index}]", graph


def tensors_of(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    """The dense tensors that ``attribute`` holds."""
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors


def sparse_tensors_of(attribute: onnx.AttributeProto) -> Iterator[onnx.SparseTensorProto]:
    """The sparse tensors that ``attribute`` holds."""
    if attribute.HasField("sparse_tensor"):
        yield attribute.sparse_tensor
    yield from attribute.sparse_tensors
