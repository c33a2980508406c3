"""Activations with parameters, each as few pointwise primitives as exactness allows."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import wide


def in_float32(g: ProgramBuilder, compute: Callable[[Value], Value], x: Value) -> Value:
    """``compute(x)`` in float32 where ``x`` is a narrower float, rounded once at the end."""
    return g.cast(compute(g.cast(x, torch.float32)), x.dtype) if x.dtype.itemsize < 4 else compute(x)


def _negative_part(g: ProgramBuilder, x: Value, branch: Value) -> Value:
    """``branch`` where ``x`` is below 0, else ``x`` (NaN included)."""
    return g.where(g.binary("lt", x, 0.0), branch, x)


def _exponential(g: ProgramBuilder, x: Value, alpha: float, scale: float = 1.0) -> Value:
    """alpha * (exp(x / scale) - 1) for x <= 0, which cannot overflow for larger ones."""
    capped = g.minimum(x, 0.0)
    grown = g.unary("expm1", capped if scale == 1.0 else g.div(capped, scale))
    return grown if alpha == 1.0 else g.mul(grown, alpha)


def elu(g: ProgramBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """x, or alpha * (exp(x) - 1) below 0."""
    return in_float32(g, lambda v: _negative_part(g, v, _exponential(g, v, alpha)), x)


def celu(g: ProgramBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    if alpha > 0:
        return in_float32(g, lambda v: _negative_part(g, v, _exponential(g, v, alpha, alpha)), x)

    def general(v: Value) -> Value:
        grown = g.mul(g.unary("expm1", g.div(v, alpha)), alpha)
        return g.add(g.maximum(v, 0.0), g.minimum(grown, 0.0))

    return in_float32(g, general, x)


def selu(g: ProgramBuilder, x: Value, *, alpha: float, gamma: float) -> Value:
    """gamma * elu(x)."""
    return in_float32(g, lambda v: g.mul(_negative_part(g, v, _exponential(g, v, alpha)), gamma), x)


def leaky_relu(g: ProgramBuilder, x: Value, *, alpha: float = 0.01) -> Value:
    """x, or alpha * x below 0."""
    return in_float32(g, lambda v: _negative_part(g, v, g.mul(v, alpha)), x)


def thresholded_relu(g: ProgramBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """x above alpha, else 0."""
    return in_float32(g, lambda v: g.where(g.binary("gt", v, alpha), v, 0.0), x)


def hard_sigmoid(g: ProgramBuilder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """alpha * x + beta, clamped to 0 … 1."""
    return in_float32(g, lambda v: g.call("aten.clamp.default", g.add(g.mul(v, alpha), beta), 0.0, 1.0), x)


def hard_swish(g: ProgramBuilder, x: Value) -> Value:
    """x * hard_sigmoid(x) with alpha=1/6 and beta=0.5."""
    return in_float32(g, lambda v: g.mul(v, hard_sigmoid(g, v, alpha=1 / 6, beta=0.5)), x)


def softplus(g: ProgramBuilder, x: Value) -> Value:
    """log(1 + exp(x)), written so that exp never overflows."""

    def stable(v: Value) -> Value:
        tail = g.unary("log1p", g.unary("exp", g.unary("neg", g.unary("abs", v))))
        return g.add(g.maximum(v, 0.0), tail)

    return in_float32(g, stable, x)


def parametric_softplus(g: ProgramBuilder, x: Value, *, alpha: float, beta: float) -> Value:
    """alpha * log(1 + exp(beta * x))."""
    return in_float32(g, lambda v: g.mul(softplus(g, g.mul(v, beta)), alpha), x)


def scaled_tanh(g: ProgramBuilder, x: Value, *, alpha: float, beta: float) -> Value:
    """alpha * tanh(beta * x)."""
    return in_float32(g, lambda v: g.mul(g.unary("tanh", g.mul(v, beta)), alpha), x)


def affine(g: ProgramBuilder, x: Value, *, alpha: float = 1.0, beta: float = 0.0) -> Value:
    """alpha * x + beta."""
    return in_float32(g, lambda v: g.add(g.mul(v, alpha), beta), x)


def scaled(g: ProgramBuilder, x: Value, *, scale: float = 1.0) -> Value:
    """scale * x."""
    return in_float32(g, lambda v: g.mul(v, scale), x)


def softsign(g: ProgramBuilder, x: Value) -> Value:
    """x / (1 + |x|)."""
    return in_float32(g, lambda v: g.div(v, g.add(g.unary("abs", v), 1.0)), x)


def mish(g: ProgramBuilder, x: Value) -> Value:
    """x * tanh(softplus(x))."""
    return in_float32(g, lambda v: g.mul(v, g.unary("tanh", softplus(g, v))), x)


def gelu(g: ProgramBuilder, x: Value, *, approximate: str = "none") -> Value:
    """x times the normal distribution's integral, exact or by tanh.

    Raises:
        Refusal: O2M-C005 for another approximation.
    """
    if approximate not in ("none", "tanh"):
        raise refuse("O2M-C005", f"approximate is {approximate!r}, not none or tanh", case="approximate")
    result: Value = g.call("aten.gelu.default", x, approximate=approximate)
    return result


def gelu_of_sum(g: ProgramBuilder, x: Value, bias: Value | None = None, *, approximate: str = "none") -> Value:
    """`gelu` of ``x`` plus a ``bias`` along its last axis, if there is one."""
    return gelu(g, x if bias is None else g.add(x, bias), approximate=approximate)


def swish(g: ProgramBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """x * sigmoid(alpha * x)."""
    return in_float32(g, lambda v: g.mul(v, g.unary("sigmoid", v if alpha == 1.0 else g.mul(v, alpha))), x)


def shrink(g: ProgramBuilder, x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    """x - bias above lambd, x + bias below -lambd, else 0.

    Integers are compared and shifted as floats and truncated, as ONNX's function body does by its casts.
    """
    if x.dtype.is_floating_point:
        lower = g.where(g.binary("lt", x, -lambd), g.add(x, bias), 0.0)
        return g.where(g.binary("gt", x, lambd), g.sub(x, bias), lower)
    return g.cast(shrink(g, g.cast(x, torch.float64), bias=bias, lambd=lambd), x.dtype)


def prelu(g: ProgramBuilder, x: Value, slope: Value) -> Value:
    """x, or slope * x below 0; ``slope`` is broadcast to ``x``.

    Raises:
        Refusal: O2M-C006 where the slope has more axes than ``x``.
    """
    if slope.rank > x.rank:
        raise refuse("O2M-C006", f"a slope of rank {slope.rank} is broadcast to rank {x.rank}", case="slope")

    def compute(v: Value, s: Value) -> Value:
        return g.where(g.binary("lt", v, 0), g.mul(v, s), v)

    return x if x.dtype in wide.WIDE_UNSIGNED else compute(x, slope)


def prelu_by_channel(g: ProgramBuilder, x: Value, slope: Value) -> Value:
    """Before opset 7: a slope of one dimension belongs to axis 1."""
    if slope.rank == 1 and x.rank > 2 and slope.shape[0] != 1:
        slope = g.reshape(slope, [slope.shape[0], *[1] * (x.rank - 2)])
    return prelu(g, x, slope)


def clip_attribute(g: ProgramBuilder, x: Value, *, min: float | None = None, max: float | None = None) -> Value:
    """Limits as attributes; one that a narrow float rounds to infinity, as the defaults do, does not limit."""
    limits = [None if limit is None or not _finite(limit, x.dtype) else limit for limit in (min, max)]
    return x if limits == [None, None] else g.call("aten.clamp.default", x, *limits)


def _finite(limit: float, dtype: torch.dtype) -> bool:
    return bool(torch.tensor(limit, dtype=dtype).isfinite())


def clip(g: ProgramBuilder, x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """Limits as inputs of one element; where they cross, the upper one wins."""
    if x.dtype in wide.WIDE_UNSIGNED:
        return _clip_wide(g, x, min, max)
    bounds = [_number(bound) for bound in (min, max)]
    if min is None and max is None:
        return x
    if all(bound is None or number is not None for bound, number in zip((min, max), bounds, strict=True)):
        clamped: Value = g.call("aten.clamp.default", x, *bounds)
    else:
        limits = [None if bound is None else _scalar(g, bound) for bound in (min, max)]
        clamped = g.call("aten.clamp.Tensor", x, *limits)
    return clamped


def _number(bound: Value | None) -> float | int | None:
    if bound is None or bound.tensor is None or bound.tensor.numel() != 1:
        return None
    number = bound.tensor.item()
    return None if isinstance(number, float) and math.isnan(number) else number


def _scalar(g: ProgramBuilder, bound: Value) -> Value:
    return g.reshape(bound, []) if bound.rank else bound


def _clip_wide(g: ProgramBuilder, x: Value, low: Value | None, high: Value | None) -> Value:
    if low is not None:
        x = wide.call(g, "aten.maximum.default", x, _scalar(g, low))
    return x if high is None else wide.call(g, "aten.minimum.default", x, _scalar(g, high))
