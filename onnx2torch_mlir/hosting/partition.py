"""A graph in alternate parts, native and on the host: as few as the order of its nodes allows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx2torch_mlir.model import values_read

Readers = dict[ir.Value, int]


@dataclass(frozen=True)
class Segment:
    """Nodes that run together. ``inputs`` come from before (parts or graph inputs), ``outputs`` are used later."""

    on_host: bool
    nodes: tuple[ir.Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def partition(graph: ir.Graph, hosted: Collection[ir.Node]) -> list[Segment]:
    """``graph`` as segments in an order in which they can run; nodes that no output needs are left out.

    Every node runs as early as it can, so that the number of segments is the least for the kind of the first, and the
    better of both kinds is taken. Constants belong to every segment that reads them.
    """
    nodes = _needed(graph)
    plans = [_levels(nodes, hosted, first) for first in (False, True)]
    levels, first = min(zip(plans, (False, True), strict=True), key=lambda plan: len(set(plan[0].values())))
    last = _last_readers(levels)
    found = []
    for level in sorted(set(levels.values())):
        members = tuple(node for node in nodes if levels.get(node) == level)
        found.append(_segment((level % 2 == 0) is first, members, levels, last))
    return found


def _is_constant(node: ir.Node) -> bool:
    return node.op_type == "Constant" and not node.domain


def _needed(graph: ir.Graph) -> list[ir.Node]:
    needed: set[ir.Node] = set()
    stack = [value.producer() for value in graph.outputs]
    while stack:
        node = stack.pop()
        if node is not None and node not in needed and node.graph is graph:
            needed.add(node)
            stack.extend(value.producer() for value in values_read(node))
    return [node for node in graph if node in needed]


def _levels(nodes: Sequence[ir.Node], hosted: Collection[ir.Node], host_first: bool) -> dict[ir.Node, int]:
    """The segment of every node but constants (which count only where an output is one): even ones are of one kind."""
    levels: dict[ir.Node, int] = {}
    for node in nodes:
        if _is_constant(node) and not any(value.is_graph_output() for value in node.outputs):
            continue
        parity = int((node in hosted) is not host_first)
        level = parity
        for value in values_read(node):
            producer = value.producer()
            before = levels.get(producer) if producer is not None else None
            if before is not None:
                level = max(level, before + (before % 2 != parity))
        levels[node] = level
    return levels


def _segment(on_host: bool, nodes: tuple[ir.Node, ...], levels: Mapping[ir.Node, int], last: Readers) -> Segment:
    level = levels[nodes[0]]
    inputs: dict[str, None] = {}
    for node in nodes:
        for value in values_read(node):
            producer = value.producer()
            before = levels.get(producer) if producer is not None else None
            if value.is_graph_input() or (before is not None and before < level):
                inputs[value.name or ""] = None
    made = [value for node in nodes for value in node.outputs if value.name]
    outputs = [value.name or "" for value in made if value.is_graph_output() or last.get(value, -1) > level]
    return Segment(on_host, nodes, tuple(inputs), tuple(outputs))


def _last_readers(levels: Mapping[ir.Node, int]) -> Readers:
    """The last segment that reads each value."""
    last: Readers = {}
    for node, level in levels.items():
        for value in values_read(node):
            last[value] = max(level, last.get(value, -1))
    return last
