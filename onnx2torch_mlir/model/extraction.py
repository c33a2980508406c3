"""Small models cut out of a large one: up to given values, or one node alone; as ModelProtos that onnxruntime runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.model.graph_checks import since_version
from onnx2torch_mlir.model.ordering import names_used
from onnx2torch_mlir.model.places import captured_by, sub_graphs, values_read
from onnx2torch_mlir.model.types import LoadedModel, ValueType, value_type_of
from onnx2torch_mlir.model.weights import Array

Weights = Literal["embed", "external"]
"""Whether tensors that lie in files are copied into the model, or stay references relative to the model's folder."""

MIXED = "onnx2torch_mlir.mixed"
"""The domain of functions that hold a node whose opset is not the model's."""


def extract(
    loaded: LoadedModel,
    outputs: Sequence[str],
    *,
    inputs: Mapping[str, ValueType | None] | None = None,
    weights: Weights = "embed",
) -> onnx.ModelProto:
    """The part of ``loaded`` that computes the values ``outputs`` of its main graph.

    ``inputs`` names values at which the part begins: they become inputs, of the type given or else of the declared
    one. Only the nodes, inputs, initializers and functions that are needed are kept. Nodes that came from a function of
    another opset are put into a function of their own, so that the result means the same. With ``weights="external"``
    the result has to be saved in, or read with, the folder of ``loaded`` (`LoadedModel.base_dir`).

    Raises:
        Refusal: O2M-U001 where a name is no value of the main graph.
    """
    graph, cuts = loaded.ir.graph, dict(inputs or {})
    values = {value.name: value for value in (*graph.inputs, *graph.initializers.values())}
    values.update({value.name: value for node in graph for value in node.outputs if value.name})
    for name in (*outputs, *cuts):
        if name not in values:
            raise refuse("O2M-U001", f"The main graph has no value {name!r}.", case=name)
    needed: set[ir.Node] = set()
    used: set[str] = set()
    stack = list(outputs)
    while stack:
        name = stack.pop()
        if name in used:
            continue
        used.add(name)
        producer = values[name].producer()
        if name not in cuts and producer is not None and producer not in needed:
            needed.add(producer)
            stack.extend(value.name for value in values_read(producer) if value.name and values.get(value.name) is value)
    writer = _Writer(dict(loaded.opsets), loaded.ir.functions, weights)
    nodes = [node for node in graph if node in needed]
    given = {name: cuts[name] or value_type_of(values[name]) for name in cuts if name in used}
    given |= {value.name or "": value_type_of(value) for value in graph.inputs if value.name in used - given.keys()}
    held = {name: value for name, value in graph.initializers.items() if name in used - given.keys()}
    return writer.model(nodes, given, held, [values[name] for name in outputs], loaded.ir.ir_version)


def one_node_model(
    loaded: LoadedModel,
    node: ir.Node,
    *,
    types: Mapping[str, ValueType] | None = None,
    contents: Mapping[str, Array] | None = None,
    weights: Weights = "embed",
) -> onnx.ModelProto:
    """A model of ``node`` alone, which may come from ``loaded``, from one of its sub-graphs, or from a function's body.

    What it reads, and what its sub-graphs capture, become inputs, of the ``types`` given by name or else of those
    declared; initializers stay initializers; ``contents`` by name become initializers too. Its outputs become the
    model's.
    """
    types, contents = types or {}, contents or {}
    reads = {value.name or "": value for value in values_read(node)}
    held = {name: value for name, value in reads.items() if value.is_initializer() and value.const_value is not None}
    for name in contents.keys() & reads.keys():
        held[name] = ir.Value(name=name, const_value=ir.tensor(np.ascontiguousarray(contents[name])))
    given = {
        name: types.get(name) or value_type_of(value)
        for name, value in reads.items()
        if name and (name not in held or name in types.keys() - contents.keys())
    }
    held = {name: value for name, value in held.items() if name not in given}
    opsets = dict(loaded.opsets)
    if node.version is not None:
        opsets[node.domain] = node.version
    writer = _Writer(opsets, loaded.ir.functions, weights)
    return writer.model([node], given, held, [value for value in node.outputs if value.name], loaded.ir.ir_version)


def graph_model(
    loaded: LoadedModel, graph: ir.Graph, types: Mapping[str, ValueType], *, weights: Weights = "embed"
) -> onnx.ModelProto:
    """A model of ``graph``, a sub-graph of ``loaded``: its inputs are those of the graph, and the values it captures.

    ``types`` are those of its inputs, by name; what it reads besides has to be initializers, which the model holds.
    """
    around = [value for value in captured_by(graph) if value.is_initializer() and value.const_value is not None]
    known = {value.name or "": value for value in (*around, *graph.initializers.values())}
    opsets = dict(loaded.opsets)
    for node in graph:
        if node.version is not None:
            opsets[node.domain] = node.version
    held = {name: value for name, value in known.items() if name not in types}
    writer = _Writer(opsets, loaded.ir.functions, weights)
    return writer.model(list(graph), types, held, graph.outputs, loaded.ir.ir_version)


@dataclass
class _Writer:
    """Writes onnx_ir nodes into a ModelProto whose imports are ``opsets``."""

    opsets: dict[str, int]
    functions: Mapping[ir.OperatorIdentifier, ir.Function]
    weights: Weights
    wrapped: list[onnx.FunctionProto] = field(default_factory=list)

    def model(
        self,
        nodes: Iterable[ir.Node],
        inputs: Mapping[str, ValueType],
        initializers: Mapping[str, ir.Value],
        outputs: Iterable[ir.Value],
        ir_version: int,
    ) -> onnx.ModelProto:
        """The model of ``nodes``; functions that they call are added."""
        nodes = list(nodes)
        proto = onnx.ModelProto(ir_version=ir_version, producer_name="onnx2torch_mlir")
        proto.graph.name = "extracted"
        proto.graph.node.extend(self._nodes(nodes, self.opsets))
        for name, type_ in inputs.items():
            proto.graph.input.add(name=name, type=type_.to_proto())
        for name, value in initializers.items():
            if value.const_value is not None:
                proto.graph.initializer.append(self._tensor(value.const_value, name))
        for value in outputs:
            proto.graph.output.add(name=value.name or "", type=value_type_of(value).to_proto())
        proto.functions.extend(self._called(nodes))
        proto.functions.extend(self.wrapped)
        if self.wrapped:
            self.opsets[MIXED] = 1
        if proto.functions:
            proto.ir_version = max(ir_version, 10 if any(function.overload for function in proto.functions) else 8)
        for domain, version in self.opsets.items():
            proto.opset_import.add(domain=domain, version=version)
        return proto

    def _nodes(self, nodes: Iterable[ir.Node], opsets: dict[str, int]) -> list[onnx.NodeProto]:
        return [self._node(node, opsets) for node in nodes]

    def _node(self, node: ir.Node, opsets: dict[str, int]) -> onnx.NodeProto:
        version = node.version if node.version is not None else opsets.setdefault(node.domain, 1)
        same = opsets.setdefault(node.domain, version) == version
        if not same and (since := since_version(node.op_type, node.domain, version)) is not None:
            same = since == since_version(node.op_type, node.domain, opsets[node.domain])
        if same:
            return self._plain(node, opsets)
        own = {**opsets, node.domain: version}
        inner = self._plain(node, own)
        name = f"{node.op_type}_{version}_{len(self.wrapped)}"
        reads = sorted(names_used(inner))
        writes = [output for output in inner.output if output]
        function = onnx.FunctionProto(domain=MIXED, name=name, input=reads, output=writes, node=[inner])
        for domain, number in {**own, MIXED: 1}.items():
            function.opset_import.add(domain=domain, version=number)
        self.wrapped.append(function)
        return onnx.NodeProto(domain=MIXED, op_type=name, name=node.name or "", input=reads, output=writes)

    def _plain(self, node: ir.Node, opsets: dict[str, int]) -> onnx.NodeProto:
        proto = ir.serde.serialize_node(node)
        for target in proto.attribute:
            attribute = node.attributes[target.name]
            if attribute.is_ref():
                continue
            if attribute.type is ir.AttributeType.TENSOR:
                tensor = attribute.as_tensor()
                target.t.CopyFrom(self._tensor(tensor, tensor.name or ""))
            graphs = [target.g] if target.HasField("g") else target.graphs
            for graph, source in zip(graphs, sub_graphs(attribute), strict=True):
                del graph.node[:]
                graph.node.extend(self._nodes(source, opsets))
                del graph.initializer[:]
                for name, value in source.initializers.items():
                    if value.const_value is not None:
                        graph.initializer.append(self._tensor(value.const_value, name))
        return proto

    def _tensor(self, tensor: ir.TensorProtocol, name: str) -> onnx.TensorProto:
        if self.weights == "external" or tensor.dtype is ir.DataType.STRING:
            proto = ir.serde.serialize_tensor(tensor)
            proto.name = name
            return proto
        return onnx.TensorProto(
            name=name, data_type=int(tensor.dtype), dims=tensor.shape.numpy(), raw_data=tensor.tobytes()
        )

    def _called(self, nodes: Iterable[ir.Node]) -> list[onnx.FunctionProto]:
        """The model's functions that ``nodes`` call, with what those call."""
        found: dict[ir.OperatorIdentifier, ir.Function] = {}
        stack = list(nodes)
        while stack:
            node = stack.pop()
            identity = node.op_identifier()
            if identity in self.functions and identity not in found:
                found[identity] = self.functions[identity]
                stack.extend(found[identity])
            for attribute in node.attributes.values():
                for graph in sub_graphs(attribute):
                    stack.extend(graph)
        return [ir.serde.serialize_function(function) for function in found.values()]
