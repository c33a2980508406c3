"""TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier.

Comparisons and sums are made in float64 for observations in float64, else in float32, as in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.ai_onnx_ml.descent import Descent
from onnx2torch_mlir.domains.ai_onnx_ml.forest import Forest, Numbers, forest_of_nodes, forest_of_splits
from onnx2torch_mlir.domains.ai_onnx_ml.rows import as_rows, integer_labels, working_float
from onnx2torch_mlir.domains.ai_onnx_ml.scores import TRANSFORMS, transformed
from onnx2torch_mlir.domains.ai_onnx_ml.verdict import verdict

FUNCTIONS = ("AVERAGE", "SUM", "MIN", "MAX")
"""In the order of TreeEnsemble's numbers."""

Ints = Sequence[int]


def tree_ensemble(
    g: ProgramBuilder,
    x: Value,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Ints,
    leaf_weights: Value,
    membership_values: Value | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Ints,
    nodes_falsenodeids: Ints,
    nodes_featureids: Ints,
    nodes_missing_value_tracks_true: Ints = (),
    nodes_modes: Value,
    nodes_splits: Value,
    nodes_trueleafs: Ints,
    nodes_truenodeids: Ints,
    post_transform: int = 0,
    tree_roots: Ints,
) -> Value:
    """[observations, n_targets] in the operand's dtype; float16 is computed in float32. Source: ONNX TreeEnsemble.

    Raises:
        Refusal: O2M-C005 where the attributes do not fit together.
    """
    if post_transform not in range(len(TRANSFORMS)) or aggregate_function not in range(len(FUNCTIONS)):
        raise refuse("O2M-C005", f"transform {post_transform} or function {aggregate_function} does not exist")
    dtype = working_float(x)
    members = None if membership_values is None else _contents(membership_values).to(dtype)
    forest = forest_of_splits(
        modes=_contents(nodes_modes).reshape(-1).tolist(),
        features=nodes_featureids,
        thresholds=_contents(nodes_splits).reshape(-1).to(dtype).numpy(),
        when_true=nodes_truenodeids,
        when_false=nodes_falsenodeids,
        true_leaves=nodes_trueleafs,
        false_leaves=nodes_falseleafs,
        follows=nodes_missing_value_tracks_true,
        roots=tree_roots,
        leaf_targets=leaf_targetids,
        leaf_weights=_contents(leaf_weights).reshape(-1).to(dtype).numpy(),
        members=members,
    )
    scores = _regressed(g, x, forest, n_targets, FUNCTIONS[aggregate_function], [])
    return g.cast(_transformed(g, scores, TRANSFORMS[post_transform]), x.dtype)


def tree_ensemble_regressor(
    g: ProgramBuilder,
    x: Value,
    *,
    aggregate_function: str = "SUM",
    base_values: list[float] | None = None,
    base_values_as_tensor: Value | None = None,
    n_targets: int = 1,
    nodes_falsenodeids: Ints = (),
    nodes_featureids: Ints = (),
    nodes_missing_value_tracks_true: Ints = (),
    nodes_modes: Sequence[str] = (),
    nodes_nodeids: Ints = (),
    nodes_treeids: Ints = (),
    nodes_truenodeids: Ints = (),
    nodes_values: Sequence[float] = (),
    nodes_values_as_tensor: Value | None = None,
    post_transform: str = "NONE",
    target_ids: Ints = (),
    target_nodeids: Ints = (),
    target_treeids: Ints = (),
    target_weights: Sequence[float] = (),
    target_weights_as_tensor: Value | None = None,
) -> Value:
    """[observations, n_targets] in float32. Source: ONNX TreeEnsembleRegressor.

    Raises:
        Refusal: O2M-C005 where the attributes do not fit together.
    """
    dtype = working_float(x)
    forest = forest_of_nodes(
        modes=nodes_modes,
        trees=nodes_treeids,
        nodes=nodes_nodeids,
        features=nodes_featureids,
        thresholds=_numbers(nodes_values, nodes_values_as_tensor, dtype),
        when_true=nodes_truenodeids,
        when_false=nodes_falsenodeids,
        follows=nodes_missing_value_tracks_true,
        weight_trees=target_treeids,
        weight_nodes=target_nodeids,
        weight_targets=target_ids,
        weights=_numbers(target_weights, target_weights_as_tensor, dtype),
    )
    base = _numbers(base_values or (), base_values_as_tensor, dtype).tolist()
    scores = _regressed(g, x, forest, n_targets, aggregate_function, base)
    return _transformed(g, scores, post_transform, torch.float32)


def tree_ensemble_classifier(
    g: ProgramBuilder,
    x: Value,
    *,
    base_values: list[float] | None = None,
    base_values_as_tensor: Value | None = None,
    class_ids: Ints = (),
    class_nodeids: Ints = (),
    class_treeids: Ints = (),
    class_weights: Sequence[float] = (),
    class_weights_as_tensor: Value | None = None,
    classlabels_int64s: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    nodes_falsenodeids: Ints = (),
    nodes_featureids: Ints = (),
    nodes_missing_value_tracks_true: Ints = (),
    nodes_modes: Sequence[str] = (),
    nodes_nodeids: Ints = (),
    nodes_treeids: Ints = (),
    nodes_truenodeids: Ints = (),
    nodes_values: Sequence[float] = (),
    nodes_values_as_tensor: Value | None = None,
    post_transform: str = "NONE",
) -> tuple[Value, Value]:
    """Labels [observations] in int64 and scores [observations, classes] in float32. Source: ONNX TreeEnsembleClassifier.

    Raises:
        Refusal: O2M-C003 for string labels, O2M-C005 where the attributes do not fit together.
    """
    labels = integer_labels(classlabels_int64s, classlabels_strings)
    dtype = working_float(x)
    weights = _numbers(class_weights, class_weights_as_tensor, dtype)
    forest = forest_of_nodes(
        modes=nodes_modes,
        trees=nodes_treeids,
        nodes=nodes_nodeids,
        features=nodes_featureids,
        thresholds=_numbers(nodes_values, nodes_values_as_tensor, dtype),
        when_true=nodes_truenodeids,
        when_false=nodes_falsenodeids,
        follows=nodes_missing_value_tracks_true,
        weight_trees=class_treeids,
        weight_nodes=class_nodeids,
        weight_targets=class_ids,
        weights=weights,
    )
    base = _numbers(base_values or (), base_values_as_tensor, dtype).tolist()
    _check_targets(forest, len(labels))
    descent = Descent(g, forest, g.cast(as_rows(g, x), dtype))
    scores = descent.totals(len(labels), "SUM")
    present = descent.scored(len(labels))
    used = np.unique(class_ids).tolist()
    return verdict(g, scores, present, labels, base, used, bool((weights >= 0).all()), post_transform)


def _regressed(g: ProgramBuilder, x: Value, forest: Forest, targets: int, function: str, base: Sequence[float]) -> Value:
    """Sums (or the like) with ``base`` added; a target of several without any weight has 0 all the same, as in onnxruntime."""
    if function not in FUNCTIONS:
        raise refuse("O2M-C005", f"{function!r} is not one of {', '.join(FUNCTIONS)}", case="aggregate_function")
    if base and len(base) != targets:
        raise refuse("O2M-C005", f"{len(base)} base values for {targets} targets", case="base_values")
    _check_targets(forest, targets)
    dtype = working_float(x)
    descent = Descent(g, forest, g.cast(as_rows(g, x), dtype))
    scores = descent.totals(targets, function)
    if not base:
        return scores
    scores = g.add(scores, g.known(torch.tensor(list(base), dtype=dtype)))
    present = descent.scored(targets) if targets > 1 else None
    return scores if present is None else g.where(present, scores, g.scalar(0.0, dtype))


def _transformed(g: ProgramBuilder, scores: Value, name: str, dtype: torch.dtype | None = None) -> Value:
    """As `transformed`; without a transform float64 stays unless ``dtype`` says otherwise."""
    if name == "NONE" and dtype is None:
        return scores
    return transformed(g, scores, name)


def _check_targets(forest: Forest, targets: int) -> None:
    named = forest.weights.targets
    if not len(forest.roots) or bool(((named < 0) | (named >= targets)).any()):
        raise refuse("O2M-C005", f"there is no tree, or a leaf names a target beyond {targets}", case="target_ids")


def _numbers(floats: Sequence[float], tensor: Value | None, dtype: torch.dtype) -> Numbers:
    """An attribute given as floats or, for more precision, as a tensor."""
    given = torch.from_numpy(np.asarray(floats, np.float32)) if tensor is None else _contents(tensor).reshape(-1)
    result: Numbers = given.to(dtype).numpy()
    return result


def _contents(value: Value) -> torch.Tensor:
    if value.tensor is None:
        raise refuse("O2M-C005", f"attribute {value.name} has no contents")
    return value.tensor
