"""Products of quantized matrices: exact sums in int32, rescaled to float or to 8 bits.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.matmul import along, matmul_integer
from onnx2torch_mlir.families.quantization import dynamic_quantize, requantize


def matmul_integer_to_float(
    g: ProgramBuilder,
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero_point: Value | None = None,
    b_zero_point: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """(a - a_zero_point) (b - b_zero_point) * (a_scale * b_scale) + bias; parameters of ``b`` may be per column."""
    sums = matmul_integer(g, a, b, a_zero_point, b_zero_point)
    factor = g.mul(along(g, a_scale, a, -2), along(g, b_scale, b, -1))
    result = g.mul(g.cast(sums, a_scale.dtype), factor)
    return result if bias is None else g.add(result, bias)


def dynamic_quantize_matmul(
    g: ProgramBuilder,
    a: Value,
    b: Value,
    b_scale: Value,
    b_zero_point: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """The product of ``a`` (float), quantized over the range of all its elements, and ``b`` (8 bits)."""
    quantized, scale, zero_point = dynamic_quantize(g, a)
    return matmul_integer_to_float(g, quantized, b, scale, b_scale, zero_point, b_zero_point, bias)


def matmul_integer16(g: ProgramBuilder, a: Value, b: Value) -> Value:
    """The product of 16-bit matrices in 32 bits."""
    return matmul_integer(g, a, b)


def gemm(
    g: ProgramBuilder,
    a: Value,
    a_scale: Value,
    a_zero_point: Value,
    b: Value,
    b_scale: Value,
    b_zero_point: Value,
    c: Value | None = None,
    y_scale: Value | None = None,
    y_zero_point: Value | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """(A' - a_zero_point) (B' - b_zero_point) + C in int32, times alpha * a_scale * b_scale; quantized by ``y_scale``.

    Parameters of ``b`` may be per column of B'. Without ``y_zero_point`` the result is float.

    Raises:
        Refusal: O2M-C006 for operands that are no matrices.
    """
    if a.rank != 2 or b.rank != 2:
        raise refuse("O2M-C006", f"QGemm of operands of ranks {a.rank} and {b.rank}")
    left = g.transpose(a, 0, 1) if transA else a
    right = g.transpose(b, 0, 1) if transB else b
    sums = matmul_integer(g, left, right, a_zero_point, b_zero_point)
    if c is not None:
        sums = g.add(sums, c)
    factor = g.mul(g.mul(along(g, a_scale, left, -2), along(g, b_scale, right, -1)), alpha)
    if y_scale is None or y_zero_point is None:
        return g.mul(g.cast(sums, torch.float32), factor)
    factor = g.div(factor, along(g, y_scale, left, -2))
    return requantize(g, sums, factor, along(g, y_zero_point, left, -2), y_zero_point.dtype)
