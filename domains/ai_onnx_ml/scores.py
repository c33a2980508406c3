"""The transforms that classifiers and regressors end with, as onnxruntime computes them: in float32.

Source: ``post_transform`` of ONNX's ai.onnx.ml operators; its numbers are nowhere defined but in onnxruntime.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""In the order of TreeEnsemble's numbers."""

NEARLY_ZERO = 1e-7

_A = torch.tensor(0.147, dtype=torch.float32)
PROBIT_SHIFT = float(2 / (torch.tensor(3.14159, dtype=torch.float32) * _A))
PROBIT_SCALE = float(1 / _A)
"""The constants of Winitzki's approximation with onnxruntime's rounding."""


def check_transform(name: str) -> None:
    """Raise O2M-C005 for a transform that ONNX does not know."""
    if name not in TRANSFORMS:
        raise refuse("O2M-C005", f"{name!r} is not one of {', '.join(TRANSFORMS)}", case="post_transform")


def transformed(g: ProgramBuilder, scores: Value, name: str) -> Value:
    """``scores`` [observations, classes] in float32, transformed; a single column only by PROBIT.

    Raises:
        Refusal: O2M-C005 for another transform.
    """
    check_transform(name)
    scores = g.cast(scores, torch.float32)
    if name == "PROBIT":
        return probit(g, scores)
    if name == "NONE" or scores.shape[1] == 1:
        return scores
    if name == "LOGISTIC":
        return g.unary("sigmoid", scores)
    return g.softmax(scores, 1) if name == "SOFTMAX" else softmax_zero(g, scores)


def softmax_zero(g: ProgramBuilder, scores: Value) -> Value:
    """Softmax along axis 1 that leaves zeros out of the sum and (almost) zero."""
    largest = g.amax(scores, [1], keepdim=True)
    counted = g.binary("gt", g.unary("abs", scores), NEARLY_ZERO)
    powers = g.unary("exp", g.sub(scores, largest))
    rest = g.mul(scores, g.unary("exp", g.unary("neg", largest)))
    total = g.sum(g.where(counted, powers, 0.0), [1], keepdim=True)
    return g.div(g.where(counted, powers, rest), total)


def probit(g: ProgramBuilder, scores: Value) -> Value:
    """The quantile of the normal distribution, by Winitzki's approximation of the inverse error function."""
    x = g.sub(g.mul(scores, 2.0), 1.0)
    logarithm = g.unary("log", g.mul(g.sub(1.0, x), g.add(x, 1.0)))
    half = g.add(g.mul(logarithm, 0.5), PROBIT_SHIFT)
    root = g.unary("sqrt", g.sub(g.mul(half, half), g.mul(logarithm, PROBIT_SCALE)))
    magnitude = g.unary("sqrt", g.sub(root, half))
    return g.mul(g.where(g.binary("lt", x, 0), g.unary("neg", magnitude), magnitude), 2.0**0.5)


def opposed(g: ProgramBuilder, score: Value, name: str, *, complement: bool) -> Value:
    """[observations, 2] from the one score of a binary classifier: the other class has ``1 - score`` or ``-score``.

    LOGISTIC takes the opposite and transforms both, the other transforms leave them as they are.

    Raises:
        Refusal: O2M-C003 for PROBIT, after which onnxruntime leaves one of the two columns undefined.
    """
    check_transform(name)
    if name == "PROBIT":
        raise refuse(
            "O2M-C003", "PROBIT of a binary classifier with one score gives no second score", case="post_transform=PROBIT"
        )
    score = g.cast(score, torch.float32)
    if name == "LOGISTIC":
        return g.unary("sigmoid", g.cat([g.unary("neg", score), score], 1))
    return g.cat([g.sub(1.0, score) if complement else g.unary("neg", score), score], 1)
