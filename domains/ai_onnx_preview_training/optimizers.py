"""Adagrad, Adam and Momentum: one step of an optimizer, for any number of tensors at once.

The tensors come as all parameters, then all gradients, then each further state, and the new ones leave in that order
without the gradients. What is one number for all tensors (the adjusted learning rate) is computed in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

Step = Callable[..., tuple[Value, ...]]
F64 = torch.float64


def adagrad(
    g: ProgramBuilder,
    r: Value,
    t: Value,
    *inputs: Value,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> list[Value]:
    """New parameters and sums of squared gradients. Source: ONNX Adagrad.

    Raises:
        Refusal: O2M-C005 where the number of tensors is no multiple of three.
    """
    rate = g.div(_number(g, r), g.add(g.mul(_number(g, t), decay_factor), 1.0))

    def step(x: Value, gradient: Value, squares: Value) -> tuple[Value, ...]:
        gradient = _regularized(g, x, gradient, norm_coefficient)
        squares = g.add(squares, g.mul(gradient, gradient))
        scale = g.add(g.unary("sqrt", squares), epsilon)
        return g.sub(x, g.div(g.mul(gradient, g.cast(rate, x.dtype)), scale)), squares

    return _each(inputs, 3, step)


def adam(
    g: ProgramBuilder,
    r: Value,
    t: Value,
    *inputs: Value,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> list[Value]:
    """New parameters, averages of gradients and averages of their squares. Source: ONNX Adam.

    Raises:
        Refusal: O2M-C005 where the number of tensors is no multiple of four.
    """
    rate, count = _number(g, r), _number(g, t)
    later = g.binary("gt", count, 0.0)
    times = g.maximum(count, 1.0)
    squared, plain = (g.sub(1.0, g.binary("pow", g.scalar(base, F64), times)) for base in (beta, alpha))
    rate = g.where(later, g.div(g.mul(rate, g.unary("sqrt", squared)), plain), rate)

    def step(x: Value, gradient: Value, average: Value, squares: Value) -> tuple[Value, ...]:
        gradient = _regularized(g, x, gradient, norm_coefficient)
        average = g.add(g.mul(average, alpha), g.mul(gradient, 1 - alpha))
        squares = g.add(g.mul(squares, beta), g.mul(g.mul(gradient, gradient), 1 - beta))
        direction = g.div(average, g.add(g.unary("sqrt", squares), epsilon))
        moved = g.sub(x, g.mul(direction, g.cast(rate, x.dtype)))
        return g.mul(moved, 1 - norm_coefficient_post), average, squares

    return _each(inputs, 4, step)


def momentum(
    g: ProgramBuilder,
    r: Value,
    t: Value,
    *inputs: Value,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> list[Value]:
    """New parameters and momenta, plainly or in Nesterov's way. Source: ONNX Momentum.

    Raises:
        Refusal: O2M-C005 where the number of tensors is no multiple of three, or for an unknown mode.
    """
    if mode not in ("standard", "nesterov"):
        raise refuse("O2M-C005", f"{mode!r} is no mode of Momentum", case=f"mode={mode}")
    rate = _number(g, r)
    share = g.where(g.binary("gt", _number(g, t), 0.0), g.scalar(beta, F64), 1.0)

    def step(x: Value, gradient: Value, velocity: Value) -> tuple[Value, ...]:
        gradient = _regularized(g, x, gradient, norm_coefficient)
        velocity = g.add(g.mul(velocity, alpha), g.mul(gradient, g.cast(share, x.dtype)))
        direction = velocity if mode == "standard" else g.add(gradient, g.mul(velocity, alpha))
        return g.sub(x, g.mul(direction, g.cast(rate, x.dtype))), velocity

    return _each(inputs, 3, step)


def _number(g: ProgramBuilder, x: Value) -> Value:
    return g.cast(g.reshape(x, []), F64)


def _regularized(g: ProgramBuilder, x: Value, gradient: Value, coefficient: float) -> Value:
    return g.add(g.mul(x, coefficient), gradient) if coefficient else gradient


def _each(tensors: Sequence[Value], kinds: int, step: Step) -> list[Value]:
    """``step`` of the i-th tensor of each of ``kinds`` kinds, for every i; the results by kind."""
    if len(tensors) % kinds:
        raise refuse("O2M-C005", f"{len(tensors)} tensors are no multiple of {kinds}", case=f"tensors={len(tensors)}")
    count = len(tensors) // kinds
    results = [step(*tensors[index::count]) for index in range(count)]
    return [item for kind in zip(*results, strict=True) for item in kind]
