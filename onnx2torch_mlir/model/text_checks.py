"""Whether the names in a model are text. protobuf hands out bytes where a string field is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from onnx2torch_mlir.diagnostics import Finding, Refusal
from onnx2torch_mlir.model.attribute_checks import graphs_of, sparse_tensors_of, tensors_of


def check_text(model: onnx.ModelProto) -> None:
    """Raise a Refusal (O2M-R004) where names are not UTF-8; nothing else can be said about such a model."""
    broken = [name for name in _names(model) if not isinstance(name, str)]
    if broken:
        shown = ", ".join(repr(name)[:60] for name in broken[:3])
        raise Refusal(Finding("O2M-R004", f"{len(broken)} names in the model are not UTF-8 text: {shown}."))


def _names(model: onnx.ModelProto) -> Iterator[object]:
    for entry in model.opset_import:
        yield entry.domain
    yield from _in_graph(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload)
        yield from (*function.input, *function.output, *function.attribute)
        yield from (entry.domain for entry in function.opset_import)
        yield from _in_nodes(function.node)
        yield from _in_attributes(function.attribute_proto)
        for value in function.value_info:
            yield value.name
            yield from _in_type(value.type)


def _in_graph(graph: onnx.GraphProto) -> Iterator[object]:
    yield graph.name
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            yield value.name
            yield from _in_type(value.type)
    for tensor in graph.initializer:
        yield from _in_tensor(tensor)
    for sparse in graph.sparse_initializer:
        yield from _in_tensor(sparse.values)
        yield from _in_tensor(sparse.indices)
    yield from _in_nodes(graph.node)


def _in_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        yield from _in_attributes(node.attribute)
        for _, graph in graphs_of(node):
            yield from _in_graph(graph)


def _in_attributes(attributes: Sequence[onnx.AttributeProto]) -> Iterator[object]:
    for attribute in attributes:
        yield from (attribute.name, attribute.ref_attr_name)
        for tensor in tensors_of(attribute):
            yield from _in_tensor(tensor)
        for sparse in sparse_tensors_of(attribute):
            yield from _in_tensor(sparse.values)
            yield from _in_tensor(sparse.indices)
        if attribute.HasField("tp"):
            yield from _in_type(attribute.tp)
        for type_ in attribute.type_protos:
            yield from _in_type(type_)


def _in_tensor(tensor: onnx.TensorProto) -> Iterator[object]:
    yield tensor.name
    for entry in tensor.external_data:
        yield from (entry.key, entry.value)


def _in_type(type_: onnx.TypeProto) -> Iterator[object]:
    kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        yield from (dim.dim_param for dim in getattr(type_, kind).shape.dim)
    elif kind in ("sequence_type", "optional_type"):
        yield from _in_type(getattr(type_, kind).elem_type)
    elif kind == "map_type":
        yield from _in_type(type_.map_type.value_type)
