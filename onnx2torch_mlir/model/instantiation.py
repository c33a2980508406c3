"""Copies of function bodies: formal inputs bound to values, attribute parameters to attributes, names made unique."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

Rename = Callable[[str], str]


@dataclass
class Instance:
    """Copies nodes of one function body.

    ``values`` maps values of the body to what stands for them, None for an optional input that is absent; values not
    in it belong to scopes around and stay. ``attributes`` are those of the call with the function's defaults;
    an attribute that refers to one which is absent is left out, as ONNX has it. ``node_name`` and ``value_name`` give
    the names of copies; ``metadata`` and ``meta`` go to every copied node.
    """

    values: dict[ir.Value, ir.Value | None]
    attributes: Mapping[str, ir.Attr]
    node_name: Rename
    value_name: Rename
    metadata: dict[str, str] = field(default_factory=dict)
    meta: dict[str, object] = field(default_factory=dict)

    def nodes(self, nodes: Iterable[ir.Node]) -> list[ir.Node]:
        """Copies of ``nodes``, which are topologically sorted."""
        return [self._node(node) for node in nodes]

    def _node(self, node: ir.Node) -> ir.Node:
        attributes = [kept for attribute in node.attributes.values() if (kept := self._attribute(attribute))]
        copy = ir.Node(
            node.domain,
            node.op_type,
            [value if value is None else self.values.get(value, value) for value in node.inputs],
            attributes,
            overload=node.overload,
            outputs=[self._value(value) for value in node.outputs],
            version=node.version,
            name=self.node_name(node.name or node.op_type),
            doc_string=node.doc_string,
            metadata_props={**self.metadata, **node.metadata_props},
        )
        copy.meta.update(node.meta)
        copy.meta.update(self.meta)
        return copy

    def _value(self, value: ir.Value) -> ir.Value:
        copy = ir.Value(
            name=self.value_name(value.name) if value.name else "",
            type=value.type,
            shape=None if value.shape is None else value.shape.copy(),
            doc_string=value.doc_string,
            const_value=value.const_value,
        )
        self.values[value] = copy
        return copy

    def _attribute(self, attribute: ir.Attr) -> ir.Attr | None:
        if attribute.is_ref():
            given = self.attributes.get(attribute.ref_attr_name or "")
            if given is None or given.value is None:
                return None
            # A graph that the caller passes sees the caller's values, not those of the body.
            return Instance({}, {}, self.node_name, self.value_name)._concrete(attribute.name, given)
        return self._concrete(attribute.name, attribute)

    def _concrete(self, name: str, attribute: ir.Attr) -> ir.Attr:
        if attribute.type is ir.AttributeType.GRAPH:
            return ir.AttrGraph(name, self._graph(attribute.as_graph()))
        if attribute.type is ir.AttributeType.GRAPHS:
            return ir.AttrGraphs(name, [self._graph(graph) for graph in attribute.as_graphs()])
        return ir.Attr(name, attribute.type, attribute.value, doc_string=attribute.doc_string)

    def _graph(self, graph: ir.Graph) -> ir.Graph:
        inputs = [self._value(value) for value in graph.inputs]
        initializers = [self._value(value) for value in graph.initializers.values()]
        nodes = self.nodes(graph)
        outputs = [self.values[value] for value in graph.outputs]
        return ir.Graph(
            inputs,
            [value for value in outputs if value is not None],
            nodes=nodes,
            initializers=initializers,
            name=graph.name,
            doc_string=graph.doc_string,
        )


class UniqueNames:
    """Names handed out once each: the one asked for, or that with the smallest number that is free."""

    def __init__(self, taken: Iterable[str | None] = ()) -> None:
        self._taken = {name for name in taken if name}
        self._next: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        """``name`` if it is free, else ``name_1`` or the next."""
        unique, number = name, self._next.get(name, 1)
        while unique in self._taken:
            unique, number = f"{name}_{number}", number + 1
        self._next[name] = number
        self._taken.add(unique)
        return unique
