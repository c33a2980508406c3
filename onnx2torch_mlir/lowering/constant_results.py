"""What a program computes from its weights alone is a weight, too: computed once, when the program is loaded.

A model may project a table of positions by each layer's weights (DeBERTa), or norm its kernels before it convolves with them.
Only what takes work is taken out: sums of products, reductions, sorting, functions. A cast or a scale costs no more than to
read the result would, and quantized weights have to stay so. The program that is exported keeps all of its nodes.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from onnx2torch_mlir.core.primitives import (
    CONTRACTION,
    CREATION,
    MOVEMENT,
    POINTWISE_BINARY,
    POINTWISE_OTHER,
    POINTWISE_UNARY,
    REDUCTION,
    SCAN_SORT,
    WINDOW,
)

_FUNCTIONS = """
    exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid gelu
    pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar atan2
""".split()
_DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.bool)
_SMALL = 1 << 20
"""Bytes that a result may have in any case; larger ones at most as many as the weights they are made of."""


def _operators(names: Collection[str]) -> frozenset[Any]:
    """The overloads of aten with these names."""
    found = set()
    for name in names:
        packet, _, overload = name.partition(".")
        found.add(getattr(getattr(torch.ops.aten, packet), overload or "default"))
    return frozenset(found)


_WORK = _operators([*REDUCTION, *SCAN_SORT, *CONTRACTION, *WINDOW, *_FUNCTIONS])
_KNOWN = _WORK | _operators([*POINTWISE_UNARY, *POINTWISE_BINARY, *POINTWISE_OTHER, *MOVEMENT, *CREATION]) | {operator.getitem}


@dataclass
class ConstantResults:
    """``nodes``: those whose results become weights, in the program's order; ``skipped``: those that only they need."""

    nodes: list[Node] = field(default_factory=list)
    skipped: set[Node] = field(default_factory=set)

    def value(self, node: Node, weights: Mapping[Node, torch.Tensor]) -> torch.Tensor:
        """The contents of one of ``nodes``, computed by PyTorch."""
        known: dict[Node, Any] = dict(weights)
        with torch.no_grad():
            for current in _needed(node):
                if current not in known:
                    given = torch.fx.node.map_arg((current.args, current.kwargs), lambda item: known[item])
                    known[current] = current.target(*given[0], **given[1])  # type: ignore[operator]
        result: torch.Tensor = known[node]
        return result.contiguous()


def constant_results(nodes: Sequence[Node], weights: Collection[Node]) -> ConstantResults:
    """What is computed from ``weights`` alone, by the ``nodes`` of a program in their order."""
    held: dict[Node, frozenset[Node]] = {weight: frozenset([weight]) for weight in weights}
    works: set[Node] = set()
    for node in nodes:
        if node.op != "call_function" or not all(source in held for source in node.all_input_nodes):
            continue
        sources = frozenset().union(*(held[source] for source in node.all_input_nodes))
        if _can_be_held(node, sources):
            held[node] = sources
            if node.target in _WORK or any(source in works for source in node.all_input_nodes):
                works.add(node)
    found = ConstantResults()
    for node in nodes:
        if node in works and isinstance(node.meta["val"], torch.Tensor) and any(user not in held for user in node.users):
            found.nodes.append(node)
    kept = set(found.nodes)
    for node in reversed(nodes):
        is_between = node in held and node.op == "call_function" and node not in kept
        if is_between and node.users and all(user in kept or user in found.skipped for user in node.users):
            found.skipped.add(node)
    return found


def _can_be_held(node: Node, sources: Collection[Node]) -> bool:
    """Whether the result of a node can be known when these weights are loaded, and is worth its memory."""
    if node.target not in _KNOWN:
        return False
    value = node.meta.get("val")
    parts = [part for part in (value if isinstance(value, list | tuple) else [value]) if isinstance(part, torch.Tensor)]
    if not parts or not all(_is_static(part) and part.dtype in _DTYPES for part in parts):
        return False
    room = max(_SMALL, sum(_bytes(weight.meta["val"]) for weight in sources))
    return all(_bytes(part) <= room for part in parts)


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape)


def _bytes(value: torch.Tensor) -> int:
    return value.numel() * value.itemsize


def _needed(node: Node) -> list[Node]:
    """``node`` after all that it is computed from."""
    order: dict[Node, None] = {}
    pending = [(node, False)]
    while pending:
        current, is_ready = pending.pop()
        if current in order:
            continue
        if is_ready:
            order[current] = None
        else:
            pending.append((current, True))
            pending += [(source, False) for source in current.all_input_nodes]
    return list(order)
