"""The types of a model's inner values, by ONNX's own shape inference on a copy without its large weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

import onnx
import onnx_ir as ir

from onnx2torch_mlir.hosting.schema_types import declared_types
from onnx2torch_mlir.model import Kind, LoadedModel, ValueType, extract, value_type, value_type_of
from onnx2torch_mlir.specs import Ledger

_SMALL = 1024
"""Initializers of up to this many elements are kept: contents that decide shapes are short."""

_ROWS_OF_ONE = ("CastMap", "DictVectorizer")
"""Operators of ai.onnx.ml whose result onnxruntime gives as one row, and for which ONNX infers no rank."""


_ONE_AXIS_MORE = {("com.microsoft", "Tokenizer")}
"""Operators on the host that give an axis more than they take, of domains whose shapes ONNX does not infer."""


def inferred_types(loaded: LoadedModel, ledger: Ledger) -> dict[str, ValueType]:
    """The type of every value of ``loaded`` and of its sub-graphs, by name, as far as it can be inferred.

    Declared types come first where both are known; what inference says nothing of has the type of its operator's schema.
    Names of sizes that inference makes up become None.
    """
    graph = loaded.ir.graph
    declared = {value.name: value for value in (*loaded.inputs, *loaded.outputs)}
    large = [
        name
        for name, value in graph.initializers.items()
        if value.const_value is not None and math.prod(value.const_value.shape.numpy()) > _SMALL
    ]
    outputs = list(dict.fromkeys(value.name or "" for value in graph.outputs))
    cuts: dict[str, ValueType | None] = {name: None for name in large if name not in outputs}
    cuts |= {value.name: value for value in loaded.inputs}
    proto = extract(loaded, outputs, inputs=cuts)
    for value in proto.graph.output:
        if value.name in declared and value.type.WhichOneof("value") is None:
            value.type.CopyFrom(declared[value.name].to_proto())
    outer = {value.name for value in (*proto.graph.input, *proto.graph.output)}
    claims = [value_type_of(value) for node in graph for value in node.outputs if value.name not in outer]
    proto.graph.value_info.extend(
        onnx.ValueInfoProto(name=claim.name, type=claim.to_proto())
        for claim in claims
        if claim.name and claim.kind is Kind.TENSOR and claim.dtype is not None
    )
    _state_unknown_operators(proto.graph, ledger, loaded.opsets)
    inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    found = {value.name: _settled(value_type(value.name, value.type)) for value in _values(inferred.graph)}
    for node in inferred.graph.node:
        if any(name and name not in found for name in node.output):
            typed = declared_types(node, found, ledger, loaded.opsets.get(node.domain))
            found |= {item.name: item for item in typed if item.name not in found}
        if node.domain == "ai.onnx.ml":
            for name in node.output:
                if name in found:
                    found[name] = _of_one_row(found[name], node)
    return found | {name: value for name, value in declared.items() if name not in found}


def _state_unknown_operators(graph: onnx.GraphProto, ledger: Ledger, opsets: Mapping[str, int]) -> None:
    """Declare the element types of what operators give that ONNX has no schema of, as far as their schemas here say them.

    ONNX's inference of some operators (LabelEncoder of ai.onnx.ml) ends the process where an input has no type at all.
    """
    found = {value.name: value_type(value.name, value.type) for value in (*graph.input, *graph.value_info)}
    found |= {tensor.name: ValueType(tensor.name, Kind.TENSOR, ir.DataType(tensor.data_type)) for tensor in graph.initializer}
    for node in graph.node:
        foreign = not onnx.defs.has(node.op_type, domain=node.domain)
        for described in declared_types(node, found, ledger, opsets.get(node.domain)):
            if described.name not in found:
                described = _with_rank(described, node, found)
                found[described.name] = described
                if foreign:
                    graph.value_info.append(onnx.ValueInfoProto(name=described.name, type=described.to_proto()))


def _with_rank(described: ValueType, node: onnx.NodeProto, found: Mapping[str, ValueType]) -> ValueType:
    """What an operator on strings of another domain gives, with the rank that it has."""
    given = found.get(node.input[0]) if node.input else None
    if (node.domain, node.op_type) in _ONE_AXIS_MORE and given is not None and given.shape is not None:
        return dataclasses.replace(described, shape=(None,) * (len(given.shape) + 1))
    return described


def _values(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _values(inner)
    yield from graph.value_info
    yield from graph.input
    yield from graph.output


def _settled(described: ValueType) -> ValueType:
    if described.shape is None:
        return described
    shape = tuple(None if isinstance(dim, str) and dim.startswith("unk__") else dim for dim in described.shape)
    return dataclasses.replace(described, shape=shape)


def _of_one_row(described: ValueType, node: onnx.NodeProto) -> ValueType:
    """The sizes that ONNX infers for this domain are not onnxruntime's: the ranks stay."""
    if described.kind is not Kind.TENSOR:
        return described
    if described.shape is not None:
        return dataclasses.replace(described, shape=(None,) * len(described.shape))
    if node.op_type in _ROWS_OF_ONE:
        return dataclasses.replace(described, shape=(1, None))
    if node.op_type == "SVMClassifier":
        return dataclasses.replace(described, shape=(None,) * (1 + (described.name != node.output[0])))
    return described


def holds_host_type(described: ValueType | None) -> bool:
    """Whether a value is a tensor of strings or a map, or a sequence or optional of such."""
    while described is not None:
        if described.kind is Kind.MAP or described.dtype is ir.DataType.STRING:
            return True
        described = described.element
    return False
