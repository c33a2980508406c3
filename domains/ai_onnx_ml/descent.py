"""The way of every observation through every tree, and what the leaves it reaches add up to.

All trees are walked at once: the node where each observation stands in each tree is an int64 [observations, trees], and a
step looks up its feature, its threshold and, by the outcome of the comparison, its child. Leaves are their own children.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.subprograms import while_loop
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.domains.ai_onnx_ml.forest import Forest, Mode
from onnx2torch_mlir.domains.ai_onnx_ml.rows import require_features
from onnx2torch_mlir.families.lookup import pick

UNROLLED = 6
"""Deeper trees are walked by a loop."""

_COMPARISON = {
    Mode.BRANCH_LEQ: "le",
    Mode.BRANCH_LT: "lt",
    Mode.BRANCH_GTE: "ge",
    Mode.BRANCH_GT: "gt",
    Mode.BRANCH_EQ: "eq",
    Mode.BRANCH_NEQ: "ne",
}
_ACCEPTED = {
    Mode.BRANCH_LEQ: (True, True, False),
    Mode.BRANCH_LT: (True, False, False),
    Mode.BRANCH_GTE: (False, True, True),
    Mode.BRANCH_GT: (False, False, True),
    Mode.BRANCH_EQ: (False, True, False),
    Mode.BRANCH_NEQ: (True, False, True),
    Mode.BRANCH_MEMBER: (False, True, False),
}
"""Whether a comparison holds for a value below, at and above the threshold."""


@dataclass(frozen=True)
class _Tables:
    """The nodes, inner ones before leaves, as tensors; ``children`` [nodes, outcomes] is flat.

    With one ``comparison`` for all the outcomes are false and true, else below, at, above and missing. ``sets`` [sets, size]
    (NaN where a set is smaller) and ``set_of`` [nodes] belong to nodes of mode BRANCH_MEMBER.
    """

    features: Value
    thresholds: Value
    children: Value
    comparison: str | None
    sets: Value | None
    set_of: Value | None

    @property
    def outcomes(self) -> int:
        return 4 if self.comparison is None else 2


def leaves_reached(g: ProgramBuilder, forest: Forest, x: Value) -> Value:
    """[observations, trees]: the leaf that each row of ``x`` reaches; ``x`` and the thresholds are of one dtype.

    Raises:
        Refusal: O2M-C005 where a node asks for a feature that the rows do not have.
    """
    count = forest.inner
    roots = g.known(torch.tensor([[_node(forest, root) for root in forest.roots]], dtype=torch.int64))
    current = g.expand(roots, [x.shape[0], len(forest.roots)])
    depth = forest.depth()
    if depth:
        require_features(g, x, max(forest.features) + 1)
        tables = _tables(g, forest)
        if depth <= UNROLLED:
            for _ in range(depth):
                current = _step(g, tables, x, current)
        else:
            current = _walk(g, tables, x, current, depth)
    return g.sub(current, count)


def _walk(g: ProgramBuilder, tables: _Tables, x: Value, current: Value, depth: int) -> Value:
    def going(h: ProgramBuilder, carries: list[Value]) -> list[Value]:
        return [h.binary("lt", carries[0], depth)]

    def step(h: ProgramBuilder, carries: list[Value]) -> list[Value]:
        return [h.add(carries[0], 1), _step(h, tables, x, carries[1])]

    return while_loop(g, going, step, [g.scalar(0, torch.int64), current])[1]


def _step(g: ProgramBuilder, tables: _Tables, x: Value, current: Value) -> Value:
    value = g.call("aten.gather.default", x, 1, pick(g, tables.features, current))
    threshold = pick(g, tables.thresholds, current)
    if tables.comparison is not None:
        outcome = g.cast(g.binary(tables.comparison, value, threshold), torch.int64)
    else:
        at = g.binary("eq", value, threshold)
        if tables.sets is not None and tables.set_of is not None:
            members = pick(g, tables.sets, pick(g, tables.set_of, current))
            among = g.call("aten.any.dims", g.binary("eq", members, g.unsqueeze(value, 2)), [2], False)
            at = g.call("aten.logical_or.default", at, among)
        above = g.cast(g.binary("gt", value, threshold), torch.int64)
        outcome = g.add(g.cast(at, torch.int64), g.mul(above, 2))
        outcome = g.where(g.unary("isnan", value), 3, outcome)
    return pick(g, tables.children, g.add(g.mul(current, tables.outcomes), outcome))


def _node(forest: Forest, child: int) -> int:
    return child if child >= 0 else forest.inner + ~child


def _tables(g: ProgramBuilder, forest: Forest) -> _Tables:
    leaves = len(forest.leaves)
    single = len(set(forest.modes)) == 1 and forest.modes[0] in _COMPARISON and not any(forest.follows)
    children = []
    for index, mode in enumerate(forest.modes):
        ways = (_node(forest, forest.when_false[index]), _node(forest, forest.when_true[index]))
        if single:
            children.append(list(ways))
            continue
        accepted = list(_ACCEPTED[mode])
        unordered = mode is Mode.BRANCH_NEQ
        if bool(forest.thresholds[index].isnan()) and mode is not Mode.BRANCH_MEMBER:
            accepted = [unordered] * 3
        children.append([ways[truth] for truth in (*accepted, unordered or forest.follows[index])])
    outcomes = 2 if single else 4
    children.extend([forest.inner + leaf] * outcomes for leaf in range(leaves))
    thresholds = forest.thresholds.clone()
    sets = set_of = None
    if forest.members:
        size = max(max(item.numel() for item in forest.members.values()), 1)
        rows = torch.full((len(forest.members) + 1, size), float("nan"), dtype=thresholds.dtype)
        numbers = torch.zeros(forest.inner + leaves, dtype=torch.int64)
        for row, (index, items) in enumerate(forest.members.items(), start=1):
            rows[row, : items.numel()] = items
            numbers[index] = row
            thresholds[index] = float("nan")
        sets, set_of = g.known(rows), g.known(numbers)
    return _Tables(
        g.known(torch.tensor([*forest.features, *[0] * leaves], dtype=torch.int64)),
        g.known(torch.cat([thresholds, thresholds.new_zeros(leaves)])),
        g.known(torch.tensor(children, dtype=torch.int64).reshape(-1)),
        _COMPARISON[forest.modes[0]] if single else None,
        sets,
        set_of,
    )


def totals(g: ProgramBuilder, forest: Forest, leaf: Value, targets: int, function: str, dtype: torch.dtype) -> Value:
    """[observations, targets]: the weights of the leaves reached put together by ``function``; 0 for a target without any.

    ``function`` is SUM, AVERAGE (over all trees), MIN or MAX; with one target a leaf's first weight counts, as in onnxruntime.
    """
    extreme = {"MIN": float("inf"), "MAX": float("-inf")}.get(function)
    table = torch.full((len(forest.leaves), targets), extreme or 0.0, dtype=dtype)
    for row, weights in enumerate(forest.leaves):
        for target, weight in weights[:1] if targets == 1 else weights:
            known = table[row, target].item()
            table[row, target] = (
                known + weight if extreme is None else min(known, weight) if extreme > 0 else max(known, weight)
            )
    reached = pick(g, g.known(table), leaf)
    if extreme is None:
        total = g.sum(reached, [1])
        return g.div(total, float(len(forest.roots))) if function == "AVERAGE" else total
    result = g.amin(reached, [1]) if extreme > 0 else g.amax(reached, [1])
    present = scored(g, forest, leaf, targets)
    return result if present is None else g.where(present, result, g.scalar(0.0, dtype))


def scored(g: ProgramBuilder, forest: Forest, leaf: Value, targets: int) -> Value | None:
    """[observations, targets]: whether a leaf reached has a weight for the target; None where every leaf has."""
    table = torch.zeros(len(forest.leaves), targets, dtype=torch.bool)
    for row, weights in enumerate(forest.leaves):
        for target, _ in weights:
            table[row, target] = True
    return None if bool(table.all()) else g.call("aten.any.dims", pick(g, g.known(table), leaf), [1], False)
