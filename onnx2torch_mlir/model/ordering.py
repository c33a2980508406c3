"""Which node needs which: topological order of ONNX graphs stored in any order, and circles in them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import onnx

from onnx2torch_mlir.model.attribute_checks import graphs_of


def names_used(node: onnx.NodeProto) -> set[str]:
    """Names of the values that ``node`` needs from its scope: its inputs and what its sub-graphs capture."""
    used = {name for name in node.input if name}
    for _, graph in graphs_of(node):
        used |= captured(graph)
    return used


def local_names(graph: onnx.GraphProto) -> set[str]:
    """Names that ``graph`` itself defines: inputs, initializers and outputs of nodes."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        names.update(node.output)
    return names - {""}


def captured(graph: onnx.GraphProto) -> set[str]:
    """Names that ``graph`` takes from the scopes around it."""
    used = {output.name for output in graph.output}
    for node in graph.node:
        used |= names_used(node)
    return used - local_names(graph) - {""}


def topological_order(nodes: Sequence[onnx.NodeProto]) -> tuple[list[int], list[int]]:
    """Indices of ``nodes`` in a topological order that keeps the stored order where it may, and those of a circle.

    The first list lacks the nodes that no order can place; the second is one circle among them, in order, or empty.
    """
    producer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [{producer[name] for name in names_used(node) if name in producer} for node in nodes]
    if all(max(needed, default=-1) < index for index, needed in enumerate(needs)):
        return list(range(len(nodes))), []
    users: list[list[int]] = [[] for _ in nodes]
    for index, needed in enumerate(needs):
        for other in needed:
            users[other].append(index)
    missing = [len(needed) for needed in needs]
    ready = [index for index, count in enumerate(missing) if count == 0]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for user in users[index]:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(ready, user)
    return order, _circle(needs, set(range(len(nodes))) - set(order))


def _circle(needs: list[set[int]], stuck: set[int]) -> list[int]:
    """One circle among the nodes that could not be placed; each of them needs another one of them."""
    if not stuck:
        return []
    path: list[int] = []
    seen: dict[int, int] = {}
    at = min(stuck)
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = min(needs[at] & stuck)
    return path[seen[at] :][::-1]
