"""Arithmetic operators that are more than one primitive: division, remainders, powers, shifts, means, selection."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import wide
from onnx2torch_mlir.families.dtypes import UNSIGNED
from onnx2torch_mlir.families.elementwise import aligned, variadic


def is_inf(g: ProgramBuilder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Whether an element is an infinity of one of the signs asked for."""
    if x.dtype.itemsize == 1:
        x = g.cast(x, torch.float32)
    if detect_negative and detect_positive:
        return g.unary("isinf", x)
    if detect_negative or detect_positive:
        return g.binary("eq", x, float("inf") if detect_positive else float("-inf"))
    return g.full(x.shape, False, torch.bool)


def div(g: ProgramBuilder, a: Value, b: Value) -> Value:
    """Quotient; of integers truncated towards zero."""
    if a.dtype.is_floating_point:
        return g.div(a, b)
    if a.dtype is torch.uint64:
        quotient = wide.divide_uint64(g, g.cast(a, torch.int64), g.cast(b, torch.int64))
        return g.cast(quotient, torch.uint64)
    return wide.in_int64(g, lambda x, y: g.binary("div", x, y, rounding_mode="trunc"), a, b)


def div_legacy(g: ProgramBuilder, a: Value, b: Value, *, broadcast: int = 0, axis: int | None = None) -> Value:
    """`div` before opset 7."""
    return div(g, a, aligned(g, a, b, broadcast, axis))


def mod(g: ProgramBuilder, a: Value, b: Value, *, fmod: int = 0) -> Value:
    """Remainder with the sign of ``b`` (fmod=0) or of ``a`` (fmod=1)."""
    if a.dtype is torch.uint64:
        x, y = g.cast(a, torch.int64), g.cast(b, torch.int64)
        return g.cast(g.sub(x, g.mul(wide.divide_uint64(g, x, y), y)), torch.uint64)
    return wide.in_int64(g, lambda x, y: g.binary("fmod" if fmod else "remainder", x, y), a, b)


def pow(g: ProgramBuilder, x: Value, y: Value) -> Value:
    """``x ** y`` in the dtype of ``x``.

    An integer base with a floating exponent is computed in float64 and truncated, as in onnxruntime; a floating base
    takes the exponent in the wider of the two floating dtypes. Squares and cubes are products, as in onnxruntime.
    """
    dtype = x.dtype
    exponent = _one_number(x, y)
    if dtype.is_floating_point and exponent in (1, 2, 3):
        return g.call("aten.pow.Tensor_Scalar", x, int(exponent))
    if not dtype.is_floating_point and y.dtype.is_floating_point:
        x, y = g.cast(x, torch.float64), g.cast(y, torch.float64)
    elif not dtype.is_floating_point:
        x = wide.widen(g, x)
        y = g.cast(y, x.dtype if x.dtype.itemsize >= y.dtype.itemsize else torch.int64)
        x = g.cast(x, y.dtype)
    else:
        common = torch.promote_types(dtype, y.dtype)
        x, y = g.cast(x, common), g.cast(y, common)
    return g.cast(g.binary("pow", x, y), dtype)


def _one_number(x: Value, y: Value) -> float | None:
    """The number that all elements of ``y`` are, where it is known and does not widen ``x``."""
    contents = y.tensor if y.rank <= x.rank and all(size == 1 for size in y.shape) else None
    return None if contents is None else float(contents.reshape(-1)[0])


def bit_shift(g: ProgramBuilder, x: Value, y: Value, *, direction: str) -> Value:
    """``x`` shifted by ``y`` bits; by too many or a negative number of bits everything is shifted out.

    Raises:
        Refusal: O2M-C005 for a direction other than LEFT and RIGHT.
    """
    if direction not in ("LEFT", "RIGHT"):
        raise refuse("O2M-C005", f"direction is {direction!r}, not LEFT or RIGHT", case="direction")
    dtype, bits = x.dtype, x.dtype.itemsize * 8
    if dtype in UNSIGNED:
        x, y = g.cast(x, torch.int64), g.cast(y, torch.int64)
    fits = g.call("aten.logical_and.default", g.binary("ge", y, 0), g.binary("lt", y, bits))
    count = g.where(fits, y, 0)
    if direction == "LEFT":
        return g.cast(g.where(fits, g.binary("bitwise_left_shift", x, count), 0), dtype)
    if dtype is torch.uint64:
        half = g.binary("bitwise_and", g.binary("bitwise_right_shift", x, 1), 2**63 - 1)
        less = g.maximum(g.sub(count, 1), 0)
        shifted = g.where(g.binary("eq", count, 0), x, g.binary("bitwise_right_shift", half, less))
    else:
        shifted = g.binary("bitwise_right_shift", x, count)
    if dtype in UNSIGNED:
        return g.cast(g.where(fits, shifted, 0), dtype)
    return g.where(fits, shifted, g.binary("bitwise_right_shift", x, bits - 1))


def mean(g: ProgramBuilder, *inputs: Value) -> Value:
    """Sum of the inputs, broadcast, divided by their number."""
    total = variadic(g, *inputs, core="aten.add.Tensor")
    return total if len(inputs) == 1 else g.div(total, float(len(inputs)))


def where(g: ProgramBuilder, condition: Value, x: Value, y: Value) -> Value:
    """``x`` where ``condition`` holds, else ``y``."""
    return g.where(condition, x, y)
