"""Random trees as the attributes of the tree operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def nodes(
    rng: np.random.Generator,
    *,
    trees: int,
    depth: int,
    features: int,
    modes: tuple[str, ...] = MODES[:1],
    missing: bool = False,
) -> tuple[dict[str, list[Any]], list[tuple[int, int]]]:
    """The ``nodes_*`` attributes, and (tree, node) of every leaf."""
    names = "treeids nodeids featureids modes values truenodeids falsenodeids missing_value_tracks_true".split()
    rows: list[list[Any]] = []
    leaves = []
    for tree in range(trees):
        made: dict[int, list[Any]] = {}

        def grow(level: int, tree: int = tree, made: dict[int, list[Any]] = made) -> int:
            node = len(made)
            made[node] = []
            if level == 0 or (level < depth and rng.random() < 0.2):
                leaves.append((tree, node))
                made[node] = [tree, node, 0, "LEAF", 0.0, 0, 0, 0]
                return node
            threshold = round(float(rng.normal()), 1)
            mode, feature, tracks = str(rng.choice(modes)), int(rng.integers(features)), int(missing and rng.integers(2))
            made[node] = [tree, node, feature, mode, threshold, grow(level - 1), grow(level - 1), tracks]
            return node

        grow(depth)
        rows.extend(made[node] for node in sorted(made))
    columns = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    if not missing:
        del columns["nodes_missing_value_tracks_true"]
    return columns, leaves


def weights(
    rng: np.random.Generator, leaves: list[tuple[int, int]], prefix: str, targets: list[int], *, sparse: bool = False
) -> dict[str, list[Any]]:
    """The attributes ``<prefix>_*``: a weight for each of ``targets`` in each leaf, or for one of them if ``sparse``."""
    rows = []
    for tree, node in leaves:
        for target in [int(rng.choice(targets))] if sparse else targets:
            rows.append((tree, node, target, round(float(rng.uniform(0.01, 0.3)), 3)))
    names = "treeids nodeids ids weights".split()
    return {f"{prefix}_{name}": list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def as_splits(
    columns: dict[str, list[Any]], target: dict[str, list[Any]], element: int, members: dict[int, list[float]] | None = None
) -> dict[str, Any]:
    """The same trees (one weight a leaf) as attributes of TreeEnsemble; ``members`` makes nodes tests of membership."""
    places = list(zip(columns["nodes_treeids"], columns["nodes_nodeids"], strict=True))
    inner = [index for index, mode in enumerate(columns["nodes_modes"]) if mode != "LEAF"]
    leaf = {place: row for row, place in enumerate(zip(target["target_treeids"], target["target_nodeids"], strict=True))}
    number = {places[index]: row for row, index in enumerate(inner)}

    def child(index: int, side: str) -> tuple[int, int]:
        place = (columns["nodes_treeids"][index], columns[f"nodes_{side}nodeids"][index])
        return (1, leaf[place]) if place in leaf else (0, number[place])

    modes = [MODES.index(columns["nodes_modes"][index]) for index in inner]
    result: dict[str, Any] = {
        "tree_roots": [number[tree, 0] for tree in dict.fromkeys(columns["nodes_treeids"])],
        "nodes_featureids": [columns["nodes_featureids"][index] for index in inner],
        "leaf_targetids": target["target_ids"],
        "leaf_weights": helper.make_tensor("w", element, [len(leaf)], target["target_weights"]),
    }
    for side in ("true", "false"):
        result[f"nodes_{side}leafs"] = [child(index, side)[0] for index in inner]
        result[f"nodes_{side}nodeids"] = [child(index, side)[1] for index in inner]
    if "nodes_missing_value_tracks_true" in columns:
        result["nodes_missing_value_tracks_true"] = [columns["nodes_missing_value_tracks_true"][index] for index in inner]
    if members:
        flat: list[float] = []
        for row in sorted(members):
            modes[row] = 6
            flat += [*members[row], float("nan")]
        result["membership_values"] = helper.make_tensor("m", element, [len(flat)], flat)
    result["nodes_modes"] = helper.make_tensor("modes", 2, [len(modes)], modes)
    splits = [columns["nodes_values"][index] for index in inner]
    result["nodes_splits"] = helper.make_tensor("splits", element, [len(splits)], splits)
    return result
