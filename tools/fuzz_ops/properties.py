"""What is expected where no reference's numbers are: formulas of our own, and properties of numbers that are random."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tools.fuzz_ops.case import Array, Case
from tools.fuzz_ops.widen import Wanted

Again = Callable[[], Sequence[Any]]
Property = Callable[[Case, Sequence[Any], Again], str]


def property_of(case: Case) -> Property | None:
    """What holds for the results of ``case``, whose numbers are random; None where they are a reference's.

    A property gives what does not hold in words, or "". It may run the case again.
    """
    if case.op == "Dropout" and not _trains(case):
        return None
    return _PROPERTIES.get(case.op)


def formula_of(case: Case) -> Callable[[Case], list[Any]] | None:
    """The results of ``case`` by a formula of our own, for an operator that no reference knows, or none knows exactly."""
    if case.op == "Dropout" and case.opset >= 7:
        return None
    if case.op in ("DictVectorizer", "CastMap") and _is_taken(case):
        return None
    return _FORMULAS.get((case.domain, case.op))


# Random numbers


def _same_again(results: Sequence[Any], again: Again) -> str:
    same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(results, again(), strict=True))
    return "" if same else "numbers of another run are not the same"


def _moments(sample: Array, mean: float, deviation: float, coarse: float) -> str:
    """Mean and deviation within six deviations of what they are for samples of this size."""
    if sample.size == 0 or not deviation:
        return "" if np.allclose(sample, mean, atol=coarse) else "numbers that do not vary differ from their mean"
    if not np.isfinite(sample).all():
        return "numbers are not finite"
    far = 6 * deviation / math.sqrt(sample.size) + coarse
    if abs(sample.mean() - mean) > far:
        return f"mean of the numbers is {sample.mean():.4g}, not {mean:.4g} ± {far:.2g}"
    wide = 6 * deviation / math.sqrt(sample.size) + coarse
    if sample.size > 50 and abs(sample.std() - deviation) > wide:
        return f"deviation of the numbers is {sample.std():.4g}, not {deviation:.4g} ± {wide:.2g}"
    return ""


def _coarse(array: Array, scale: float) -> float:
    return scale * {2: 0.01}.get(array.dtype.itemsize, 1e-5)


def _normal(case: Case, results: Sequence[Any], again: Again) -> str:
    mean, scale = (float(case.attributes.get(name, default)) for name, default in (("mean", 0.0), ("scale", 1.0)))
    coarse = _coarse(results[0], abs(mean) + 4 * scale)
    return _moments(results[0].astype(np.float64), mean, scale, coarse) or _same_again(results, again)


def _uniform(case: Case, results: Sequence[Any], again: Again) -> str:
    low, high = (float(case.attributes.get(name, default)) for name, default in (("low", 0.0), ("high", 1.0)))
    sample = results[0].astype(np.float64)
    coarse = _coarse(results[0], abs(low) + abs(high))
    if sample.size and not (sample.min() >= low - coarse and sample.max() <= high + coarse):
        return f"numbers from {sample.min():.4g} to {sample.max():.4g} lie outside [{low}, {high}]"
    return _moments(sample, (low + high) / 2, (high - low) / math.sqrt(12), coarse) or _same_again(results, again)


def _bernoulli(case: Case, results: Sequence[Any], again: Again) -> str:
    chances = _given(case, 0).astype(np.float64)
    hits = results[0].astype(np.float64)
    if not np.isin(hits, (0, 1)).all():
        return "numbers are neither 0 nor 1"
    if (hits[chances == 0] == 1).any() or (hits[chances == 1] == 0).any():
        return "numbers that are certain are not so"
    spread = math.sqrt(float((chances * (1 - chances)).sum()))
    if abs(float((hits - chances).sum())) > 6 * spread + 1e-6:
        return f"numbers hold {hits.sum():.0f} ones, not {chances.sum():.0f} ± {6 * spread:.1f}"
    return _same_again(results, again)


def _multinomial(case: Case, results: Sequence[Any], again: Again) -> str:
    logs = _given(case, 0).astype(np.float64)
    sample = results[0]
    classes = logs.shape[1]
    if sample.size and not (sample.min() >= 0 and sample.max() < classes):
        return f"numbers from {sample.min()} to {sample.max()} are no classes of {classes}"
    weights = np.exp(logs - logs.max(1, keepdims=True))
    for row, chances in zip(sample, weights / weights.sum(1, keepdims=True), strict=True):
        count = np.bincount(row, minlength=classes)
        far = 6 * np.sqrt(chances * (1 - chances) * len(row)) + 1
        if (np.abs(count - chances * len(row)) > far).any():
            return f"numbers of the classes are {count.tolist()}, the chances {chances.round(3).tolist()}"
    return _same_again(results, again)


def _given(case: Case, index: int) -> Array:
    item = case.inputs[index] if index < len(case.inputs) else None
    return np.zeros(()) if item is None else np.asarray(item.array)


def _trains(case: Case) -> bool:
    if case.opset >= 12:
        return bool(_given(case, 2))
    return case.opset < 7 and not case.attributes.get("is_test", 0)


def _dropout(case: Case, results: Sequence[Any], again: Again) -> str:
    data = _given(case, 0)
    portion = float(case.attributes.get("ratio", 0.5))
    if case.opset >= 12:
        portion = float(_given(case, 1)) if len(case.inputs) > 1 and case.inputs[1] is not None else 0.5
    output = results[0].astype(np.float64)
    scaled = data.astype(np.float64) / (1 - portion)
    tolerance = {"float": 1e-5, "double": 1e-5}.get(case.dtype, 2e-2)
    limit = _largest(data.dtype)
    kept = np.isclose(output, scaled, rtol=tolerance, atol=1e-6) | (np.abs(scaled) > limit)
    if not (kept | (output == 0)).all():
        return "numbers are neither 0 nor the scaled operand"
    if len(results) > 1:
        mask = results[1].astype(bool)
        if not np.where(mask, kept, output == 0).all():
            return "numbers of the mask do not say what was kept"
    else:
        mask = output != 0
    open_ = np.ones(data.shape, bool) if len(results) > 1 else data != 0
    count, far = int(open_.sum()), 6 * math.sqrt(portion * (1 - portion) * max(int(open_.sum()), 1)) + 1
    if abs(int((mask & open_).sum()) - (1 - portion) * count) > far:
        return f"numbers kept are {int((mask & open_).sum())} of {count} at a ratio of {portion}"
    return _same_again(results, again)


def _largest(dtype: np.dtype[Any]) -> float:
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    return float(finfo(dtype).max)


_PROPERTIES: dict[str, Property] = {
    "RandomNormal": _normal,
    "RandomNormalLike": _normal,
    "RandomUniform": _uniform,
    "RandomUniformLike": _uniform,
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
    "Dropout": _dropout,
}


# Gradients


def _gradient(case: Case) -> list[Any]:
    """The forward nodes by ONNX's evaluator in float64, and central differences of the sum of y."""
    from onnx.reference import ReferenceEvaluator

    names: list[str] = [*case.attributes["xs"]]
    weights = {name: np.asarray(item.array, np.float64) for name, item in case.given.items() if item.array.dtype.kind == "f"}
    others = {name: item.array for name, item in case.given.items() if name not in weights}
    formals = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))
        for name, array in (weights | others).items()
    ]
    y: str = case.attributes["y"]
    wanted = [helper.make_tensor_value_info(y, onnx.TensorProto.DOUBLE, None)]
    graph = helper.make_graph(list(case.around.before), "forward", formals, wanted)
    opset = case.around.opset or 21
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))

    def forward(values: dict[str, Array]) -> Array:
        outputs: Any = evaluator.run(None, values | others)
        return np.asarray(outputs[0])

    kind = next(item.array.dtype for item in case.given.values() if item.array.dtype.kind == "f")
    found = []
    for name in names:
        slopes = np.zeros(weights[name].shape)
        for place in np.ndindex(*slopes.shape):
            step = np.zeros(slopes.shape)
            step[place] = 1e-5
            above, below = (forward(weights | {name: weights[name] + sign * step}).sum() for sign in (1, -1))
            slopes[place] = (above - below) / 2e-5
        # A difference of numbers near y over 2e-5 has some five digits less than they have.
        found.append(Wanted(slopes.astype(np.float32), kind))
    return [forward(weights).astype(kind), *found] if y in case.around.results else found


def _kept(case: Case) -> list[Any]:
    """Dropout before 7 at inference; in training the types and shapes are the same."""
    data = _given(case, 0)
    return [data, np.ones_like(data)][: len(case.outputs)]


def _optional(case: Case) -> list[Any]:
    """What an optional holds, and whether it does: onnx.reference takes an absent one for present."""
    held = case.given.get("in0")
    value = held.array if held is not None else None
    told = {"has": np.array(value is not None), "inner": value, "out0": value}
    return [told[name] for name in case.around.results or ("out0",)]


def _is_taken(case: Case) -> bool:
    """Whether onnxruntime takes the map from Python."""
    held = case.given["in0"]
    assert held.type is not None
    return bool(held.array) and held.type.map_type.value_type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def _mapped(case: Case) -> list[Any]:
    """DictVectorizer and CastMap: what a map holds, in a row."""
    held = case.given["in0"]
    assert held.type is not None
    values = held.type.map_type.value_type.tensor_type.elem_type
    if case.op == "DictVectorizer":
        words = next(value for name, value in case.attributes.items() if name.endswith("vocabulary"))
        return [np.array([[held.array.get(word, 0) for word in words]], helper.tensor_dtype_to_np_dtype(values))]
    kind = case.attributes.get("cast_to", "TO_FLOAT")
    sparse = case.attributes.get("map_form") == "SPARSE"
    keys = range(case.attributes["max_map"]) if sparse else sorted(held.array)
    empty = "0.f" if kind == "TO_STRING" else 0
    row = [held.array.get(key, empty) for key in keys]
    return [np.array([row], object) if kind == "TO_STRING" else np.array([row], "f" if kind == "TO_FLOAT" else np.int64)]


def _window_of_channels(case: Case) -> list[Any]:
    """LRN, each window summed for itself: onnxruntime keeps a running sum, which a large number spoils for what follows."""
    data = _given(case, 0)
    size, alpha, beta, bias = (case.attributes.get(name, default) for name, default in _LRN_DEFAULTS.items())
    before = (size - 1) // 2
    padding = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (data.ndim - 2)]
    squares = np.pad(data.astype(np.float64) ** 2, padding)
    summed = sum(squares[:, start : start + data.shape[1]] for start in range(size))
    return [(data / (bias + alpha / size * summed) ** beta).astype(data.dtype)]


_LRN_DEFAULTS = {"size": 1, "alpha": 0.0001, "beta": 0.75, "bias": 1.0}

_FORMULAS: dict[tuple[str, str], Callable[[Case], list[Any]]] = {
    ("ai.onnx.preview.training", "Gradient"): _gradient,
    ("ai.onnx", "Dropout"): _kept,
    ("ai.onnx", "Optional"): _optional,
    ("ai.onnx", "LRN"): _window_of_channels,
    ("ai.onnx.ml", "DictVectorizer"): _mapped,
    ("ai.onnx.ml", "CastMap"): _mapped,
}
