"""ai.onnx.ml against onnxruntime: every operator, eager and native, with fixed and with symbolic sizes.

Programs of many trees are long: of the cases that differ in what comes after the trees, one in a few runs natively.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.domains.ai_onnx_ml.rows import integer_labels
from tests.one_node import agrees, node_model
from tools.fuzz_ops import forests

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
X = np.round(np.random.default_rng(0).normal(size=(5, 3)), 2).astype(np.float32)
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.float32("nan"), X)
KINDS = [X, X.astype(np.float64), (X * 10).astype(np.int64), (X * 10).astype(np.int32)]


def numbers(count: int, seed: int = 0) -> list[float]:
    return np.round(np.random.default_rng(seed).normal(size=count), 3).tolist()


def holds(op: str, *inputs: Any, opset: int = 1, **more: Any) -> None:
    """With fixed sizes in eager PyTorch, with symbolic ones natively too."""
    for dynamic in (False, True):
        agrees(op, inputs, opset=opset, domain=DOMAIN, dynamic=dynamic, native=dynamic, **more)


FEATURES: list[tuple[Any, ...]] = [
    *(("Scaler", [x], {"offset": [0.1, 0.2, 0.3], "scale": [2.0, 3.0, 4.0]}) for x in KINDS),
    ("Scaler", [X[0]], {"offset": [0.5], "scale": [2.0]}),
    *(("Normalizer", [x], {"norm": norm}) for norm in ("MAX", "L1", "L2") for x in (X, KINDS[2], X[0], X * 0)),
    ("Normalizer", [KINDS[1]], {"norm": "L2"}),
    ("ArrayFeatureExtractor", [X, np.array([2, 0])], {}),
    ("ArrayFeatureExtractor", [X[0].astype(np.float64), np.array([[2, 0]])], {}),
    ("ArrayFeatureExtractor", [np.arange(24).reshape(2, 3, 4), np.array([3])], {}),
    *(("Binarizer", [x], {"threshold": 0.3}) for x in KINDS),
    ("Imputer", [HOLES], {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": float("nan")}),
    ("Imputer", [X.astype(np.float64)], {"imputed_value_floats": [7.0], "replaced_value_float": float(X[0, 0])}),
    ("Imputer", [np.array([[1, 2, 3], [4, 1, 1]])], {"imputed_value_int64s": [7], "replaced_value_int64": 1}),
    ("OneHotEncoder", [np.array([[1, 2, 3], [4, 1, 1]])], {"cats_int64s": [7, 1, 4, 1]}),
    ("OneHotEncoder", [np.array([1.7, 2, np.nan], np.float32)], {"cats_int64s": [7, 1, 2]}),
    ("OneHotEncoder", [np.array([1.7, 2, 1], np.float64)], {"cats_int64s": [7, 1, 2], "zeros": 0}),
    ("FeatureVectorizer", [X, X[:, :1]], {"inputdimensions": [2, 3]}),
    ("FeatureVectorizer", [KINDS[2]], {"inputdimensions": [3]}),
]


@pytest.mark.parametrize(("op", "inputs", "attributes"), FEATURES)
def test_features(op: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    holds(op, *inputs, **attributes)


def test_an_unknown_category_fails_when_zeros_are_not_wanted() -> None:
    data = np.array([1, 2, 3])
    with pytest.raises(Exception, match="belongs to no category"):
        agrees("OneHotEncoder", [data], opset=1, domain=DOMAIN, cats_int64s=[1, 2], zeros=0, expected=[None], native=False)


@pytest.mark.parametrize("opset", [2, 3, 4])
def test_labels(opset: int) -> None:
    integers = np.array([[1, 5, 9], [3, 5, -1]])
    floats = np.array([1, np.nan, 9, 3], np.float32)
    holds("LabelEncoder", integers, opset=opset, keys_int64s=[5, 3, 1, 5], values_floats=[0.5, 0.3, 0.1, 9.0])
    holds("LabelEncoder", floats, opset=opset, keys_floats=[5.0, float("nan"), 1.0], values_int64s=[50, 3, 1], default_int64=-7)


def test_many_labels() -> None:
    keys = np.random.default_rng(0).permutation(3000).tolist()
    values = numbers(3000)
    holds("LabelEncoder", np.array([[1, 5, 9], [3000, 5, -1]]), opset=2, keys_int64s=keys, values_floats=values)


def test_labels_as_tensors() -> None:
    keys = helper.make_tensor("keys", TensorProto.DOUBLE, [4], [3.0, 1.0, float("nan"), 2.0])
    values = helper.make_tensor("values", TensorProto.DOUBLE, [4], [0.3, 0.1, 0.5, 0.2])
    default = helper.make_tensor("default", TensorProto.DOUBLE, [1], [-2.0])
    data = np.array([1, 2, 3, np.nan, 4, -0.0])
    holds("LabelEncoder", data, opset=4, keys_tensor=keys, values_tensor=values, default_tensor=default)


def test_labels_that_are_strings_are_refused_here() -> None:
    with pytest.raises(Refusal, match="strings"):
        integer_labels(None, ["a", "b"])
    with pytest.raises(Refusal, match="no class labels"):
        integer_labels(None, None)


def near(transform: str) -> dict[str, float]:
    """PROBIT cancels digits where its result is near 0."""
    return {"atol": 1e-4} if transform == "PROBIT" else {}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_models(transform: str) -> None:
    small = X / 20
    more = {"post_transform": transform, **near(transform)}
    holds("LinearRegressor", small, coefficients=numbers(6), intercepts=[0.2, 0.4], targets=2, **more)
    holds("LinearRegressor", small, coefficients=numbers(3), **more)
    labels = [5, 7, 9]
    holds(
        "LinearClassifier",
        small,
        coefficients=numbers(9),
        intercepts=[0.2, 0.4, 0.1],
        classlabels_ints=labels,
        outputs=2,
        **more,
    )
    if transform != "PROBIT":
        holds("LinearClassifier", X, coefficients=numbers(3), intercepts=[0.2], classlabels_ints=[5, 7], outputs=2, **more)


@pytest.mark.parametrize("data", KINDS)
def test_linear_classifier_of_every_type(data: Any) -> None:
    holds("LinearClassifier", data, coefficients=numbers(6), intercepts=[0.2, 0.4], classlabels_ints=[5, 6], outputs=2)


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(kernel: str) -> None:
    common = {"kernel_type": kernel, "kernel_params": [0.4, 0.5, 3.0], "support_vectors": numbers(12)}
    holds("SVMRegressor", X, coefficients=numbers(4, 1), n_supports=4, rho=[0.1], **common)
    holds("SVMRegressor", X, coefficients=numbers(4, 1), n_supports=4, rho=[0.1], one_class=1, **common)
    holds("SVMClassifier", X, **classes(3, kernel), outputs=2)


def classes(count: int, kernel: str) -> dict[str, Any]:
    vectors = [2, 3, 2][:count]
    pairs = count * (count - 1) // 2
    return {
        "kernel_type": kernel,
        "kernel_params": [0.4, 0.5, 2.0],
        "support_vectors": numbers(3 * sum(vectors)),
        "vectors_per_class": vectors,
        "coefficients": numbers((count - 1) * sum(vectors), 2),
        "rho": [0.1, -0.2, 0.3][:pairs],
        "classlabels_ints": [5, 7, 9][:count],
    }


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("count", [2, 3])
def test_support_vector_classes(count: int, transform: str) -> None:
    common = {**classes(count, "RBF"), "post_transform": transform, "outputs": 2, **near(transform)}
    pairs = count * (count - 1) // 2
    holds("SVMClassifier", X, prob_a=[-1.0, -2.0, -3.0][:pairs], prob_b=[0.1, 0.2, 0.3][:pairs], **common)
    if transform != "PROBIT":
        holds("SVMClassifier", X, **common)


def test_linear_support_vector_machines() -> None:
    common = {"rho": [0.1], "kernel_params": [0.0, 0.0, 0.0]}
    holds("SVMRegressor", X, coefficients=numbers(3), **common)
    for count in (2, 3):
        for weights in (numbers(3 * count), np.abs(numbers(3 * count)).tolist()):
            holds("SVMClassifier", X, coefficients=weights, classlabels_ints=[5, 7, 9][:count], outputs=2, **common)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("modes", [*((mode,) for mode in forests.MODES), forests.MODES])
def test_every_mode_of_a_node(modes: tuple[str, ...], missing: bool) -> None:
    rng = np.random.default_rng(3)
    nodes, leaves = forests.nodes(rng, trees=3, depth=3, features=3, modes=modes, missing=missing)
    target = forests.weights(rng, leaves, "target", [0])
    agrees("TreeEnsembleRegressor", [HOLES], opset=3, domain=DOMAIN, dynamic=True, n_targets=1, **nodes, **target)


@pytest.mark.parametrize("opset", [1, 3])
@pytest.mark.parametrize("data", [X, X.astype(np.float64), X[0], X[:1], X[:0]])
def test_deep_trees_and_every_batch(data: Any, opset: int) -> None:
    rng = np.random.default_rng(4)
    nodes, leaves = forests.nodes(rng, trees=2, depth=8, features=3)
    holds("TreeEnsembleRegressor", data, opset=opset, n_targets=2, **nodes, **forests.weights(rng, leaves, "target", [0, 1]))


def test_thresholds_as_float64() -> None:
    rng = np.random.default_rng(4)
    nodes, leaves = forests.nodes(rng, trees=2, depth=3, features=3)
    target = forests.weights(rng, leaves, "target", [0])
    nodes["nodes_values_as_tensor"] = double(nodes.pop("nodes_values"))  # type: ignore[assignment]
    target["target_weights_as_tensor"] = double(target.pop("target_weights"))  # type: ignore[assignment]
    holds("TreeEnsembleRegressor", X.astype(np.float64), opset=3, n_targets=1, **nodes, **target)


def double(values: list[float]) -> TensorProto:
    return helper.make_tensor("values", TensorProto.DOUBLE, [len(values)], values)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_functions_of_a_regressor(function: str, transform: str) -> None:
    rng = np.random.default_rng(5)
    nodes, leaves = forests.nodes(rng, trees=3, depth=3, features=3)
    common = {"opset": 3, "domain": DOMAIN, "aggregate_function": function, "post_transform": transform, **near(transform)}
    common["native"] = "SUM" in function or transform == "NONE"
    target = forests.weights(rng, leaves, "target", [0, 1], sparse=True)
    agrees("TreeEnsembleRegressor", [X], n_targets=2, base_values=[0.01, 0.02], **common, **nodes, **target)
    agrees("TreeEnsembleRegressor", [X], n_targets=1, **common, **nodes, **forests.weights(rng, leaves, "target", [0]))


CLASSES = [
    (count, used, sparse, base, negative)
    for count, used, sparse in (
        (1, [0], False),
        (2, [0], False),
        (2, [1], False),
        (2, [0, 1], False),
        (2, [0, 1], True),
        (3, [0, 1, 2], False),
        (3, [0, 2], True),
    )
    for base in ([], [0.1], [0.1, -0.2], [0.1, 0.2, 0.3])
    for negative in (False, True)
    if not base or len(base) == count or (count == 2 and len(base) == 1 and not sparse)
]


@pytest.mark.parametrize("case", CLASSES, ids=str)
def test_classes_of_trees(case: tuple[int, list[int], bool, list[float], bool]) -> None:
    count, used, sparse, base, negative = case
    rng = np.random.default_rng(6)
    nodes, leaves = forests.nodes(rng, trees=3, depth=3, features=3)
    own = forests.weights(rng, leaves, "class", used, sparse=sparse)
    if negative:
        own["class_weights"] = [weight - 0.15 for weight in own["class_weights"]]
    more = {"base_values": base} if base else {}
    common = {"outputs": 2, "classlabels_int64s": [5, 7, 9][:count], **nodes, **own, **more}
    for transform in ("NONE", "LOGISTIC", "SOFTMAX_ZERO"):
        more = {"post_transform": transform, "native": transform == "LOGISTIC"}
        agrees("TreeEnsembleClassifier", [X], opset=3, domain=DOMAIN, dynamic=negative, **more, **common)


@pytest.mark.parametrize("opset", [1, 3])
@pytest.mark.parametrize("data", KINDS[1:])
def test_tree_classifier_of_every_type(data: Any, opset: int) -> None:
    rng = np.random.default_rng(7)
    nodes, leaves = forests.nodes(rng, trees=2, depth=2, features=3)
    common = {**nodes, **forests.weights(rng, leaves, "class", [0, 1, 2])}
    holds("TreeEnsembleClassifier", data, opset=opset, outputs=2, classlabels_int64s=[5, 7, 9], **common)


def splits(
    element: int, members: dict[int, list[float]] | None = None, modes: tuple[str, ...] = forests.MODES
) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    nodes, leaves = forests.nodes(rng, trees=3, depth=4, features=3, modes=modes, missing=True)
    return forests.as_splits(nodes, forests.weights(rng, leaves, "target", [0, 1], sparse=True), element, members)


@pytest.mark.parametrize("function", range(4))
def test_tree_ensemble(function: int) -> None:
    common: dict[str, Any] = {"opset": 5, "n_targets": 2, "aggregate_function": function}
    holds("TreeEnsemble", HOLES, **common, **splits(TensorProto.FLOAT))
    holds("TreeEnsemble", X.astype(np.float64), **common, **splits(TensorProto.DOUBLE))


def test_membership() -> None:
    data = np.round(HOLES * 2)
    members = {0: [0.0, 1.0, 2.0], 2: [1.0], 3: [-1.0, 40.0, 0.0]}
    holds("TreeEnsemble", data, opset=5, n_targets=2, **splits(TensorProto.FLOAT, members, forests.MODES[:1]))


def plain(data: Any, attributes: dict[str, Any]) -> Any:
    model = node_model("TreeEnsemble", [data], opset=5, domain=DOMAIN, n_targets=2, **attributes)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"in0": data})[0]


@pytest.mark.parametrize(("number", "logistic"), [(1, False), (2, True)])
def test_transforms_have_the_numbers_of_onnx(number: int, logistic: bool) -> None:
    """onnxruntime takes 1 for LOGISTIC and 2 for SOFTMAX."""
    attributes = splits(TensorProto.FLOAT)
    scores = plain(X, attributes)
    powers = np.exp(scores)
    wanted = powers / (1 + powers) if logistic else powers / powers.sum(1, keepdims=True)
    agrees("TreeEnsemble", [X], opset=5, domain=DOMAIN, n_targets=2, post_transform=number, expected=[wanted], **attributes)


def test_tree_ensemble_in_float16() -> None:
    data = X.astype(np.float16)
    wanted = plain(data.astype(np.float32), splits(TensorProto.FLOAT)).astype(np.float16)
    agrees(
        "TreeEnsemble", [data], opset=5, domain=DOMAIN, n_targets=2, expected=[wanted], atol=2e-3, **splits(TensorProto.FLOAT16)
    )


def test_a_tree_that_is_a_leaf() -> None:
    attributes: dict[str, Any] = {
        "tree_roots": [0],
        "nodes_featureids": [0],
        "nodes_truenodeids": [1],
        "nodes_falsenodeids": [1],
        "nodes_trueleafs": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0, 1],
        "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [2], [0.5, 0.25]),
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [1], [0]),
        "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [1], [0.0]),
    }
    holds("TreeEnsemble", X, opset=5, n_targets=2, **attributes)


def test_a_tree_that_goes_in_circles_is_refused() -> None:
    attributes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 2, 0],
        "target_treeids": [0],
        "target_nodeids": [2],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    with pytest.raises(Refusal, match="descendants"):
        # Without a reference: that of ONNX runs in circles too, and for ever.
        agrees("TreeEnsembleRegressor", [X], opset=3, domain=DOMAIN, n_targets=1, expected=[None], **attributes)
