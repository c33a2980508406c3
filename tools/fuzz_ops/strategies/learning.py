"""ai.onnx.ml: features, labels, linear models, support vectors and trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tools.fuzz_ops import forests
from tools.fuzz_ops.case import Array
from tools.fuzz_ops.draw import Draw, numpy_dtype
from tools.fuzz_ops.graphs import element

_TRANSFORMS = ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "NONE")
_NAMES = ("cat", "dog", "fox", "hen")


def _numbers(d: Draw, count: int) -> list[float]:
    rng = np.random.default_rng(d.integer(0, 2**16))
    return [round(float(item), 3) for item in rng.normal(size=count)]


def _rows(d: Draw, width: int) -> Sequence[int]:
    """Some observations, or a vector that is one of them."""
    return (width,) if d.one_in(5) else (d.size(0, 7), width)


def _observe(d: Draw, name: str, width: int) -> None:
    d.give(name, d.array(d.dtype(d.formal(name).type), _rows(d, width), -3, 3), known=False, static_last=True)


def scaler(d: Draw) -> None:
    """Scaler: numbers for each feature, or one for all."""
    width = d.size(1, 5)
    count = d.choose((width, 1))
    d.attributes["offset"], d.attributes["scale"] = _numbers(d, count), _numbers(d, count)
    _observe(d, "X", width)


def normalizer(d: Draw) -> None:
    """Normalizer: of rows that are not 0."""
    d.attribute("norm", "L1", "L2", "MAX")
    d.give("X", d.array(d.dtype("T"), _rows(d, d.size(1, 5)), 1, 9))


def extractor(d: Draw) -> None:
    """ArrayFeatureExtractor: any features, any number of times."""
    shape = d.shape(1, 3, smallest=1)
    d.tensor("X", shape)
    d.give("Y", d.indices("int64", (d.size(1, 5),), shape[-1], negative=False), known=d.flag())


def binarizer(d: Draw) -> None:
    """Binarizer."""
    d.attribute("threshold", 0.5, -1.0, 2.0)
    d.tensor("X", d.shape(1, 3))


def vectorizer(d: Draw) -> None:
    """FeatureVectorizer: inputs that are cut or filled up."""
    widths = [d.size(1, 4) for _ in range(d.integer(1, 3))]
    d.attributes["inputdimensions"] = [max(1, width + d.choose((0, 0, 1, -1))) for width in widths]
    rows = d.size(1, 5)
    for width in widths:
        d.tensor("X", (rows, width), known=False)


def imputer(d: Draw) -> None:
    """Imputer: a number or NaN replaced, by one for all features or one for each."""
    width = d.size(1, 5)
    count = d.choose((width, 1))
    data = d.array(d.dtype("T"), _rows(d, width), -2, 2)
    if data.dtype.kind == "f":
        data = np.round(data)
        d.attributes["imputed_value_floats"] = _numbers(d, count)
        if d.flag():
            d.attributes["replaced_value_float"] = float("nan")
            data = np.where(data == 1, np.nan, data).astype(data.dtype)
        else:
            d.attributes["replaced_value_float"] = d.choose((1.0, 0.0))
    else:
        d.attributes["imputed_value_int64s"] = [d.integer(-9, 9) for _ in range(count)]
        d.attribute("replaced_value_int64", 1)
    d.give("X", data, static_last=True)


def one_hot(d: Draw) -> None:
    """OneHotEncoder: numbers or words, also such as are in no category."""
    shape = d.shape(1, 2, smallest=1)
    d.attribute("zeros", 1)
    if d.one_in(3):
        d.attributes["cats_strings"] = list(_NAMES[: d.integer(1, 3)])
        d.give("X", d.words(shape, _NAMES))
        return
    d.attributes["cats_int64s"] = d.permuted(range(-2, 4))[: d.integer(1, 6)]
    d.give("X", np.round(d.array(d.dtype("T"), shape, -3, 4)))


_ENCODED = {"int64": "int64s", "float": "floats", "string": "strings"}


def labels(d: Draw) -> None:
    """LabelEncoder: numbers and words to numbers and words; since 4 also by tensors of other types."""
    since = d.version.since_version
    shape = d.shape(1, 2)
    if since == 1:
        d.attributes["classes_strings"] = list(_NAMES)
        d.attribute("default_int64", -7)
        d.attribute("default_string", "?")
        d.give("X", d.words(shape, (*_NAMES, "cow")) if d.flag() else d.array("int64", shape, -1, 5), known=False)
        return
    count = d.integer(1, 5)
    if since >= 4 and d.flag():
        kind = d.choose(("double", "float", "int64", "int32", "int16"))
        for part, low in (("keys", -2), ("values", -9)):
            numbers = (np.arange(count) + low).astype(numpy_dtype(kind))
            d.attributes[f"{part}_tensor"] = onnx.numpy_helper.from_array(numbers, part)
        d.attributes["default_tensor"] = onnx.numpy_helper.from_array(np.array([77], numpy_dtype(kind)), "default")
        d.types["T1"] = kind
        d.give("X", np.round(d.array(kind, shape, -3, 3)), known=False)
        return
    source, target = d.choose(list(_ENCODED)), d.choose(list(_ENCODED))
    keys = d.permuted(range(-2, 4))[:count]
    words = [*_NAMES, "", "É"]
    d.attributes[f"keys_{_ENCODED[source]}"] = {"string": words[:count], "float": [key + 0.5 for key in keys]}.get(source, keys)
    values = {"string": words[::-1][:count], "float": _numbers(d, count)}
    d.attributes[f"values_{_ENCODED[target]}"] = values.get(target, [d.integer(-99, 99) for _ in range(count)])
    d.attribute(f"default_{target}", {"string": "?", "float": -1.5}.get(target, -7))
    d.types["T1"] = source
    if source == "string":
        d.give("X", d.words(shape, (*words, "cow")), known=False)
    else:
        numbers = d.array("int64", shape, -3, 4).astype(numpy_dtype(source))
        d.give("X", numbers + numbers.dtype.type(0.5) if source == "float" else numbers, known=False)


def linear_regressor(d: Draw) -> None:
    """LinearRegressor: several targets, with and without intercepts."""
    width, targets = d.size(1, 5), d.integer(1, 3)
    d.attributes["coefficients"] = _numbers(d, width * targets)
    if targets > 1 or d.flag():
        d.attributes["targets"] = targets
    d.attribute("intercepts", _numbers(d, targets))
    d.attribute("post_transform", *(_TRANSFORMS if targets > 1 else ("NONE",)))
    _observe(d, "X", width)


def _class_labels(d: Draw, count: int, numbers: str) -> None:
    if d.one_in(5):
        d.attributes["classlabels_strings"] = list(_NAMES[:count])
    else:
        d.attributes[numbers] = d.permuted(range(3, 3 + count))


def linear_classifier(d: Draw) -> None:
    """LinearClassifier: scores of each class, or of one of two."""
    width, classes = d.size(1, 5), d.integer(2, 4)
    rows = d.choose((classes, 1)) if classes == 2 else classes
    _class_labels(d, classes, "classlabels_ints")
    d.attributes["coefficients"] = _numbers(d, width * rows)
    # onnxruntime insists on them.
    d.attributes["intercepts"] = _numbers(d, rows)
    d.attribute("multi_class", 1, 0)
    d.attribute("post_transform", *_TRANSFORMS)
    _observe(d, "X", width)
    d.outputs = (True, True)


def _kernel(d: Draw) -> None:
    d.attributes["kernel_type"] = d.choose(("LINEAR", "POLY", "RBF", "SIGMOID"))
    d.attributes["kernel_params"] = [0.4, d.choose((0.5, 0.0)), d.choose((2.0, 3.0, 1.0))]


def svm_regressor(d: Draw) -> None:
    """SVMRegressor: support vectors of every kernel, or a linear machine; of one class or not."""
    width, count = d.size(1, 5), d.integer(1, 4)
    d.attribute("one_class", 1, 0)
    d.attributes["rho"] = [d.choose((0.1, -0.3))]
    if d.one_in(4):
        d.attributes["kernel_type"] = "LINEAR"
        d.attributes["kernel_params"] = [0.0, 0.0, 0.0]
        d.attributes["coefficients"] = _numbers(d, width)
    else:
        _kernel(d)
        d.attributes["support_vectors"] = _numbers(d, width * count)
        d.attributes["coefficients"], d.attributes["n_supports"] = _numbers(d, count), count
    _observe(d, "X", width)


def svm_classifier(d: Draw) -> None:
    """SVMClassifier: support vectors of two to four classes with and without probabilities, or a linear machine."""
    width, classes = d.size(1, 5), d.integer(2, 4)
    pairs = classes * (classes - 1) // 2
    _class_labels(d, classes, "classlabels_ints")
    if d.one_in(4):
        d.attributes["kernel_type"] = "LINEAR"
        d.attributes["kernel_params"], d.attributes["rho"] = [0.0, 0.0, 0.0], [0.1]
        d.attributes["coefficients"] = _numbers(d, classes * width)
    else:
        _kernel(d)
        vectors = [d.integer(1, 3) for _ in range(classes)]
        d.attributes["vectors_per_class"] = vectors
        d.attributes["support_vectors"] = _numbers(d, width * sum(vectors))
        d.attributes["coefficients"] = _numbers(d, (classes - 1) * sum(vectors))
        d.attributes["rho"] = _numbers(d, pairs)
        if d.flag():
            d.attributes["prob_a"] = [-1.0 - 0.5 * pair for pair in range(pairs)]
            d.attributes["prob_b"] = [0.1 * pair for pair in range(pairs)]
    d.attribute("post_transform", *_TRANSFORMS)
    _observe(d, "X", width)
    d.outputs = (True, True)


def _trees(d: Draw, width: int) -> tuple[dict[str, Any], list[tuple[int, int]], np.random.Generator]:
    rng = np.random.default_rng(d.integer(0, 2**16))
    modes = forests.MODES if d.flag() else (d.choose(forests.MODES),)
    trees, depth = d.integer(1, 3), d.choose((2, 1, 3, 8))
    columns, leaves = forests.nodes(rng, trees=trees, depth=depth, features=width, modes=modes, missing=d.flag())
    return columns, leaves, rng


def _holes(d: Draw, width: int, only: Sequence[str] | None = None) -> None:
    name = d.version.inputs[0].name
    data = np.round(d.array(d.dtype(d.formal(name).type, only), (d.size(0, 7), width), -3, 3), 1)
    if data.dtype.kind == "f" and d.flag():
        data = np.where(d.indices("int64", data.shape, 5, negative=False) == 0, np.nan, data).astype(data.dtype)
    d.give(name, data, known=False, static_last=True)


def tree_regressor(d: Draw) -> None:
    """TreeEnsembleRegressor: every mode, function and depth."""
    width, targets = d.size(1, 4), d.integer(1, 3)
    columns, leaves, rng = _trees(d, width)
    used = list(range(targets))
    weights = forests.weights(rng, leaves, "target", used, sparse=targets > 1 and d.flag())
    d.attributes |= {**columns, **weights, "n_targets": targets}
    if d.has_attribute("target_weights_as_tensor") and d.one_in(4):
        for part in ("nodes_values", "target_weights"):
            held = np.array(d.attributes.pop(part), np.float64)
            d.attributes[f"{part}_as_tensor"] = onnx.numpy_helper.from_array(held, part)
        d.types["T"] = "double"
    d.attribute("aggregate_function", "AVERAGE", "MIN", "MAX", "SUM")
    if "target_weights" in d.attributes:
        d.attribute("base_values", [round(0.1 * target + 0.05, 2) for target in used])
    d.attribute("post_transform", *(_TRANSFORMS if targets > 1 else ("LOGISTIC", "NONE")))
    _holes(d, width)


def tree_classifier(d: Draw) -> None:
    """TreeEnsembleClassifier: weights for all classes, or for one of two."""
    width, classes = d.size(1, 4), d.integer(2, 4)
    columns, leaves, rng = _trees(d, width)
    used = [d.integer(0, 1)] if classes == 2 and d.flag() else list(range(classes))
    weights = forests.weights(rng, leaves, "class", used, sparse=len(used) > 1 and d.flag())
    d.attributes |= {**columns, **weights}
    _class_labels(d, classes, "classlabels_int64s")
    d.attribute("base_values", [round(0.1 * target, 2) for target in range(classes)] if len(used) > 1 else [0.1])
    d.attribute("post_transform", *_TRANSFORMS)
    _holes(d, width)
    d.outputs = (True, True)


def tree_ensemble(d: Draw) -> None:
    """TreeEnsemble: splits, also by membership, in the type of the input."""
    width, targets = d.size(1, 4), d.integer(1, 3)
    kind = d.dtype("T", ("float", "double"))
    columns, leaves, rng = _trees(d, width)
    weights = forests.weights(rng, leaves, "target", list(range(targets)), sparse=True)
    inner = sum(mode != "LEAF" for mode in columns["nodes_modes"])
    members = {index: _numbers(d, d.integer(1, 3)) for index in range(inner) if d.one_in(4)}
    d.attributes |= forests.as_splits(columns, weights, element(kind), members or None)
    d.attributes["n_targets"] = targets
    # onnx.reference, which is asked where onnxruntime refuses a set, leaves the largest number where no leaf has a weight.
    d.attribute("aggregate_function", *((0, 1) if members else (0, 2, 3, 1)))
    _holes(d, width)


def category_mapper(d: Draw) -> None:
    """CategoryMapper: words to numbers and back."""
    d.attributes["cats_strings"], d.attributes["cats_int64s"] = list(_NAMES), [7, 0, -3, 5]
    d.attribute("default_int64", 99)
    d.attribute("default_string", "?")
    shape = d.shape(1, 2)
    d.give("X", d.words(shape, (*_NAMES, "cow")) if d.flag() else d.array("int64", shape, -4, 8), known=False)


def _map(d: Draw, key: str, value: str, keys: Sequence[Any]) -> None:
    chosen = [item for item in keys if d.flag()]
    numbers: Array = d.array("int64", (len(chosen),), -9, 9)
    made: dict[Any, Any] = {
        item: str(number) if value == "string" else int(number) if value == "int64" else number + 0.5
        for item, number in zip(chosen, numbers.tolist(), strict=True)
    }
    inside = helper.make_tensor_type_proto(element(value), [])
    d.value("X", made, helper.make_map_type_proto(element(key), inside))


def dict_vectorizer(d: Draw) -> None:
    """DictVectorizer: maps from words or numbers."""
    key = d.choose(("int64", "string"))
    value = d.choose(("float", "double", "int64") if key == "string" else ("float", "double"))
    keys: Sequence[Any] = _NAMES if key == "string" else (0, 5, -3, 2)
    d.attributes[f"{key}_vocabulary"] = d.permuted(keys)[: d.integer(1, 4)]
    _map(d, key, value, keys)


def cast_map(d: Draw) -> None:
    """CastMap: dense, and sparse in a vector of a given length."""
    value = d.choose(("float", "string"))
    d.attribute("cast_to", "TO_INT64", "TO_FLOAT", "TO_STRING")
    sparse = d.flag()
    if sparse:
        d.attributes["map_form"], d.attributes["max_map"] = "SPARSE", 9
    _map(d, "int64", value, (0, 2, 5, 8))


def zip_map(d: Draw) -> None:
    """ZipMap: a map for each row."""
    count = d.integer(1, 4)
    if d.flag():
        d.attributes["classlabels_strings"] = list(_NAMES[:count])
    else:
        d.attributes["classlabels_int64s"] = d.permuted(range(count))
    d.give("X", d.array("float", _rows(d, count), 0, 1), known=False, static_last=True)


STRATEGIES = {
    "ArrayFeatureExtractor": extractor,
    "Binarizer": binarizer,
    "CastMap": cast_map,
    "CategoryMapper": category_mapper,
    "DictVectorizer": dict_vectorizer,
    "FeatureVectorizer": vectorizer,
    "Imputer": imputer,
    "LabelEncoder": labels,
    "LinearClassifier": linear_classifier,
    "LinearRegressor": linear_regressor,
    "Normalizer": normalizer,
    "OneHotEncoder": one_hot,
    "SVMClassifier": svm_classifier,
    "SVMRegressor": svm_regressor,
    "Scaler": scaler,
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleClassifier": tree_classifier,
    "TreeEnsembleRegressor": tree_regressor,
    "ZipMap": zip_map,
}
"""Of the domain ai.onnx.ml."""
