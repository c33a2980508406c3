"""How fast forests go, beside onnxruntime with one thread: seconds to convert and compile, and of a call at some batch sizes.

    python tools/bench/forests.py [--trees 200] [--nodes 1000] [--depth 10] [--features 30] [--batches 1 100 10000] [--check]

Random forests of ``--trees`` trees: a regressor, and a classifier of four classes, of which trees are grown evenly to
``--depth``; and a regressor whose leaves are split anywhere until a tree has ``--nodes`` inner nodes, as boosting leaf by leaf
does. The sides take turns, on rows that change; the numbers have to be equal to the last bit. Printed are medians of the time
that the calling thread was given, which a busy machine disturbs less than the clock; ``--clock`` takes the clock.
``--check`` exits with 1 where a ratio (onnxruntime's time by ours) is below 1 or numbers differ.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import onnx2torch_mlir as o2m
from tools.bench.import_speed import machine

SETS = 16
"""Different batches of rows that the calls go through: one alone would be learnt by the branch predictor."""
SECONDS = 0.4
"""That each side gets in one round."""


def even(rng: np.random.Generator, depth: int, _: int) -> tuple[Any, Any]:
    """(left, right) children of the nodes of a tree; nine of ten nodes above ``depth`` are split. A leaf has -1."""
    left, right = [-1], [-1]
    level = [0]
    for _ in range(depth):
        split = [node for node in level if node == 0 or rng.random() < 0.9]
        level = []
        for node in split:
            left[node], right[node] = len(left), len(left) + 1
            level += [left[node], right[node]]
            left += [-1, -1]
            right += [-1, -1]
    return np.array(left), np.array(right)


def anywhere(rng: np.random.Generator, _: int, nodes: int) -> tuple[Any, Any]:
    """A tree of which a random leaf is split ``nodes`` times."""
    left, right = np.full(2 * nodes + 1, -1), np.full(2 * nodes + 1, -1)
    leaves = [0]
    for made, chosen in enumerate((rng.random(nodes) * np.arange(1, nodes + 1)).astype(np.int64).tolist()):
        node = leaves[chosen]
        left[node], right[node] = 2 * made + 1, 2 * made + 2
        leaves[chosen] = 2 * made + 1
        leaves.append(2 * made + 2)
    return left, right


def forest(grow: Callable[..., tuple[Any, Any]], classes: int, options: argparse.Namespace) -> onnx.ModelProto:
    """A model of one TreeEnsembleClassifier, or of one TreeEnsembleRegressor if there are no ``classes``."""
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {}
    kind, prefix = ("Classifier", "class") if classes else ("Regressor", "target")
    for tree in range(options.trees):
        left, right = grow(rng, options.depth, options.nodes)
        count, leaves = len(left), np.flatnonzero(left < 0)
        held = max(classes, 1)
        parts = {
            "nodes_treeids": np.full(count, tree),
            "nodes_nodeids": np.arange(count),
            "nodes_featureids": rng.integers(options.features, size=count),
            "nodes_modes": np.where(left < 0, "LEAF", "BRANCH_LEQ"),
            "nodes_values": rng.normal(size=count).astype(np.float32) / 2,
            "nodes_truenodeids": np.maximum(left, 0),
            "nodes_falsenodeids": np.maximum(right, 0),
            f"{prefix}_treeids": np.full(len(leaves) * held, tree),
            f"{prefix}_nodeids": np.repeat(leaves, held),
            f"{prefix}_ids": np.tile(np.arange(held), len(leaves)),
            f"{prefix}_weights": rng.random(len(leaves) * held).astype(np.float32),
        }
        for name, values in parts.items():
            columns.setdefault(name, []).extend(values.tolist())
    shape: list[Any] = ["rows", held]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, shape)]
    more: dict[str, Any] = {"n_targets": 1}
    if classes:
        outputs.insert(0, helper.make_tensor_value_info("labels", TensorProto.INT64, ["rows"]))
        more = {"classlabels_int64s": list(range(classes))}
    names = [output.name for output in outputs]
    attributes: dict[str, Any] = {**columns, **more}
    node = helper.make_node(f"TreeEnsemble{kind}", ["x"], names, domain="ai.onnx.ml", **attributes)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", options.features])
    graph = helper.make_graph([node], "forest", [given], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def measured(call: Callable[[Any], Any], batches: list[Any], clock: Callable[[], float]) -> list[float]:
    """The times of calls, one after the other."""
    found: list[float] = []
    while sum(found) < SECONDS or len(found) < 3:
        start = clock()
        call(batches[len(found) % len(batches)])
        found.append(clock() - start)
    return found


def compare(name: str, model: onnx.ModelProto, options: argparse.Namespace) -> bool:
    """Print the rows of one model; whether it meets the target everywhere."""
    clock = time.perf_counter if options.clock else time.thread_time
    start = time.process_time()
    program = o2m.convert(model)
    converted = time.process_time()
    engine = program.compile()
    print(
        f"{name}: converted in {converted - start:.1f} s, compiled in {time.process_time() - converted:.1f} s of this process"
    )
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings)
    met = True
    for rows in options.batches:
        rng = np.random.default_rng(rows)
        sets = [rng.normal(size=(rows, options.features)).astype(np.float32) for _ in range(SETS if rows < 1000 else 2)]
        sides: list[tuple[Callable[[Any], Any], list[float]]] = [
            (lambda x: engine.run([x]), []),
            (lambda x: session.run(None, {"x": x}), []),
        ]
        results = [call(sets[0]) for call, _ in sides]
        equal = all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(*results, strict=True))
        for _ in range(options.rounds):
            for call, times in sides:
                times += measured(call, sets, clock)
        ours, theirs = (statistics.median(times) for _, times in sides)
        met = met and equal and theirs >= ours
        print(
            f"  batch {rows:<8}{ours * 1e6:>12.1f} us{theirs * 1e6:>12.1f} us{theirs / ours:>8.2f}"
            f"   {'equal' if equal else 'DIFFERENT'}",
            flush=True,
        )
    return met


def main() -> int:
    """Build the models, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=1000, help="inner nodes of a tree split anywhere (default: 1000)")
    parser.add_argument("--depth", type=int, default=10, help="of trees grown evenly (default: 10)")
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 100, 10000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", action="store_true", help="measure by the clock")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target is missed")
    options = parser.parse_args()
    print(machine())
    print(f"{options.trees} trees, {options.features} features; ours, onnxruntime (one thread), onnxruntime / ours")
    met = [
        compare(name, forest(grow, classes, options), options)
        for name, grow, classes in (
            ("regressor, even", even, 0),
            ("classifier of 4, even", even, 4),
            ("regressor, split anywhere", anywhere, 0),
        )
    ]
    return 1 if options.check and not all(met) else 0


if __name__ == "__main__":
    sys.exit(main())
