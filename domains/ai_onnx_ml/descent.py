"""The way of every observation through every tree, and what the leaves it reaches add up to, as a named part.

In the part's own program all trees are walked at once: the slot where each observation stands in each tree is an int64
[observations, trees], and a step looks up its feature, its threshold and, by the outcome of the comparison, its child.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.named import named_part
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import while_loop
from onnx2torch_mlir.core.tree_ensembles import FEATURE, FIRST, LEAF, MASK, MIXED, TreeForm, TreeTables
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.domains.ai_onnx_ml.forest import Forest, Mode, Numbers, Paths, Weights, distinct
from onnx2torch_mlir.domains.ai_onnx_ml.rows import require_features
from onnx2torch_mlir.families.lookup import pick

UNROLLED = 6
"""Deeper trees are walked by a loop."""

DENSE = 4
"""Up to so many targets each leaf has a weight for every one."""

_SINGLE = {
    Mode.BRANCH_LEQ: "le",
    Mode.BRANCH_LT: "lt",
    Mode.BRANCH_GTE: "ge",
    Mode.BRANCH_GT: "gt",
    Mode.BRANCH_EQ: "eq",
}
_BELOW, _AT, _ABOVE, _MISSING = 1, 2, 4, 8
_HOLDS = {
    Mode.BRANCH_LEQ: _BELOW | _AT,
    Mode.BRANCH_LT: _BELOW,
    Mode.BRANCH_GTE: _AT | _ABOVE,
    Mode.BRANCH_GT: _ABOVE,
    Mode.BRANCH_EQ: _AT,
    Mode.BRANCH_NEQ: _BELOW | _ABOVE | _MISSING,
    Mode.BRANCH_MEMBER: _AT,
}
_COMBINE = {"SUM": "add", "AVERAGE": "add", "MIN": "minimum", "MAX": "maximum"}
_IDENTITY = {"add": 0.0, "minimum": float("inf"), "maximum": float("-inf")}


class Descent:
    """A forest on its way into a program; ``x`` [observations, features] and the thresholds are of one dtype.

    Raises:
        Refusal: O2M-C005 where a tree goes in circles, or a node asks for a feature that the rows do not have.
    """

    def __init__(self, g: ProgramBuilder, forest: Forest, x: Value) -> None:
        self.g, self.forest, self.x = g, forest, x
        self.paths: Paths = forest.paths()
        if self.paths.depths.any():
            require_features(g, x, int(forest.features.max()) + 1)

    def totals(self, targets: int, function: str) -> Value:
        """[observations, targets]: the weights of the leaves reached put together by ``function``, in the order of the trees.

        ``function`` is SUM, AVERAGE (over all trees), MIN or MAX; a target without any weight has 0. With one target a leaf's
        first weight counts, as in onnxruntime.
        """
        weights = self.forest.weights.first_of_each() if targets == 1 else self.forest.weights
        combine = _COMBINE[function]
        result = self._combined(weights, targets, combine)
        if function == "AVERAGE":
            return self.g.div(result, float(len(self.forest.roots)))
        present = self.scored(targets) if combine != "add" else None
        return result if present is None else self.g.where(present, result, self.g.scalar(0.0, result.dtype))

    def scored(self, targets: int) -> Value | None:
        """[observations, targets]: whether a leaf reached has a weight for the target; None where one always has."""
        weights = self.forest.weights
        if targets in self._scored:
            return self._scored[targets]
        pairs = distinct(weights.leaves * targets + weights.targets)
        holds = np.zeros((self.forest.leaves, targets), bool)
        holds[pairs // targets, pairs % targets] = True
        everywhere = np.ones((len(self.forest.roots), targets), bool)
        np.logical_and.at(everywhere, self.paths.trees, holds[self.paths.leaves])
        present = None
        if not everywhere.any(0).all():
            ones = Weights(pairs // targets, pairs % targets, np.ones(len(pairs), self.forest.thresholds.dtype))
            present = self.g.binary("gt", self._combined(ones, targets, "maximum"), 0.0)
        self._scored[targets] = present
        return present

    @cached_property
    def _scored(self) -> dict[int, Value | None]:
        return {}

    def _combined(self, weights: Weights, targets: int, combine: str) -> Value:
        listed, table, places = _leaf_tables(weights, self.forest.leaves, targets, _IDENTITY[combine])
        form, tables, depth = self._nodes(combine, listed, table, places)

        def body(h: ProgramBuilder, values: list[Value]) -> Value:
            return _walked(h, form, values[0], TreeTables.of(form, values[1:]), targets, depth)

        operands = [self.x, *(self.g.known(torch.from_numpy(item)) for item in tables.operands())]
        return body(self.g, operands) if depth == 0 else named_part(self.g, form.name, operands, body)

    def _nodes(
        self, combine: str, listed: bool, weights: Numbers, targets: Numbers | None
    ) -> tuple[TreeForm, TreeTables[Numbers], int]:
        """The form and the tables; the depth of the deepest tree."""
        forest, trees = self.forest, len(self.forest.roots)
        modes = set(distinct(forest.modes).tolist())
        swapped = modes == {Mode.BRANCH_NEQ}
        single = "eq" if swapped else _SINGLE.get(Mode(min(modes))) if len(modes) == 1 else None
        masked = single is None or (bool(forest.follows.any()) and not swapped)
        sides = (forest.when_true, forest.when_false) if swapped else (forest.when_false, forest.when_true)
        occupants = np.concatenate([forest.roots, np.stack(sides, 1).reshape(-1)])
        inner = np.maximum(occupants, 0)
        leaf = occupants < 0
        thresholds = forest.thresholds.copy()
        set_of = sets = None
        if forest.members:
            thresholds[forest.modes == Mode.BRANCH_MEMBER] = np.nan
            sets, rows = self._sets()
            set_of = _by_slot(rows, inner, leaf, 0)
        nodes = np.empty((len(occupants), 4), np.int32)
        nodes[:, FEATURE] = _by_slot(forest.features, inner, leaf, 0)
        nodes[:, FIRST] = np.where(leaf, np.arange(len(occupants), dtype=np.int32), trees + 2 * inner)
        nodes[:, LEAF] = np.where(leaf, ~occupants, 0)
        nodes[:, MASK] = _by_slot(self._masks(), inner, leaf, 0)
        tables = TreeTables(
            nodes,
            _by_slot(thresholds, inner, leaf, np.nan, thresholds.dtype),
            self.paths.depths.astype(np.int32),
            weights,
            targets,
            sets,
            set_of,
        )
        form = TreeForm(trees, single or MIXED, combine, masked, bool(forest.members), listed)
        return form, tables, int(self.paths.depths.max(initial=0))

    def _masks(self) -> Numbers:
        """For what a node's comparison holds; a threshold that is NaN is neither above nor below nor equal."""
        forest = self.forest
        holds: Numbers = np.array([_HOLDS[mode] for mode in Mode], np.int8)[forest.modes]
        member = forest.modes == Mode.BRANCH_MEMBER
        unordered = np.isnan(forest.thresholds) & ~member
        holds[unordered] = np.where(forest.modes[unordered] == Mode.BRANCH_NEQ, _BELOW | _AT | _ABOVE | _MISSING, 0)
        holds[forest.follows] |= _MISSING
        return holds

    def _sets(self) -> tuple[Numbers, Numbers]:
        """[sets, size], NaN where one is smaller, the first empty; and which of them each inner node has."""
        members = self.forest.members
        size = max(max(item.numel() for item in members.values()), 1)
        table = np.full((len(members) + 1, size), np.nan, self.forest.thresholds.dtype)
        rows = np.zeros(self.forest.inner, np.int64)
        for row, (index, items) in enumerate(members.items(), start=1):
            table[row, : items.numel()] = items
            rows[index] = row
        return table, rows


def _by_slot(values: Numbers, inner: Numbers, leaf: Numbers, rest: float, dtype: Any = np.int32) -> Numbers:
    """The inner nodes' values, slot by slot, ``rest`` in leaves."""
    if not len(values):
        return np.full(len(inner), rest, dtype)
    result: Numbers = np.where(leaf, np.asarray(rest, dtype), values[inner].astype(dtype))
    return result


def _leaf_tables(weights: Weights, leaves: int, targets: int, identity: float) -> tuple[bool, Numbers, Numbers | None]:
    """Whether leaves list their targets, their weights [leaves, size], and the listed targets."""
    order = np.arange(len(weights.leaves))
    place = order - np.searchsorted(weights.leaves, weights.leaves)
    size = int(place.max(initial=0)) + 1
    different = len(distinct(weights.leaves * targets + weights.targets)) == len(order)
    listed = not different or (targets > DENSE and 2 * size < targets)
    table = np.full((leaves, size if listed else targets), identity, weights.weights.dtype)
    table[weights.leaves, place if listed else weights.targets] = weights.weights
    if not listed:
        return False, table, None
    places = np.zeros((leaves, size), np.int32)
    places[weights.leaves, place] = weights.targets
    return True, table, places


def _walked(g: ProgramBuilder, form: TreeForm, x: Value, tables: TreeTables[Value], targets: int, depth: int) -> Value:
    """The part's meaning."""
    rows = x.shape[0]
    slot = g.expand(g.reshape(g.arange(0, form.trees), [1, form.trees]), [rows, form.trees])
    if depth <= UNROLLED:
        for _ in range(depth):
            slot = _step(g, form, x, tables, slot)
    else:
        slot = _loop(g, form, x, tables, slot, depth)
    leaf = _column(g, pick(g, tables.nodes, slot), LEAF)
    reached = pick(g, tables.weights, leaf)
    if tables.targets is not None:
        return _scattered(g, form, reached, pick(g, tables.targets, leaf), rows, targets)
    combine = {"add": g.sum, "maximum": g.amax, "minimum": g.amin}[form.combine]
    return combine(reached, [1])


def _scattered(g: ProgramBuilder, form: TreeForm, reached: Value, places: Value, rows: Dim, targets: int) -> Value:
    width = form.trees * int(reached.shape[2])
    into = g.full([rows, targets], _IDENTITY[form.combine], reached.dtype)
    index = g.cast(g.reshape(places, [rows, width]), torch.int64)
    values = g.reshape(reached, [rows, width])
    if form.combine == "add":
        return g.call("aten.scatter_add.default", into, 1, index, values)
    return g.call("aten.scatter_reduce.two", into, 1, index, values, f"a{form.combine[:3]}")


def _loop(g: ProgramBuilder, form: TreeForm, x: Value, tables: TreeTables[Value], slot: Value, depth: int) -> Value:
    def going(h: ProgramBuilder, carries: list[Value]) -> list[Value]:
        return [h.binary("lt", carries[0], depth)]

    def step(h: ProgramBuilder, carries: list[Value]) -> list[Value]:
        return [h.add(carries[0], 1), _step(h, form, x, tables, carries[1])]

    return while_loop(g, going, step, [g.scalar(0, torch.int64), slot])[1]


def _step(g: ProgramBuilder, form: TreeForm, x: Value, tables: TreeTables[Value], slot: Value) -> Value:
    node = pick(g, tables.nodes, slot)
    value = g.call("aten.gather.default", x, 1, _column(g, node, FEATURE))
    threshold = pick(g, tables.thresholds, slot)
    if form.comparison != MIXED:
        holds = g.cast(g.binary(form.comparison, value, threshold), torch.int64)
        if form.masked:
            holds = g.where(g.unary("isnan", value), _bit(g, node, 3), holds)
    else:
        at = g.binary("eq", value, threshold)
        if tables.sets is not None and tables.set_of is not None:
            members = pick(g, tables.sets, pick(g, tables.set_of, slot))
            among = g.call("aten.any.dims", g.binary("eq", members, g.unsqueeze(value, 2)), [2], False)
            at = g.call("aten.logical_or.default", at, among)
        outcome = g.add(g.cast(at, torch.int64), g.mul(g.cast(g.binary("gt", value, threshold), torch.int64), 2))
        holds = _bit(g, node, g.where(g.unary("isnan", value), 3, outcome))
    return g.add(_column(g, node, FIRST), holds)


def _column(g: ProgramBuilder, node: Value, column: int) -> Value:
    return g.cast(g.select(node, 2, column), torch.int64)


def _bit(g: ProgramBuilder, node: Value, number: Value | int) -> Value:
    return g.binary("bitwise_and", g.binary("bitwise_right_shift", _column(g, node, MASK), number), 1)
