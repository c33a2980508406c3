"""Conversion to and from the element types of less than a byte (`core.narrow`), and to float8e8m0, in core primitives."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.narrow import NARROW, Narrow
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import describe


def numbers(g: ProgramBuilder, x: Value) -> Value:
    """``x`` as numbers to compute with: narrow integers in int8 or uint8, narrow floats in float32; others as they are."""
    if not x.element:
        return x
    narrow = NARROW[x.element]
    plain = x.tagged("")
    return _decoded(g, plain, narrow) if narrow.is_float else plain


def to_narrow(g: ProgramBuilder, x: Value, element: str) -> Value:
    """``x``, of a dtype that says all, as ``element``, the way ml_dtypes and ONNX's reference evaluator convert.

    Integers keep their low bits. Floats are truncated first; those beyond int32, infinities and NaN become 0. To a small
    float numbers are rounded to nearest, ties to even, and saturate; NaN becomes -0.
    """
    narrow = NARROW[element]
    if narrow.is_float:
        return _encoded(g, x, narrow).tagged(element)
    if x.dtype.is_floating_point:
        wide = x if x.dtype is torch.float64 else g.cast(x, torch.float32)
        fits = g.binary("lt", g.unary("abs", wide), float(1 << 31))
        x = g.cast(g.where(fits, wide, 0.0), torch.int32)
    mask = (1 << narrow.bits) - 1
    low = g.binary("bitwise_and", g.cast(x, narrow.storage), mask)
    if narrow.signed:
        sign = 1 << (narrow.bits - 1)
        low = g.sub(g.binary("bitwise_xor", low, sign), sign)
    return low.tagged(element)


def reread(g: ProgramBuilder, x: Value, dtype: torch.dtype, element: str) -> Value:
    """The bits of ``x`` as another element type of the same width, where one of the two is of less than a byte.

    Raises:
        Refusal: O2M-C006 where the widths differ.
    """
    widths = [NARROW[name].bits if name else 8 * kind.itemsize for name, kind in ((x.element, x.dtype), (element, dtype))]
    if widths[0] != widths[1]:
        names = [describe(x.dtype, x.element), describe(dtype, element)]
        raise refuse("O2M-C006", f"{names[0]} read as {names[1]}, which has another width", case=names[1])
    codes = x.tagged("")
    if NARROW[x.element].signed:
        codes = g.binary("bitwise_and", g.call("aten.view.dtype", codes, torch.uint8), (1 << widths[0]) - 1)
    return codes.tagged(element) if NARROW[element].is_float else to_narrow(g, codes, element)


def _decoded(g: ProgramBuilder, codes: Value, narrow: Narrow) -> Value:
    """A small float's bits put at the ends of a float32's are its number but for the difference of the biases."""
    code = g.cast(codes, torch.int32)
    magnitude = g.binary("bitwise_and", code, (1 << (narrow.bits - 1)) - 1)
    sign = g.binary("bitwise_and", code, 1 << (narrow.bits - 1))
    bits = g.binary(
        "bitwise_or",
        g.binary("bitwise_left_shift", magnitude, 23 - narrow.mantissa),
        g.binary("bitwise_left_shift", sign, 32 - narrow.bits),
    )
    scaled: Value = g.call("aten.view.dtype", bits, torch.float32)
    return g.mul(scaled, 2.0 ** (127 - narrow.bias))


def _encoded(g: ProgramBuilder, x: Value, narrow: Narrow) -> Value:
    wide = g.cast(x, torch.float32)  # doubles too: onnxruntime, PyTorch and ml_dtypes all round them twice
    wide = g.where(g.unary("isnan", wide), -0.0, g.call("aten.clamp.default", wide, -narrow.largest, narrow.largest))
    bits = g.binary("bitwise_and", g.call("aten.view.dtype", wide, torch.int32), 0x7F800000)
    power = g.maximum(g.call("aten.view.dtype", bits, torch.float32), 2.0 ** (1 - narrow.bias))
    step = g.mul(power, 2.0**-narrow.mantissa)
    rounded = g.mul(g.unary("round", g.div(wide, step)), step)
    scaled = g.call("aten.view.dtype", g.mul(rounded, 2.0 ** (narrow.bias - 127)), torch.int32)
    magnitude = g.binary("bitwise_right_shift", scaled, 23 - narrow.mantissa)
    magnitude = g.binary("bitwise_and", magnitude, (1 << (narrow.bits - 1)) - 1)
    sign = g.binary("bitwise_and", g.binary("bitwise_right_shift", scaled, 32 - narrow.bits), 1 << (narrow.bits - 1))
    return g.cast(g.binary("bitwise_or", magnitude, sign), torch.uint8)


_ROUNDS_UP = {"up": 1, "nearest": 1 << 22}
"""The least mantissa of a float32 that is rounded up to the next power of two."""


def to_e8m0(g: ProgramBuilder, x: Value, *, saturate: bool, round_mode: str) -> Value:
    """``x`` as a power of two in float8e8m0; ``round_mode`` is up, down or nearest (ties away from zero).

    NaN stays; what is below 2^-127 (negative numbers too) or above 2^127 becomes these if it saturates, else NaN, as the
    table of https://onnx.ai/onnx/operators/onnx__Cast.html says and onnxruntime does.

    Raises:
        Refusal: O2M-C005 for another ``round_mode``.
    """
    if round_mode not in ("up", "down", "nearest"):
        raise refuse("O2M-C005", f"there is no round_mode {round_mode!r}", case="round_mode")
    x = g.cast(x, torch.float32)
    tiny = g.binary("lt", x, 2.0**-126)
    bits = g.call("aten.view.dtype", g.where(tiny, g.mul(x, 2.0**64), x), torch.int32)
    code = g.binary("bitwise_right_shift", bits, 23)
    if round_mode in _ROUNDS_UP:
        up = g.binary("ge", g.binary("bitwise_and", bits, (1 << 23) - 1), _ROUNDS_UP[round_mode])
        code = g.add(code, g.cast(up, torch.int32))
    code = g.sub(code, g.mul(g.cast(tiny, torch.int32), 64))
    low, high = (0, 254) if saturate else (255, 255)
    code = g.where(g.binary("lt", x, 2.0**-127), low, code)
    code = g.where(g.binary("gt", x, 2.0**127), high, code)
    code = g.where(g.unary("isnan", x), 255, code)
    result: Value = g.call("aten.view.dtype", g.cast(code, torch.uint8), torch.float8_e8m0fnu)
    return result
