"""One form for what ONNX files say in many: order, names, spellings. Changes a checked ModelProto in place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx_ir as ir

from onnx2torch_mlir.model.attribute_checks import graphs_of, settle_type, tensors_of
from onnx2torch_mlir.model.external_data import entries_of, location_of, span
from onnx2torch_mlir.model.opsets import domain_of
from onnx2torch_mlir.model.ordering import captured, local_names, topological_order
from onnx2torch_mlir.model.places import STORED_AS
from onnx2torch_mlir.model.types import UNKNOWN_DIM_NAMES
from onnx2torch_mlir.model.weights import nbytes_of


@dataclass
class Normalizer:
    """Normalizes graphs.

    ``marker`` starts the locations of contents that are no files; ``sparse`` collects the sparse tensors met, each
    replaced by a dense tensor whose location is ``marker`` plus ``":sparse:"`` plus its place in the list.
    """

    marker: str
    sparse: list[onnx.SparseTensorProto] = field(default_factory=list)

    def model(self, model: onnx.ModelProto, keep: Collection[str]) -> list[str]:
        """Normalize ``model`` but for its functions; see `root`."""
        for name in ("producer_name", "producer_version", "domain"):
            if not isinstance(getattr(model, name), str):
                model.ClearField(name)
        _drop_broken_text(model)
        return self.root(model.graph, keep)

    def root(self, graph: onnx.GraphProto, keep: Collection[str]) -> list[str]:
        """Normalize the model's graph; returns the names of initializers that were inputs too.

        Those become constants, except the names in ``keep``, whose initializers are dropped.
        """
        both = {tensor.name for tensor in graph.initializer} | {item.values.name for item in graph.sparse_initializer}
        overridable = [value.name for value in graph.input if value.name in both]
        _retain(graph.input, [value.name in keep or value.name not in both for value in graph.input])
        _drop_initializers(graph, set(keep) & set(overridable))
        self._graph(graph)
        _name_nodes([*_with_sub_graphs(graph.node)])
        return overridable

    def function(self, function: onnx.FunctionProto) -> None:
        """Normalize a function's body."""
        function.domain = domain_of(function.domain)
        _drop_broken_text(function)
        self._nodes(function.node)
        for attribute in function.attribute_proto:
            settle_type(attribute)
            for tensor in tensors_of(attribute):
                _settle_external(tensor)
        for value in function.value_info:
            _drop_broken_text(value)
            _settle_type(value.type)
        _name_nodes([*_with_sub_graphs(function.node)])

    def _graph(self, graph: onnx.GraphProto) -> None:
        for item in graph.sparse_initializer:
            self._densify(item, graph.initializer.add(name=item.values.name))
        graph.ClearField("sparse_initializer")
        last = {tensor.name: index for index, tensor in enumerate(graph.initializer)}
        _retain(
            graph.initializer, [bool(t.name) and last[t.name] == index for index, t in enumerate(graph.initializer)]
        )
        _drop_broken_text(graph)
        for tensor in graph.initializer:
            _drop_broken_text(tensor)
            _settle_external(tensor)
        for values in (graph.input, graph.output, graph.value_info):
            for value in values:
                _drop_broken_text(value)
                _settle_type(value.type)
        self._nodes(graph.node)

    def _sub_graph(self, graph: onnx.GraphProto) -> None:
        _drop_initializers(graph, {value.name for value in graph.input})
        _copy_captured_outputs(graph)
        self._graph(graph)

    def _nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        for index, node in enumerate(nodes):
            node.domain = domain_of(node.domain)
            _drop_broken_text(node)
            node.metadata_props.add(key=STORED_AS, value=str(index))
            for attribute in node.attribute:
                settle_type(attribute)
                if not isinstance(attribute.doc_string, str):
                    attribute.ClearField("doc_string")
                if attribute.HasField("sparse_tensor"):
                    sparse = onnx.SparseTensorProto()
                    sparse.CopyFrom(attribute.sparse_tensor)
                    attribute.ClearField("sparse_tensor")
                    attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR
                    self._densify(sparse, attribute.t)
                for tensor in tensors_of(attribute):
                    _settle_external(tensor)
                for type_ in (*attribute.type_protos, *([attribute.tp] if attribute.HasField("tp") else [])):
                    _settle_type(type_)
            for _, graph in graphs_of(node):
                self._sub_graph(graph)
        order, _ = topological_order(nodes)
        if order != sorted(order):
            stored = [onnx.NodeProto() for _ in nodes]
            for copy, node in zip(stored, nodes, strict=True):
                copy.CopyFrom(node)
            for target, index in zip(nodes, order, strict=True):
                target.CopyFrom(stored[index])

    def _densify(self, sparse: onnx.SparseTensorProto, dense: onnx.TensorProto) -> None:
        copy = onnx.SparseTensorProto()
        copy.CopyFrom(sparse)
        _settle_external(copy.values)
        _settle_external(copy.indices)
        dense.data_type = sparse.values.data_type
        dense.dims.extend(sparse.dims)
        length = nbytes_of(ir.DataType(dense.data_type), tuple(dense.dims))
        _write_external(dense, f"{self.marker}:sparse:{len(self.sparse)}", 0, length)
        self.sparse.append(copy)


def _retain(items: object, wanted: list[bool]) -> None:
    for index in range(len(wanted) - 1, -1, -1):
        if not wanted[index]:
            del items[index]  # type: ignore[attr-defined]


def _drop_initializers(graph: onnx.GraphProto, names: set[str]) -> None:
    _retain(graph.initializer, [tensor.name not in names for tensor in graph.initializer])
    _retain(graph.sparse_initializer, [item.values.name not in names for item in graph.sparse_initializer])


def _copy_captured_outputs(graph: onnx.GraphProto) -> None:
    """Give a sub-graph that returns a value of an outer scope as it is a node of its own for it."""
    outer, taken = captured(graph), local_names(graph)
    for output in graph.output:
        if output.name in outer and output.name not in taken:
            name = output.name
            while name in taken or name in outer:
                name += "_copy"
            graph.node.add(op_type="Identity", input=[output.name], output=[name])
            output.name = name
            taken.add(name)


def _with_sub_graphs(nodes: Sequence[onnx.NodeProto]) -> Sequence[onnx.NodeProto]:
    found = []
    for node in nodes:
        found.append(node)
        for _, graph in graphs_of(node):
            found.extend(_with_sub_graphs(graph.node))
    return found


def _name_nodes(nodes: Sequence[onnx.NodeProto]) -> None:
    """Give every node a name of its own: the stored one, or operator and position, plus a number where taken."""
    taken: set[str] = set()
    stored = {node.name for node in nodes}
    for index, node in enumerate(nodes):
        base = node.name or f"{node.op_type}_{index}"
        name, number = base, 1
        while name in taken or (name in stored and name != node.name):
            name, number = f"{base}_{number}", number + 1
        node.name = name
        taken.add(name)


def _settle_type(type_: onnx.TypeProto) -> None:
    """Clear dims that say nothing; drop types that onnx_ir has no form for (they stay in LoadedModel.inputs)."""
    kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        if not getattr(type_, kind).elem_type:
            type_.ClearField(kind)
            return
        for dim in getattr(type_, kind).shape.dim:
            if dim.dim_value < 0 or dim.dim_param in UNKNOWN_DIM_NAMES - {""} or (
                dim.HasField("dim_param") and not dim.dim_param
            ):  # fmt: skip
                dim.ClearField("dim_value")
                dim.ClearField("dim_param")
    elif kind in ("sequence_type", "optional_type"):
        inner = getattr(type_, kind).elem_type
        _settle_type(inner)
        if inner.WhichOneof("value") is None:
            type_.ClearField(kind)
    elif kind is not None:
        type_.ClearField(kind)


def _settle_external(tensor: onnx.TensorProto) -> None:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        expected = nbytes_of(ir.DataType(tensor.data_type), tuple(tensor.dims))
        where = span(entries_of(tensor), expected, 1 << 62)
        assert not isinstance(where, str), where
        _write_external(tensor, location_of(tensor), *where)


def _drop_broken_text(proto: Any) -> None:
    """Leave out comments that are not UTF-8 (protobuf gives them as bytes); onnx_ir could not write them again."""
    if not isinstance(proto.doc_string, str):
        proto.ClearField("doc_string")
    if any(not isinstance(text, str) for entry in proto.metadata_props for text in (entry.key, entry.value)):
        del proto.metadata_props[:]


def _write_external(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    tensor.data_location = onnx.TensorProto.EXTERNAL
