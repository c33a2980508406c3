"""Tree ensembles as one structure, read from the attributes of every version of the operators.

A child is written as a number: an inner node, or the complement ``~k`` of leaf ``k``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import torch

from onnx2torch_mlir.diagnostics import refuse

Weights = list[tuple[int, float]]
"""What a leaf adds: (target, weight)."""


class Mode(IntEnum):
    """Comparisons of a node, with TreeEnsemble's numbers."""

    BRANCH_LEQ = 0
    BRANCH_LT = 1
    BRANCH_GTE = 2
    BRANCH_GT = 3
    BRANCH_EQ = 4
    BRANCH_NEQ = 5
    BRANCH_MEMBER = 6


@dataclass
class Forest:
    """Inner nodes as parallel lists, leaves, and the root of each tree; thresholds are float32 or float64.

    ``follows`` says where a missing value goes the way of a true comparison; ``members`` holds the set of a node of mode
    BRANCH_MEMBER.
    """

    thresholds: torch.Tensor
    modes: list[Mode] = field(default_factory=list)
    features: list[int] = field(default_factory=list)
    follows: list[bool] = field(default_factory=list)
    when_true: list[int] = field(default_factory=list)
    when_false: list[int] = field(default_factory=list)
    members: dict[int, torch.Tensor] = field(default_factory=dict)
    leaves: list[Weights] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    @property
    def inner(self) -> int:
        """Number of inner nodes."""
        return len(self.modes)

    def depth(self) -> int:
        """The most comparisons between a root and a leaf.

        Raises:
            Refusal: O2M-C005 where a node is among its own descendants.
        """
        children = np.stack([np.array(self.when_true, np.int64), np.array(self.when_false, np.int64)])
        level = np.unique([root for root in self.roots if root >= 0]).astype(np.int64)
        depth = 0
        while level.size:
            depth += 1
            if depth > self.inner:
                raise refuse("O2M-C005", "a node of a tree is among its own descendants", case="nodes_truenodeids")
            below = children[:, level]
            level = np.unique(below[below >= 0])
        return depth


def forest_of_nodes(
    *,
    modes: Sequence[str],
    trees: Sequence[int],
    nodes: Sequence[int],
    features: Sequence[int],
    thresholds: torch.Tensor,
    when_true: Sequence[int],
    when_false: Sequence[int],
    follows: Sequence[int],
    weight_trees: Sequence[int],
    weight_nodes: Sequence[int],
    weight_targets: Sequence[int],
    weights: Sequence[float],
) -> Forest:
    """The forest of TreeEnsembleClassifier and TreeEnsembleRegressor, where leaves are nodes too.

    A tree begins with the first of its nodes; weights of inner nodes are ignored, as in onnxruntime.

    Raises:
        Refusal: O2M-C005 where lists differ in length, a node is there twice or is missing.
    """
    count = len(nodes)
    if any(len(item) != count for item in (modes, trees, features, when_true, when_false)) or thresholds.numel() != count:
        raise refuse("O2M-C005", "the attributes that describe the nodes differ in length", case="nodes_nodeids")
    if not len(weights) == len(weight_targets) == len(weight_nodes) == len(weight_trees):
        raise refuse("O2M-C005", "the attributes that describe the leaves differ in length", case="weights")
    places = {place: index for index, place in enumerate(zip(trees, nodes, strict=True))}
    if len(places) != count or count == 0:
        raise refuse("O2M-C005", "there are no nodes, or one of them is there twice", case="nodes_nodeids")
    inner = [index for index, mode in enumerate(modes) if mode != "LEAF"]
    numbers = {index: number for number, index in enumerate(inner)}
    forest = Forest(thresholds.reshape(-1)[inner])
    for index in range(count):
        if index not in numbers:
            numbers[index] = ~len(forest.leaves)
            forest.leaves.append([])
    for tree, node, target, weight in zip(weight_trees, weight_nodes, weight_targets, weights, strict=True):
        number = numbers[_place(places, tree, node)]
        if number < 0:
            forest.leaves[~number].append((target, weight))
    for index in inner:
        forest.modes.append(_mode(modes[index]))
        forest.features.append(features[index])
        forest.follows.append(index < len(follows) and follows[index] == 1)
        forest.when_true.append(numbers[_place(places, trees[index], when_true[index])])
        forest.when_false.append(numbers[_place(places, trees[index], when_false[index])])
    forest.roots = [numbers[index] for index in range(count) if index == 0 or trees[index] != trees[index - 1]]
    return forest


def forest_of_splits(
    *,
    modes: Sequence[int],
    features: Sequence[int],
    thresholds: torch.Tensor,
    when_true: Sequence[int],
    when_false: Sequence[int],
    true_leaves: Sequence[int],
    false_leaves: Sequence[int],
    follows: Sequence[int],
    roots: Sequence[int],
    leaf_targets: Sequence[int],
    leaf_weights: Sequence[float],
    members: torch.Tensor | None,
) -> Forest:
    """The forest of TreeEnsemble, where leaves have lists of their own and NaN ends each set of ``members``.

    A root whose two children are one leaf is that leaf.

    Raises:
        Refusal: O2M-C005 where lists differ in length or a number is out of range.
    """
    count = len(features)
    lists = (modes, when_true, when_false, true_leaves, false_leaves)
    if any(len(item) != count for item in lists) or thresholds.numel() != count or len(leaf_targets) != len(leaf_weights):
        raise refuse("O2M-C005", "the attributes that describe the nodes or the leaves differ in length", case="nodes_splits")
    forest = Forest(thresholds.reshape(-1), [_mode(number) for number in modes], list(features))
    forest.follows = [index < len(follows) and follows[index] == 1 for index in range(count)]
    forest.leaves = [[pair] for pair in zip(leaf_targets, leaf_weights, strict=True)]
    for children, flags, out in ((when_true, true_leaves, forest.when_true), (when_false, false_leaves, forest.when_false)):
        for child, leaf in zip(children, flags, strict=True):
            if not 0 <= child < (len(leaf_targets) if leaf else count):
                raise refuse("O2M-C005", f"child {child} of a node does not exist", case="nodes_truenodeids")
            out.append(~child if leaf else child)
    for root in roots:
        if not 0 <= root < count:
            raise refuse("O2M-C005", f"root {root} does not exist", case="tree_roots")
        single = forest.when_true[root] < 0 and forest.when_true[root] == forest.when_false[root]
        forest.roots.append(forest.when_true[root] if single else root)
    sets = _sets(members)
    places = [index for index, mode in enumerate(forest.modes) if mode is Mode.BRANCH_MEMBER]
    if len(sets) < len(places):
        raise refuse("O2M-C005", f"{len(sets)} sets for {len(places)} nodes", case="membership_values")
    forest.members = dict(zip(places, sets, strict=False))
    return forest


def _sets(members: torch.Tensor | None) -> list[torch.Tensor]:
    if members is None:
        return []
    flat = members.reshape(-1)
    sets, start = [], 0
    for end in [*flat.isnan().nonzero().reshape(-1).tolist(), flat.numel()]:
        if end > start or end < flat.numel():
            sets.append(flat[start:end])
        start = end + 1
    return sets


def _place(places: dict[tuple[int, int], int], tree: int, node: int) -> int:
    if (tree, node) not in places:
        raise refuse("O2M-C005", f"tree {tree} has no node {node}", case="nodes_nodeids")
    return places[tree, node]


def _mode(mode: str | int) -> Mode:
    try:
        return Mode[mode] if isinstance(mode, str) else Mode(mode)
    except (KeyError, ValueError):
        raise refuse("O2M-C005", f"{mode!r} is not a mode of a node", case="nodes_modes") from None
