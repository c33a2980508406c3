"""Forests of many nodes: what is read of them, in which order, and what memory that takes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import onnx2torch_mlir as o2m
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.domains.ai_onnx_ml import trees
from onnx2torch_mlir.model import StoredList
from tests.one_node import agrees, eager, node_model
from tools.fuzz_ops import forests

DOMAIN = "ai.onnx.ml"
X = np.round(np.random.default_rng(0).normal(size=(5, 3)), 2).astype(np.float32)
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.float32("nan"), X)


@pytest.fixture(scope="module")
def many() -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Many nodes, and what their leaves add to three targets."""
    rng = np.random.default_rng(9)
    nodes, leaves = forests.nodes(rng, trees=60, depth=10, features=3, modes=forests.MODES, missing=True)
    return nodes, forests.weights(rng, leaves, "target", [0, 1, 2], sparse=True)


def test_many_nodes_stay_in_the_file(many: tuple[dict[str, Any], ...], monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    plain = trees.forest_of_nodes
    monkeypatch.setattr(trees, "forest_of_nodes", lambda **items: given.update(items) or plain(**items))
    nodes, target = many
    agrees("TreeEnsembleRegressor", [HOLES], opset=3, domain=DOMAIN, n_targets=3, native=False, **nodes, **target)
    held = [name for name, items in given.items() if isinstance(items, StoredList)]
    assert held == "modes trees nodes features when_true when_false follows weight_trees weight_nodes weight_targets".split()


@pytest.mark.parametrize("part", [1000, 7])
def test_nodes_in_any_order(many: tuple[dict[str, Any], ...], part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree begins with its first node; all others may stand anywhere in it, and numbers need not fit into int32."""
    monkeypatch.setattr("onnx2torch_mlir.domains.ai_onnx_ml.forest._PART", part)
    nodes, target = many
    ids, owners = (np.array(nodes[name]) for name in ("nodes_nodeids", "nodes_treeids"))
    order = np.lexsort([np.where(ids == 0, -1, np.random.default_rng(10).random(len(ids))), owners])
    shuffled = {name: [items[index] for index in order] for name, items in nodes.items()}
    common: dict[str, Any] = {"opset": 3, "domain": DOMAIN, "n_targets": 3, "native": False}
    program = agrees("TreeEnsembleRegressor", [HOLES], **common, **shuffled, **target)
    # onnxruntime has no such numbers.
    far = dict.fromkeys(["nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids", "target_nodeids"], -(2**35))
    far |= dict.fromkeys(["nodes_treeids", "target_treeids"], 2**40)
    moved = {name: [item + far.get(name, 0) for item in items] for name, items in {**shuffled, **target}.items() if name in far}
    agrees("TreeEnsembleRegressor", [HOLES], expected=eager(program, [HOLES]), **common, **{**shuffled, **target, **moved})


@pytest.mark.parametrize("name", ["nodes_truenodeids", "target_nodeids"])
def test_a_node_that_is_missing_is_named(
    many: tuple[dict[str, Any], ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnx2torch_mlir.domains.ai_onnx_ml.forest._PART", 50)
    attributes = {**many[0], **many[1]}
    place = next(index for index in range(777, 9999) if name[0] == "t" or attributes["nodes_modes"][index] != "LEAF")
    attributes[name] = [77_777 if index == place else item for index, item in enumerate(attributes[name])]
    tree = attributes[name.split("_")[0] + "_treeids"][place]
    with pytest.raises(Refusal, match=f"tree {tree} has no node 77777"):
        agrees("TreeEnsembleRegressor", [X], opset=3, domain=DOMAIN, n_targets=3, **attributes)


def test_converting_takes_some_arrays_of_the_nodes(many: tuple[dict[str, Any], ...]) -> None:
    attributes = {name: items * 8 for part in many for name, items in part.items()}
    for name in ("nodes_treeids", "target_treeids"):
        size = len(attributes[name]) // 8
        attributes[name] = [tree + 60 * (place // size) for place, tree in enumerate(attributes[name])]
    data = node_model("TreeEnsembleRegressor", [X], opset=3, domain=DOMAIN, n_targets=3, **attributes).SerializeToString()
    o2m.convert(data)
    tracemalloc.start()
    try:
        o2m.convert(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A list of Python's integers has 40 bytes for each, and there are eight lists.
    assert peak < 110 * len(attributes["nodes_modes"])
