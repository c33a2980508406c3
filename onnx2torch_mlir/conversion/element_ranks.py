"""The rank of a sequence's elements where its type leaves it open: what the model says of the values that come out of it."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

_PASSING = frozenset({"Identity", "SequenceErase", "SequenceInsert", "Optional", "OptionalGetElement"})
"""Operators whose first output holds elements of their first input."""


def element_rank(sequence: ir.Value) -> int | None:
    """The rank with which elements of ``sequence`` are read, None where nothing reads one, or the model does not say."""
    read: list[int | None] = []
    inserted: list[int | None] = []
    seen: set[ir.Value] = set()
    waiting = [sequence]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses():
            node, position = use.node, use.idx
            if node.domain not in ("", "ai.onnx"):
                continue
            if node.op_type in _PASSING and position == 0:
                waiting.append(node.outputs[0])
            if node.op_type == "SequenceInsert" and position == 0:
                inserted.append(_rank(node.inputs[1]))
            if node.op_type == "SequenceAt":
                read.append(_rank(node.outputs[0]))
            elif node.op_type == "ConcatFromSequence":
                added = node.attributes.get("new_axis")
                rank = _rank(node.outputs[0])
                read.append(None if rank is None else rank - (0 if added is None else int(added.value)))
            elif node.op_type in ("SequenceMap", "Loop"):
                for body in _bodies(node):
                    inside = body.inputs[position]
                    if node.op_type == "SequenceMap":
                        read.append(_rank(inside))
                    else:
                        waiting += [inside, node.outputs[position - 2]]
    if not read:
        return None
    return max((rank for rank in [*read, *inserted] if rank is not None), default=None)


def _rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            yield attribute.value
