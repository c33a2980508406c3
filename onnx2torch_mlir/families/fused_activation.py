"""Activations that onnxruntime folds into the operator before them, named by an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Unpack

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import activation
from onnx2torch_mlir.families.convolution import convolve
from onnx2torch_mlir.families.matmul import gemm
from onnx2torch_mlir.families.windows import PaddedConvAttributes

Activation = Callable[..., Value]


def _primitive(g: ProgramBuilder, x: Value, *, name: str) -> Value:
    return g.unary(name, x)


def _clamped(g: ProgramBuilder, x: Value, *, low: float, high: float) -> Value:
    return activation.clip_attribute(g, x, min=low, max=high)


_PLAIN: dict[str, tuple[Activation, tuple[str, ...]]] = {
    "Relu": (partial(_primitive, name="relu"), ()),
    "Sigmoid": (partial(_primitive, name="sigmoid"), ()),
    "Tanh": (partial(_primitive, name="tanh"), ()),
    "LeakyRelu": (activation.leaky_relu, ("alpha",)),
    "HardSigmoid": (activation.hard_sigmoid, ("alpha", "beta")),
}

_OF_CONV: dict[str, tuple[Activation, tuple[str, ...]]] = {
    **_PLAIN,
    "Clip": (_clamped, ("low", "high")),
    "HardSwish": (activation.hard_swish, ()),
}
"""Name -> function and its parameters, in the order of ``activation_params``."""

_OF_GEMM: dict[str, tuple[Activation, tuple[str, ...]]] = {
    **_PLAIN,
    "Celu": (activation.celu, ("alpha",)),
    "Elu": (activation.elu, ("alpha",)),
    "ParametricSoftplus": (activation.parametric_softplus, ("alpha", "beta")),
    "ScaledTanh": (activation.scaled_tanh, ("alpha", "beta")),
    "Selu": (activation.selu, ("alpha", "gamma")),
    "Softplus": (activation.softplus, ()),
    "Softsign": (activation.softsign, ()),
    "ThresholdedRelu": (activation.thresholded_relu, ("alpha",)),
}
"""Name -> function and those of its parameters that attributes ``activation_…`` state."""


def _activated(
    g: ProgramBuilder,
    x: Value,
    name: str | None,
    known: Mapping[str, tuple[Activation, tuple[str, ...]]],
    given: Mapping[str, float | None] | Sequence[float],
) -> Value:
    """The activation ``name`` of ``x``; its parameters by name, or in their order.

    Raises:
        Refusal: O2M-C005 for another activation, or a parameter that is missing.
    """
    if not name:
        return x
    if name not in known:
        raise refuse("O2M-C005", f"onnxruntime folds no activation {name!r} here", case=f"activation={name}")
    function, parameters = known[name]
    values = given if isinstance(given, Mapping) else dict(zip(parameters, given, strict=False))
    missing = [parameter for parameter in parameters if values.get(parameter) is None]
    if missing:
        raise refuse("O2M-C005", f"activation {name} lacks its {missing[0]}", case=f"activation={name}")
    return function(g, x, **{parameter: values[parameter] for parameter in parameters})


def activated_convolution(
    g: ProgramBuilder,
    x: Value,
    w: Value,
    b: Value | None = None,
    z: Value | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] = (),
    **window: Unpack[PaddedConvAttributes],
) -> Value:
    """`convolve`, plus ``z`` of the result's shape, then the activation.

    Source: com.microsoft FusedConv; onnxruntime's ``fused_activation.cc`` says which parameters each activation has.
    """
    result = convolve(g, x, w, b, **window)
    if z is not None:
        for size, other in zip(result.shape, z.shape, strict=True):
            g.require_equal(size, other, "sizes of a convolution and of what is added to it")
        result = g.add(result, z)
    return _activated(g, result, activation, _OF_CONV, activation_params)


def activated_gemm(
    g: ProgramBuilder,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """`gemm`, then the activation.

    Source: com.microsoft FusedGemm.
    """
    result = gemm(g, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    given = {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma}
    return _activated(g, result, activation, _OF_GEMM, given)
