"""The activation functions that RNN, GRU and LSTM name in their ``activations`` attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

Activation = Callable[[ProgramBuilder, Value], Value]


def _affine(g: ProgramBuilder, x: Value, alpha: float, beta: float) -> Value:
    return g.add(g.mul(x, alpha), beta)


def _leaky_relu(g: ProgramBuilder, x: Value, alpha: float) -> Value:
    return g.where(g.binary("lt", x, 0.0), g.mul(x, alpha), x)


def _thresholded_relu(g: ProgramBuilder, x: Value, alpha: float) -> Value:
    return g.where(g.binary("gt", x, alpha), x, 0.0)


def _scaled_tanh(g: ProgramBuilder, x: Value, alpha: float, beta: float) -> Value:
    return g.mul(g.unary("tanh", g.mul(x, beta)), alpha)


def _hard_sigmoid(g: ProgramBuilder, x: Value, alpha: float, beta: float) -> Value:
    return g.call("aten.clamp.default", _affine(g, x, alpha, beta), 0.0, 1.0)


def _elu(g: ProgramBuilder, x: Value, alpha: float) -> Value:
    return g.where(g.binary("lt", x, 0.0), g.mul(g.unary("expm1", x), alpha), x)


def _softsign(g: ProgramBuilder, x: Value) -> Value:
    return g.div(x, g.add(g.unary("abs", x), 1.0))


def _softplus(g: ProgramBuilder, x: Value) -> Value:
    return g.add(g.maximum(x, 0.0), g.unary("log1p", g.unary("exp", g.unary("neg", g.unary("abs", x)))))


def _primitive(g: ProgramBuilder, x: Value, name: str) -> Value:
    return g.unary(name, x)


_FUNCTIONS: dict[str, tuple[Callable[..., Value], tuple[float, ...]]] = {
    "relu": (partial(_primitive, name="relu"), ()),
    "tanh": (partial(_primitive, name="tanh"), ()),
    "sigmoid": (partial(_primitive, name="sigmoid"), ()),
    "affine": (_affine, (1.0, 0.0)),
    "leakyrelu": (_leaky_relu, (0.01,)),
    "thresholdedrelu": (_thresholded_relu, (1.0,)),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "hardsigmoid": (_hard_sigmoid, (0.2, 0.5)),
    "elu": (_elu, (1.0,)),
    "softsign": (_softsign, ()),
    "softplus": (_softplus, ()),
}
"""Name in lower case -> function and the defaults of its parameters (alpha, then beta)."""


def activations_of(
    defaults: Sequence[str],
    directions: int,
    names: Sequence[str] | None,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
) -> list[tuple[Activation, ...]]:
    """The activations of each direction; ``alphas`` and ``betas`` are consumed by the functions that have them.

    Fewer names than needed count for both directions; more, as in RNN's own default, are left over.

    Raises:
        Refusal: O2M-C005 for a name that ONNX does not have, or the wrong number of names.
    """
    names = list(names) if names else list(defaults) * directions
    if len(names) == len(defaults) and directions == 2:
        names = names * 2
    names = names[: len(defaults) * directions]
    if len(names) != len(defaults) * directions:
        raise refuse(
            "O2M-C005", f"{len(names)} activations for {directions} x {len(defaults)} functions", case="activations"
        )
    given = iter(alphas or ()), iter(betas or ())
    functions = [_activation(name, given) for name in names]
    return [tuple(functions[i * len(defaults) : (i + 1) * len(defaults)]) for i in range(directions)]


def _activation(name: str, given: tuple[Iterator[float], Iterator[float]]) -> Activation:
    if name.lower() not in _FUNCTIONS:
        raise refuse("O2M-C005", f"there is no activation {name!r}", case="activations")
    function, defaults = _FUNCTIONS[name.lower()]
    parameters = {
        key: next(values, default)
        for key, values, default in zip(("alpha", "beta"), given, defaults, strict=False)
    }
    return partial(function, **parameters)
