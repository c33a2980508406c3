"""Which operator versions a case of the suite is about, and with which dtypes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import onnx
from onnx import TensorProto, shape_inference

from onnx2torch_mlir.coverage.dtypes import groups_of
from onnx2torch_mlir.coverage.measured import Version
from onnx2torch_mlir.specs import canonical_domain, default_ledger
from tests.suite.cases import Case


def operators_of(case: Case) -> dict[Version, set[str]]:
    """The operator versions that the nodes of a case's model mean, sub-graphs included, each with its dtype groups."""
    content = case.model if isinstance(case.model, bytes) else Path(case.model).read_bytes()
    model = onnx.ModelProto.FromString(content)
    with suppress(shape_inference.InferenceError, RuntimeError):  # then only declared types are known
        model = shape_inference.infer_shapes(model)
    opsets = {canonical_domain(item.domain): item.version for item in model.opset_import}
    found: dict[Version, set[str]] = {}
    for node, types in _nodes(model.graph, {}):
        domain = canonical_domain(node.domain)
        operator = default_ledger().operator(domain, node.op_type)
        version = None if operator is None else operator.version_for(opsets.get(domain, 1))
        if version is not None:
            inputs, outputs = ([types.get(name, "") for name in names] for names in (node.input, node.output))
            key = (domain, node.op_type, version.since_version)
            found.setdefault(key, set()).update(groups_of(version, inputs, outputs))
    return found


def _nodes(graph: onnx.GraphProto, outer: Mapping[str, str]) -> Iterator[tuple[onnx.NodeProto, Mapping[str, str]]]:
    """All nodes with the types of the values that they can see."""
    types = {**outer, **dict(_types(graph))}
    for node in graph.node:
        yield node, types
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner, types)


def _types(graph: onnx.GraphProto) -> Iterable[tuple[str, str]]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name, _type(value.type)
    for tensor in graph.initializer:
        yield tensor.name, TensorProto.DataType.Name(tensor.data_type).lower()


def _type(type_: onnx.TypeProto) -> str:
    """The name of the element type, "" where there is none."""
    kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        return TensorProto.DataType.Name(getattr(type_, kind).elem_type).lower()
    if kind in ("sequence_type", "optional_type"):
        return _type(getattr(type_, kind).elem_type)
    return _type(type_.map_type.value_type) if kind == "map_type" else ""
