"""LinearRegressor and LinearClassifier."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.domains.ai_onnx_ml.rows import as_rows, integer_labels, label_at
from onnx2torch_mlir.domains.ai_onnx_ml.scores import opposed, transformed


def linear_regressor(
    g: ProgramBuilder,
    x: Value,
    *,
    coefficients: list[float] | None = None,
    intercepts: list[float] | None = None,
    targets: int = 1,
    post_transform: str = "NONE",
) -> Value:
    """``x @ coefficients + intercepts`` [observations, targets] in float32; intercepts of another count are ignored.

    Source: ONNX LinearRegressor.

    Raises:
        Refusal: O2M-C005 where the coefficients are not as many as targets times features.
    """
    used = intercepts if intercepts and len(intercepts) == targets else None
    return transformed(g, affine(g, x, coefficients or [], used, targets), post_transform)


def linear_classifier(
    g: ProgramBuilder,
    x: Value,
    *,
    coefficients: list[float],
    intercepts: list[float] | None = None,
    classlabels_ints: list[int] | None = None,
    classlabels_strings: list[str] | None = None,
    post_transform: str = "NONE",
) -> tuple[Value, Value]:
    """Labels [observations] and scores [observations, classes]; one row of coefficients decides by its sign.

    The scores of two classes from one row are ``1 - score`` and ``score``, and not transformed, as in onnxruntime.

    Source: ONNX LinearClassifier.

    Raises:
        Refusal: O2M-C003 for string labels, O2M-C005 where the attributes do not fit together.
    """
    labels = integer_labels(classlabels_ints, classlabels_strings)
    count = len(intercepts) if intercepts else len(labels)
    scores = affine(g, x, coefficients, intercepts or None, count)
    if count == 1:
        if len(labels) != 2:
            raise refuse("O2M-C003", f"one row of coefficients for {len(labels)} classes", case="classlabels_ints")
        above = g.reshape(g.binary("gt", scores, 0), [scores.shape[0]])
        label = g.where(above, g.scalar(labels[1], torch.int64), labels[0])
        return label, opposed(g, scores, post_transform, complement=True)
    if len(labels) < count:
        raise refuse("O2M-C005", f"{len(labels)} labels for {count} classes", case="classlabels_ints")
    label = label_at(g, labels, g.call("aten.argmax.default", scores, 1, False))
    return label, transformed(g, scores, post_transform)


def affine(g: ProgramBuilder, x: Value, coefficients: Sequence[float], intercepts: Sequence[float] | None, count: int) -> Value:
    """``x @ coefficients + intercepts`` [observations, count] in float32, coefficients [count, features].

    Raises:
        Refusal: O2M-C005 where the coefficients are not as many as ``count`` times the features.
    """
    rows = as_rows(g, x)
    if count < 1 or not coefficients or len(coefficients) % count:
        raise refuse("O2M-C005", f"{len(coefficients)} coefficients for {count} targets", case="coefficients")
    matrix = torch.tensor(coefficients, dtype=torch.float32).reshape(count, -1)
    g.require_equal(rows.shape[1], matrix.shape[1], "features of the model and of the observations")
    result = g.matmul(g.cast(rows, torch.float32), g.known(matrix.t().contiguous()))
    return g.add(result, g.known(torch.tensor(list(intercepts), dtype=torch.float32))) if intercepts else result
