"""Where nodes are: the graph and the position they had in the file, kept on the nodes for findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import NodeRef

STORED_AS = "onnx2torch_mlir.index"
"""The key in a node's ``meta`` (and, while reading, in its metadata) for its position in its graph in the file."""

PLACE = "onnx2torch_mlir.place"
"""The key in a node's ``meta`` for the path of graphs that leads to it."""


def sub_graphs(attribute: ir.Attr) -> Sequence[ir.Graph]:
    """The graphs that ``attribute`` holds."""
    if attribute.is_ref():
        return ()
    if attribute.type is ir.AttributeType.GRAPH:
        return (attribute.as_graph(),)
    return attribute.as_graphs() if attribute.type is ir.AttributeType.GRAPHS else ()


def values_read(node: ir.Node) -> list[ir.Value]:
    """The values of scopes around ``node`` that it or its sub-graphs read, each once."""
    inputs = [value for value in node.inputs if value is not None]
    return list(dict.fromkeys([*inputs, *values_captured(node)]))


def values_captured(node: ir.Node) -> list[ir.Value]:
    """The values of scopes around ``node`` that its sub-graphs read, each once."""
    graphs = (graph for attribute in node.attributes.values() for graph in sub_graphs(attribute))
    return list(dict.fromkeys(value for graph in graphs for value in captured_by(graph)))


def captured_by(graph: ir.Graph) -> list[ir.Value]:
    """The values of scopes around ``graph`` that it reads, each once."""
    inner = {*graph.inputs, *graph.initializers.values(), *(value for child in graph for value in child.outputs)}
    return list(dict.fromkeys(value for child in graph for value in values_read(child) if value not in inner))


def walk(graph: ir.Graph | ir.Function) -> Iterator[ir.Node]:
    """The nodes of ``graph`` and of its sub-graphs, also where an attribute of type graph refers to a parameter."""
    for node in graph:
        yield node
        for attribute in node.attributes.values():
            for inner in sub_graphs(attribute):
                yield from walk(inner)


def graphs_in(model: ir.Model) -> list[ir.Graph]:
    """The model's graph, those of its functions, and all their sub-graphs."""
    found = [model.graph, *(function.graph for function in model.functions.values())]
    for graph in found:  # grows while it is walked
        found.extend(g for node in graph for attribute in node.attributes.values() for g in sub_graphs(attribute))
    return found


def locate(graph: ir.Graph, opsets: Mapping[str, int], place: str) -> None:
    """Write version, place and stored position on the nodes of ``graph`` and of its sub-graphs."""
    for node in graph:
        node.version = opsets.get(node.domain)
        node.meta[STORED_AS] = int(node.metadata_props.pop(STORED_AS, "-1"))
        node.meta[PLACE] = place
        for attribute in node.attributes.values():
            graphs = sub_graphs(attribute)
            for index, inner in enumerate(graphs):
                part = attribute.name if len(graphs) == 1 else f"{attribute.name}[{index}]"
                locate(inner, opsets, f"{place}/{node.name}.{part}")


def node_ref(node: ir.Node) -> NodeRef:
    """Where ``node`` is in its model, for findings.

    Its index is the position stored in the file; a node from a function has the place and index of the call.
    """
    index = node.meta.get(STORED_AS)
    since = None
    if node.version is not None and onnx.defs.has(node.op_type, node.version, node.domain):
        since = int(onnx.defs.get_schema(node.op_type, node.version, node.domain).since_version)
    return NodeRef(
        node.name or "",
        node.op_type,
        node.domain,
        since,
        str(node.meta.get(PLACE, "main")),
        index if isinstance(index, int) and index >= 0 else None,
    )
