"""SVMRegressor and SVMClassifier, with the kernels and the probabilities of libsvm."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.ai_onnx_ml.coupling import coupled
from onnx2torch_mlir.domains.ai_onnx_ml.linear import affine
from onnx2torch_mlir.domains.ai_onnx_ml.rows import as_rows, integer_labels, label_at
from onnx2torch_mlir.domains.ai_onnx_ml.scores import opposed, transformed

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def svm_regressor(
    g: ProgramBuilder,
    x: Value,
    *,
    coefficients: list[float] | None = None,
    kernel_params: list[float] | None = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: list[float] | None = None,
    support_vectors: list[float] | None = None,
) -> Value:
    """[observations, 1] in float32; ``one_class`` gives the sign, -1 for 0. Source: ONNX SVMRegressor.

    Raises:
        Refusal: O2M-C003 for a transform (onnxruntime has none), O2M-C005 where the attributes do not fit together.
    """
    if post_transform != "NONE":
        raise refuse("O2M-C003", "SVMRegressor with a transform has no agreed meaning", case=f"post_transform={post_transform}")
    coefficients, rho = _given(coefficients, "coefficients"), _given(rho, "rho")
    if n_supports > 0:
        products = kernel(g, x, support_vectors or [], n_supports, kernel_type, kernel_params)
        result = affine(g, products, coefficients, rho[:1], 1)
    else:
        result = affine(g, x, coefficients, rho[:1], 1)
    return g.where(g.binary("gt", result, 0), 1.0, g.scalar(-1.0, torch.float32)) if one_class else result


def svm_classifier(
    g: ProgramBuilder,
    x: Value,
    *,
    classlabels_ints: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    coefficients: list[float] | None = None,
    kernel_params: list[float] | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: list[float] | None = None,
    prob_b: list[float] | None = None,
    rho: list[float] | None = None,
    support_vectors: list[float] | None = None,
    vectors_per_class: list[int] | None = None,
) -> tuple[Value, Value]:
    """Labels [observations] by vote of the pairs of classes, and scores [observations, classes or pairs].

    With ``prob_a`` and ``prob_b`` the scores are probabilities of classes, else the decision of every pair, for two classes
    with its opposite. Without support vectors it is a linear model of one row per class.

    Source: ONNX SVMClassifier; the order of pairs and of coefficients is libsvm's.

    Raises:
        Refusal: O2M-C003 for string labels, O2M-C005 where the attributes do not fit together.
    """
    labels = integer_labels(classlabels_ints, classlabels_strings)
    coefficients, rho = _given(coefficients, "coefficients"), _given(rho, "rho")
    if not vectors_per_class or sum(vectors_per_class) == 0:
        probable = bool(prob_a)
        scores = affine(g, x, coefficients, rho[:1] * len(labels), len(labels))
        return _linear_label(g, scores, labels, coefficients, probable), transformed(g, scores, post_transform)
    pairs = [(i, j) for i in range(len(labels)) for j in range(i + 1, len(labels))]
    if len(vectors_per_class) != len(labels) or len(labels) < 2 or len(rho) < len(pairs):
        raise refuse("O2M-C005", f"{len(labels)} labels, {len(vectors_per_class)} classes, {len(rho)} rho", case="rho")
    products = kernel(g, x, support_vectors or [], sum(vectors_per_class), kernel_type, kernel_params)
    weights = _pair_weights(coefficients, vectors_per_class, pairs)
    decisions = g.matmul(g.cast(products, torch.float64), g.known(weights))
    decisions = g.add(decisions, g.known(torch.tensor(rho[: len(pairs)], dtype=torch.float64)))
    label = label_at(g, labels, _most_votes(g, decisions, pairs, len(labels)))
    scores = g.cast(decisions, torch.float32)
    if prob_a:
        if prob_b is None or len(prob_a) != len(prob_b) or len(prob_a) < len(pairs):
            raise refuse("O2M-C005", "prob_a and prob_b need one number for every pair of classes", case="prob_b")
        slope, shift = (g.known(torch.tensor(item[: len(pairs)], dtype=torch.float32)) for item in (prob_a, prob_b))
        odds = g.sub(1.0, g.unary("sigmoid", g.add(g.mul(scores, slope), shift)))
        return label, transformed(g, coupled(g, odds, pairs, len(labels)), post_transform)
    if len(labels) == 2:
        return label, opposed(g, scores, post_transform, complement=post_transform != "NONE")
    return label, transformed(g, scores, post_transform)


def kernel(
    g: ProgramBuilder,
    x: Value,
    vectors: Sequence[float],
    count: int,
    kind: str,
    parameters: Sequence[float] | None,
) -> Value:
    """[observations, count]: the kernel of each observation with each support vector, in float32.

    Raises:
        Refusal: O2M-C005 for another kernel, or vectors that are not ``count`` times the features.
    """
    rows = as_rows(g, x)
    if kind not in KERNELS or not vectors or len(vectors) % count or (parameters and len(parameters) < 3):
        raise refuse("O2M-C005", f"kernel {kind} with {len(vectors)} numbers for {count} vectors", case="support_vectors")
    gamma, coef0, degree = (parameters or [0.0, 0.0, 0.0])[:3]
    if kind == "RBF":
        supports = torch.tensor(vectors, dtype=torch.float32).reshape(1, count, -1)
        g.require_equal(rows.shape[1], supports.shape[2], "features of the model and of the observations")
        apart = g.sub(g.unsqueeze(g.cast(rows, torch.float32), 1), g.known(supports))
        return g.unary("exp", g.mul(g.sum(g.mul(apart, apart), [2]), -gamma))
    products = affine(g, x, vectors, None, count)
    if kind == "LINEAR":
        return products
    moved = g.add(g.mul(products, gamma), coef0)
    if kind == "SIGMOID":
        return g.unary("tanh", moved)
    return g.binary("pow", moved, g.scalar(degree, torch.float32))


def _given(numbers: list[float] | None, name: str) -> list[float]:
    if not numbers:
        raise refuse("O2M-C005", f"attribute {name} is missing", case=name)
    return numbers


def _linear_label(
    g: ProgramBuilder, scores: Value, labels: Sequence[int], coefficients: Sequence[float], probable: bool
) -> Value:
    """The class of the largest score; of two classes the second where that is large enough, as in onnxruntime."""
    best = g.call("aten.argmax.default", scores, 1, False)
    if len(labels) == 2 and not probable:
        positive = all(weight >= 0 for weight in coefficients)
        largest = g.amax(scores, [1])
        best = g.where(g.binary("ge", largest, 0.5) if positive else g.binary("gt", largest, 0.0), 1, best)
    return label_at(g, labels, best)


def _pair_weights(
    coefficients: Sequence[float], vectors_per_class: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> torch.Tensor:
    """[vectors, pairs]: what each support vector adds to the decision of each pair, in float64.

    ``coefficients`` are [classes - 1, vectors]: for a vector of class i, row j - 1 belongs to the pair with a later class j,
    row j to that with an earlier one.
    """
    count = sum(vectors_per_class)
    classes = len(vectors_per_class)
    if len(coefficients) < (classes - 1) * count:
        raise refuse(
            "O2M-C005", f"{len(coefficients)} coefficients for {count} vectors of {classes} classes", case="coefficients"
        )
    table = torch.tensor(coefficients[: (classes - 1) * count], dtype=torch.float32).reshape(classes - 1, count).double()
    ends = torch.tensor(vectors_per_class).cumsum(0).tolist()
    spans = [slice(end - size, end) for end, size in zip(ends, vectors_per_class, strict=True)]
    weights = torch.zeros(count, len(pairs), dtype=torch.float64)
    for column, (i, j) in enumerate(pairs):
        weights[spans[i], column] = table[j - 1, spans[i]]
        weights[spans[j], column] = table[i, spans[j]]
    return weights


def _most_votes(g: ProgramBuilder, decisions: Value, pairs: Sequence[tuple[int, int]], classes: int) -> Value:
    """The class that wins most pairs, the first of several."""
    first, second = torch.zeros(len(pairs), classes), torch.zeros(len(pairs), classes)
    for row, (i, j) in enumerate(pairs):
        first[row, i] = second[row, j] = 1.0
    won = g.cast(g.binary("gt", decisions, 0), torch.float32)
    votes = g.add(g.matmul(won, g.known(first)), g.matmul(g.sub(1.0, won), g.known(second)))
    return g.call("aten.argmax.default", votes, 1, False)
