"""Tree ensembles as one structure, read from the attributes of every version of the operators.

A child is written as a number: an inner node, or the complement ``~k`` of leaf ``k``. Forests have millions of nodes: all that
is done with them is done for all nodes at once, and what takes several arrays of their length for part after part of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import torch

from onnx2torch_mlir.diagnostics import refuse

Numbers: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Mode(IntEnum):
    """Comparisons of a node, with TreeEnsemble's numbers."""

    BRANCH_LEQ = 0
    BRANCH_LT = 1
    BRANCH_GTE = 2
    BRANCH_GT = 3
    BRANCH_EQ = 4
    BRANCH_NEQ = 5
    BRANCH_MEMBER = 6


_PART = 1 << 16
_LEAF = 7
_CODES = {**{mode.name: int(mode) for mode in Mode}, "LEAF": _LEAF}


@dataclass(frozen=True)
class Weights:
    """What leaves add: ``weights[i]`` to target ``targets[i]`` in leaf ``leaves[i]`` (int64), ascending; in a leaf as given."""

    leaves: Numbers
    targets: Numbers
    weights: Numbers

    def first_of_each(self) -> Weights:
        """The first weight of every leaf alone."""
        if _ascend(self.leaves):
            return self
        kept = np.diff(self.leaves, prepend=-1) > 0
        return Weights(self.leaves[kept], self.targets[kept], self.weights[kept])


@dataclass(frozen=True)
class Paths:
    """Of every tree the most comparisons on a way through it, and its leaves: leaf ``leaves[i]`` belongs to ``trees[i]``."""

    depths: Numbers
    trees: Numbers
    leaves: Numbers


@dataclass(frozen=True)
class Forest:
    """Inner nodes as parallel arrays, the number of leaves and what they add, and the root of each tree.

    ``thresholds`` are float32 or float64, children and roots int32. ``follows`` says where a missing value goes the way of a
    true comparison; ``members`` holds the set of a node of mode BRANCH_MEMBER.
    """

    thresholds: Numbers
    modes: Numbers
    features: Numbers
    follows: Numbers
    when_true: Numbers
    when_false: Numbers
    roots: Numbers
    leaves: int
    weights: Weights
    members: Mapping[int, torch.Tensor] = field(default_factory=dict)

    @property
    def inner(self) -> int:
        """Number of inner nodes."""
        return len(self.modes)

    def paths(self) -> Paths:
        """The trees gone through level by level.

        Raises:
            Refusal: O2M-C005 where a node is among its own descendants.
        """
        depths = np.zeros(len(self.roots), np.int64)
        trees, level = np.arange(len(self.roots)), self.roots
        found = []
        for depth in range(self.inner + 2):
            ends = level < 0
            found.append(trees[ends] * self.leaves + ~level[ends])
            trees, level = trees[~ends], level[~ends]
            if not level.size:
                reached = distinct(np.concatenate(found))
                return Paths(depths, reached // max(self.leaves, 1), reached % max(self.leaves, 1))
            depths[trees] = depth + 1
            # A node that is reached in two ways counts once: a circle would double at every turn.
            pairs = distinct(trees * self.inner + level)
            trees, level = pairs // self.inner, pairs % self.inner
            trees, level = np.tile(trees, 2), np.concatenate([self.when_true[level], self.when_false[level]])
        raise refuse("O2M-C005", "a node of a tree is among its own descendants", case="nodes_truenodeids")


class _Places:
    """Where (tree, node) stands among the nodes."""

    def __init__(self, trees: Numbers, nodes: Numbers) -> None:
        self._ids = distinct(trees), distinct(nodes)
        keys = np.empty(len(trees), np.int64)
        for part in _parts(len(trees)):
            keys[part], _ = self._keys(trees[part], nodes[part])
        self._order = None if _ascend(keys) else np.argsort(keys, kind="stable")
        self._sorted = keys if self._order is None else keys[self._order]
        self.unique = _ascend(self._sorted)

    def find(self, trees: Numbers, nodes: Numbers) -> Numbers:
        """The positions of all these.

        Raises:
            Refusal: O2M-C005 for one that is not there.
        """
        found = np.empty(len(trees), np.int32)
        for part in _parts(len(trees)):
            keys, known = self._keys(trees[part], nodes[part])
            place = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
            missing = ~known | (self._sorted[place] != keys)
            if missing.any():
                first = part.start + int(missing.argmax())
                raise refuse("O2M-C005", f"tree {trees[first]} has no node {nodes[first]}", case="nodes_nodeids")
            found[part] = place if self._order is None else self._order[place]
        return found

    def _keys(self, *pair: Numbers) -> tuple[Numbers, Numbers]:
        key, known = np.zeros(len(pair[0]), np.int64), np.ones(len(pair[0]), bool)
        for wanted, ids in zip(pair, self._ids, strict=True):
            place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
            known &= ids[place] == wanted
            key = key * len(ids) + place
        return key, known


def forest_of_nodes(
    *,
    modes: Sequence[str],
    trees: Sequence[int],
    nodes: Sequence[int],
    features: Sequence[int],
    thresholds: Numbers,
    when_true: Sequence[int],
    when_false: Sequence[int],
    follows: Sequence[int],
    weight_trees: Sequence[int],
    weight_nodes: Sequence[int],
    weight_targets: Sequence[int],
    weights: Numbers,
) -> Forest:
    """The forest of TreeEnsembleClassifier and TreeEnsembleRegressor, where leaves are nodes too.

    A tree begins with the first of its nodes; weights of inner nodes are ignored, as in onnxruntime.

    Raises:
        Refusal: O2M-C005 where lists differ in length, a node is there twice or is missing.
    """
    codes = _modes(modes)
    count = len(codes)
    if any(len(item) != count for item in (nodes, trees, features, when_true, when_false, thresholds)):
        raise refuse("O2M-C005", "the attributes that describe the nodes differ in length", case="nodes_nodeids")
    if not len(weights) == len(weight_targets) == len(weight_nodes) == len(weight_trees):
        raise refuse("O2M-C005", "the attributes that describe the leaves differ in length", case="weights")
    tree_of = _ints(trees)
    places = _Places(tree_of, _ints(nodes)) if count else None
    if places is None or not places.unique:
        raise refuse("O2M-C005", "there are no nodes, or one of them is there twice", case="nodes_nodeids")
    is_leaf = codes == _LEAF
    inner = ~is_leaf
    numbers = np.where(is_leaf, -np.cumsum(is_leaf, dtype=np.int32), np.cumsum(inner, dtype=np.int32) - 1)
    holders = numbers[places.find(_ints(weight_trees), _ints(weight_nodes))]
    kept = holders < 0
    begins = np.ones(count, bool)
    begins[1:] = tree_of[1:] != tree_of[:-1]
    return Forest(
        thresholds[inner],
        codes[inner],
        _ints(features)[inner],
        _flags(follows, count)[inner],
        numbers[places.find(tree_of[inner], _ints(when_true)[inner])],
        numbers[places.find(tree_of[inner], _ints(when_false)[inner])],
        numbers[begins],
        int(is_leaf.sum()),
        _sorted_weights(~holders[kept].astype(np.int64), _ints(weight_targets)[kept], weights[kept]),
    )


def forest_of_splits(
    *,
    modes: Sequence[int],
    features: Sequence[int],
    thresholds: Numbers,
    when_true: Sequence[int],
    when_false: Sequence[int],
    true_leaves: Sequence[int],
    false_leaves: Sequence[int],
    follows: Sequence[int],
    roots: Sequence[int],
    leaf_targets: Sequence[int],
    leaf_weights: Numbers,
    members: torch.Tensor | None,
) -> Forest:
    """The forest of TreeEnsemble, where leaves have lists of their own and NaN ends each set of ``members``.

    A root whose two children are one leaf is that leaf.

    Raises:
        Refusal: O2M-C005 where lists differ in length or a number is out of range.
    """
    count = len(features)
    lists = (modes, when_true, when_false, true_leaves, false_leaves, thresholds)
    if any(len(item) != count for item in lists) or len(leaf_targets) != len(leaf_weights):
        raise refuse("O2M-C005", "the attributes that describe the nodes or the leaves differ in length", case="nodes_splits")
    children = []
    for side, flags in ((_ints(when_true), _ints(true_leaves)), (_ints(when_false), _ints(false_leaves))):
        outside = (side < 0) | (side >= np.where(flags != 0, len(leaf_targets), count))
        if outside.any():
            raise refuse("O2M-C005", f"child {side[outside.argmax()]} of a node does not exist", case="nodes_truenodeids")
        children.append(np.where(flags != 0, ~side, side).astype(np.int32))
    begins = _ints(roots)
    outside = (begins < 0) | (begins >= count)
    if outside.any():
        raise refuse("O2M-C005", f"root {begins[outside.argmax()]} does not exist", case="tree_roots")
    single = (children[0][begins] < 0) & (children[0][begins] == children[1][begins])
    codes = _modes(modes)
    sets = _sets(members)
    places = np.flatnonzero(codes == Mode.BRANCH_MEMBER).tolist()
    if len(sets) < len(places):
        raise refuse("O2M-C005", f"{len(sets)} sets for {len(places)} nodes", case="membership_values")
    return Forest(
        thresholds,
        codes,
        _ints(features),
        _flags(follows, count),
        children[0],
        children[1],
        np.where(single, children[0][begins], begins).astype(np.int32),
        len(leaf_targets),
        _sorted_weights(np.arange(len(leaf_targets)), _ints(leaf_targets), leaf_weights),
        dict(zip(places, sets, strict=False)),
    )


def _ints(items: Sequence[int]) -> Numbers:
    """In int64, or in int32 where that holds them all."""
    found = np.asarray(items, np.int64).reshape(-1)
    limits = np.iinfo(np.int32)
    fits = not len(found) or (limits.min <= found.min() and found.max() <= limits.max)
    return found.astype(np.int32) if fits else found


def distinct(numbers: Numbers) -> Numbers:
    """What np.unique gives, which puts all of them into a table of hashes: to sort them takes a tenth of the time."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, start + _PART) for start in range(0, count, _PART))


def _ascend(keys: Numbers) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def _flags(items: Sequence[int], count: int) -> Numbers:
    flags = np.zeros(count, bool)
    flags[: len(items)] = _ints(items)[:count] == 1
    return flags


def _modes(modes: Sequence[str] | Sequence[int]) -> Numbers:
    codes: dict[Any, int] = {**_CODES, **{int(mode): int(mode) for mode in Mode}}
    try:
        return np.fromiter(map(codes.__getitem__, modes), np.int8)
    except KeyError as error:
        raise refuse("O2M-C005", f"{error.args[0]!r} is not a mode of a node", case="nodes_modes") from None


def _sorted_weights(leaves: Numbers, targets: Numbers, weights: Numbers) -> Weights:
    if _ascend(leaves):
        return Weights(leaves, targets, weights)
    order = np.argsort(leaves, kind="stable")
    return Weights(leaves[order], targets[order], weights[order])


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
