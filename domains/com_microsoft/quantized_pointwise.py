"""Operators on quantized tensors that compute element by element, and those that only carry elements.

onnxruntime reads functions of one operand from a table of all 256 codes: the numbers are those of the same function on
dequantized numbers. Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import activation, softmax
from onnx2torch_mlir.families.indexing import axis_in
from onnx2torch_mlir.families.quantization import dequantize, quantize, saturated


def number(g: ProgramBuilder, parameter: Value | None) -> Value:
    """A parameter of the whole tensor in float32, of rank 0; an absent zero point is 0.

    Raises:
        Refusal: O2M-C006 where it is no single number.
    """
    if parameter is None:
        return g.known(torch.zeros(()), torch.float32)
    if parameter.rank > 1:
        raise refuse("O2M-C006", f"a parameter of rank {parameter.rank} for a whole tensor", case="scale")
    return g.cast(g.reshape(parameter, []), torch.float32)


def add(
    g: ProgramBuilder,
    a: Value,
    a_scale: Value,
    a_zero_point: Value | None,
    b: Value,
    b_scale: Value,
    b_zero_point: Value | None,
    c_scale: Value,
    c_zero_point: Value | None = None,
) -> Value:
    """The sum of the numbers that ``a`` and ``b`` stand for; the order of the float operations is onnxruntime's.

    It rounds after the zero point is added, and multiplies and adds with one rounding, as processors with such an
    instruction do.
    """
    scale = number(g, c_scale)
    of_a, of_b = g.div(number(g, a_scale), scale), g.div(number(g, b_scale), scale)
    shift = _fused(g, of_a, number(g, a_zero_point), g.mul(of_b, number(g, b_zero_point)))
    return saturated(g, _fused(g, a, of_a, _fused(g, b, of_b, g.sub(number(g, c_zero_point), shift))), None, a.dtype)


def _fused(g: ProgramBuilder, a: Value, b: Value, c: Value) -> Value:
    """``a * b + c`` of float32 or small integers, rounded once: in float64 the product is exact."""
    wide = [g.cast(item, torch.float64) for item in (a, b, c)]
    return g.cast(g.add(g.mul(wide[0], wide[1]), wide[2]), torch.float32)


def mul(
    g: ProgramBuilder,
    a: Value,
    a_scale: Value,
    a_zero_point: Value | None,
    b: Value,
    b_scale: Value,
    b_zero_point: Value | None,
    c_scale: Value,
    c_zero_point: Value | None = None,
) -> Value:
    """The product of the numbers that ``a`` and ``b`` stand for; it rounds after the zero point is added."""
    factor = g.div(g.mul(number(g, a_scale), number(g, b_scale)), number(g, c_scale))
    left = g.sub(g.cast(a, torch.float32), number(g, a_zero_point))
    right = g.sub(g.cast(b, torch.float32), number(g, b_zero_point))
    return saturated(g, _fused(g, g.mul(left, right), factor, number(g, c_zero_point)), None, a.dtype)


def leaky_relu(
    g: ProgramBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    alpha: float = 0.01,
) -> Value:
    """LeakyRelu of the numbers that ``x`` stands for."""
    result = activation.leaky_relu(g, dequantize(g, x, x_scale, x_zero_point), alpha=alpha)
    return quantize(g, result, y_scale, y_zero_point, dtype=x.dtype)


def sigmoid(
    g: ProgramBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
) -> Value:
    """Sigmoid of the numbers that ``x`` stands for."""
    result = g.unary("sigmoid", dequantize(g, x, x_scale, x_zero_point))
    return quantize(g, result, y_scale, y_zero_point, dtype=x.dtype)


def softmax_quantized(
    g: ProgramBuilder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    axis: int = -1,
    opset: int,
) -> Value:
    """Softmax of the numbers that ``x`` stands for, as of ``opset`` (below 13 over all axes from ``axis`` on).

    onnxruntime multiplies by the whole part of 1 / y_scale.
    """
    numbers = g.mul(g.cast(x, torch.float32), number(g, x_scale))
    kind = softmax.softmax if opset >= 13 else softmax.flattened
    steps = g.unary("floor", g.div(1.0, number(g, y_scale)))
    result = g.mul(kind(g, numbers, axis=axis, kind="softmax"), steps)
    return saturated(g, result, number(g, y_zero_point), x.dtype)


def concat(g: ProgramBuilder, y_scale: Value, y_zero_point: Value, *inputs: Value, axis: int) -> Value:
    """``inputs`` (a tensor, its scale and its zero point, again and again) one after the other along ``axis``.

    Raises:
        Refusal: O2M-C005 for an axis out of range, or where tensors have no parameters.
    """
    if len(inputs) % 3 or not inputs:
        raise refuse("O2M-C005", f"{len(inputs)} inputs, which are not three for each tensor", case="inputs")
    parts = [
        quantize(g, dequantize(g, x, scale, zero_point), y_scale, y_zero_point)
        for x, scale, zero_point in zip(inputs[::3], inputs[1::3], inputs[2::3], strict=True)
    ]
    return g.cat(parts, axis_in(axis, inputs[0].rank))


def where(
    g: ProgramBuilder,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    y: Value,
    y_scale: Value,
    y_zero_point: Value,
    z_scale: Value,
    z_zero_point: Value,
) -> Value:
    """What ``x`` stands for where ``condition`` holds, else what ``y`` stands for."""
    branches = [dequantize(g, x, x_scale, x_zero_point), dequantize(g, y, y_scale, y_zero_point)]
    return quantize(g, g.where(condition, *branches), z_scale, z_zero_point)
