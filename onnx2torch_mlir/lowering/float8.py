"""Float8 elements in integer arithmetic: neither LLVM nor the MLIR lowerings convert them.

The formats are those of ml_dtypes and of the ONNX page on float8. What does not fit becomes what PyTorch makes of it:
infinity in e5m2, the largest number in e4m3fn, NaN in the fnuz formats.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch_mlir import ir

from onnx2torch_mlir.lowering.builder import Builder


@dataclass(frozen=True)
class _Format:
    """Bits of the mantissa, exponent bias, whether infinities exist, and whether NaN is the negative zero (fnuz)."""

    mantissa: int
    bias: int
    infinity: bool
    unsigned_zero: bool


_FORMATS = {
    torch.float8_e4m3fn: _Format(3, 7, False, False),
    torch.float8_e4m3fnuz: _Format(3, 8, False, True),
    torch.float8_e5m2: _Format(2, 15, True, False),
    torch.float8_e5m2fnuz: _Format(2, 16, False, True),
}


def is_float8(dtype: torch.dtype) -> bool:
    """Whether ``dtype`` is one of the one-byte floats."""
    return dtype in _FORMATS or dtype is torch.float8_e8m0fnu


def decode(b: Builder, x: ir.Value, dtype: torch.dtype) -> ir.Value:
    """A float8 element as f32, exactly."""
    i32 = ir.IntegerType.get_signless(32)
    f32 = b.element(torch.float32)
    byte = b.make("arith.extui", i32, b.make("arith.bitcast", ir.IntegerType.get_signless(8), x))

    def const(value: int) -> ir.Value:
        return b.int_constant(value, i32)

    nan = b.float_constant(float("nan"), f32)
    if dtype is torch.float8_e8m0fnu:
        normal = b.same("arith.shli", byte, const(23))
        bits = b.select(b.compare("eq", byte, const(0)), const(0x00400000), normal)
        return b.select(b.compare("eq", byte, const(255)), nan, b.make("arith.bitcast", f32, bits))
    form = _FORMATS[dtype]
    magnitude = b.same("arith.andi", byte, const(0x7F))
    exponent = b.same("arith.shrui", magnitude, const(form.mantissa))
    rest = b.same("arith.andi", magnitude, const((1 << form.mantissa) - 1))
    shifted = b.same("arith.shli", magnitude, const(23 - form.mantissa))
    normal = b.make("arith.bitcast", f32, b.same("arith.addi", shifted, const((127 - form.bias) << 23)))
    scale = b.float_constant(2.0 ** (1 - form.bias - form.mantissa), f32)
    tiny = b.same("arith.mulf", b.make("arith.uitofp", f32, rest), scale)
    value = b.select(b.compare("eq", exponent, const(0)), tiny, normal)
    if form.infinity:
        top = const(0x1F << 2)
        infinity = b.float_constant(float("inf"), f32)
        value = b.select(b.compare("eq", magnitude, top), infinity, value)
        value = b.select(b.compare("ugt", magnitude, top), nan, value)
    elif not form.unsigned_zero:
        value = b.select(b.compare("eq", magnitude, const(0x7F)), nan, value)
    negative = b.compare("uge", byte, const(0x80))
    value = b.select(negative, b.same("arith.negf", value), value)
    return b.select(b.compare("eq", byte, const(0x80)), nan, value) if form.unsigned_zero else value


def encode(b: Builder, x: ir.Value, dtype: torch.dtype) -> ir.Value:
    """An f32 element as float8, rounded to nearest, ties to even."""
    i8, i32 = ir.IntegerType.get_signless(8), ir.IntegerType.get_signless(32)
    f32 = b.element(torch.float32)

    def const(value: int) -> ir.Value:
        return b.int_constant(value, i32)

    bits = b.make("arith.bitcast", i32, x)
    magnitude = b.same("arith.andi", bits, const(0x7FFFFFFF))
    is_nan = b.compare("ugt", magnitude, const(0x7F800000))
    if dtype is torch.float8_e8m0fnu:
        return b.make("arith.bitcast", b.element(dtype), b.make("arith.trunci", i8, _encode_e8m0(b, magnitude)))
    form = _FORMATS[dtype]
    drop = 23 - form.mantissa
    odd = b.same("arith.andi", b.same("arith.shrui", magnitude, const(drop)), const(1))
    rounded = b.same("arith.addi", b.same("arith.addi", magnitude, const((1 << (drop - 1)) - 1)), odd)
    rebased = b.same("arith.subi", rounded, const((127 - form.bias) << 23))
    normal = b.same("arith.shrui", rebased, const(drop))
    # Below the smallest normal number the f32 adder rounds: 1.5·2^k has its last bit at the smallest subnormal.
    anchor_exponent = (127 - form.bias) + drop + 1
    anchor = b.make("arith.bitcast", f32, const(anchor_exponent << 23))
    positive = b.make("arith.bitcast", f32, magnitude)
    tiny_bits = b.make("arith.bitcast", i32, b.same("arith.addf", positive, anchor))
    tiny = b.same("arith.subi", tiny_bits, const(anchor_exponent << 23))
    smallest_normal = const((128 - form.bias) << 23)
    code = b.select(b.compare("ult", magnitude, smallest_normal), tiny, normal)
    largest, overflow = _limits(form)
    code = b.select(b.compare("ugt", code, const(largest)), const(overflow), code)
    huge = b.compare("uge", magnitude, const((127 + 30) << 23))
    code = b.select(huge, const(overflow), code)
    code = b.select(is_nan, const(0x80 if form.unsigned_zero else 0x7F), code)
    sign = b.same("arith.shli", b.same("arith.shrui", bits, const(31)), const(7))
    signed = b.same("arith.ori", code, sign)
    if form.unsigned_zero:
        signed = b.select(b.compare("eq", code, const(0)), const(0), signed)
    return b.make("arith.bitcast", b.element(dtype), b.make("arith.trunci", i8, signed))


def _limits(form: _Format) -> tuple[int, int]:
    """The largest finite code, and the code of what is larger."""
    if form.infinity:
        return 0x7B, 0x7C
    return (0x7F, 0x80) if form.unsigned_zero else (0x7E, 0x7E)


def _encode_e8m0(b: Builder, magnitude: ir.Value) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    exponent = b.same("arith.shrui", magnitude, b.int_constant(23, i32))
    rest = b.same("arith.andi", magnitude, b.int_constant(0x7FFFFF, i32))
    half = b.int_constant(0x400000, i32)
    above = b.compare("ugt", rest, half)
    tie = b.same("arith.andi", b.compare("eq", rest, half), b.compare("ugt", exponent, b.int_constant(0, i32)))
    up = b.make("arith.extui", i32, b.same("arith.ori", above, tie))
    rounded = b.same("arith.addi", exponent, up)
    top = b.int_constant(255, i32)
    return b.select(b.compare("uge", exponent, top), top, b.same("arith.minui", rounded, top))
