"""Integer bodies without undefined behaviour: wrap-around, division by zero gives 0, wide shifts drop every bit."""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.lowering.builder import Builder


def k(b: Builder, value: int, like: ir.Value) -> ir.Value:
    """An integer constant of the type of ``like``."""
    return b.int_constant(value, like.type)


def _bits(x: ir.Value) -> int:
    return int(ir.IntegerType(x.type).width)


def negate(b: Builder, x: ir.Value) -> ir.Value:
    """0 - x."""
    return b.same("arith.subi", k(b, 0, x), x)


def invert(b: Builder, x: ir.Value) -> ir.Value:
    """Bitwise complement."""
    return b.same("arith.xori", x, k(b, -1, x))


def relu(b: Builder, x: ir.Value) -> ir.Value:
    """max(x, 0), signed."""
    return b.same("arith.maxsi", x, k(b, 0, x))


def sign(b: Builder, x: ir.Value) -> ir.Value:
    """-1, 0 or 1."""
    return b.same("arith.minsi", b.same("arith.maxsi", x, k(b, -1, x)), k(b, 1, x))


def sign_unsigned(b: Builder, x: ir.Value) -> ir.Value:
    """0 or 1."""
    return b.same("arith.minui", x, k(b, 1, x))


def _safe_divisor(b: Builder, y: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(whether y is 0, whether y is -1, y or 1 where dividing by y could trap)."""
    is_zero = b.compare("eq", y, k(b, 0, y))
    is_minus_one = b.compare("eq", y, k(b, -1, y))
    return is_zero, is_minus_one, b.select(b.same("arith.ori", is_zero, is_minus_one), k(b, 1, y), y)


def divide(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Signed quotient, truncated towards zero; the smallest value by -1 wraps."""
    is_zero, is_minus_one, safe = _safe_divisor(b, y)
    quotient = b.same("arith.divsi", x, safe)
    quotient = b.select(is_minus_one, negate(b, x), quotient)
    return b.select(is_zero, k(b, 0, x), quotient)


def fmod(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Signed remainder with the dividend's sign."""
    _, _, safe = _safe_divisor(b, y)
    return b.same("arith.remsi", x, safe)


def _other_sign(b: Builder, rest: ir.Value, y: ir.Value) -> ir.Value:
    zero = k(b, 0, y)
    differs = b.compare("slt", b.same("arith.xori", rest, y), zero)
    return b.same("arith.andi", differs, b.compare("ne", rest, zero))


def remainder(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Signed remainder with the divisor's sign."""
    rest = fmod(b, x, y)
    return b.select(_other_sign(b, rest, y), b.same("arith.addi", rest, y), rest)


def floor_divide(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Signed quotient, rounded down."""
    quotient, rest = divide(b, x, y), fmod(b, x, y)
    return b.select(_other_sign(b, rest, y), b.same("arith.subi", quotient, k(b, 1, x)), quotient)


def _safe_unsigned(b: Builder, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    is_zero = b.compare("eq", y, k(b, 0, y))
    return is_zero, b.select(is_zero, k(b, 1, y), y)


def divide_unsigned(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Unsigned quotient."""
    is_zero, safe = _safe_unsigned(b, y)
    return b.select(is_zero, k(b, 0, x), b.same("arith.divui", x, safe))


def remainder_unsigned(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Unsigned remainder."""
    is_zero, safe = _safe_unsigned(b, y)
    return b.select(is_zero, k(b, 0, x), b.same("arith.remui", x, safe))


def _shift(b: Builder, name: str, x: ir.Value, count: ir.Value, beyond: ir.Value) -> ir.Value:
    fits = b.compare("ult", count, k(b, _bits(x), x)) if _bits(x) > 1 else b.compare("eq", count, k(b, 0, x))
    safe = b.select(fits, count, k(b, 0, x))
    return b.select(fits, b.same(name, x, safe), beyond)


def shift_left(b: Builder, x: ir.Value, count: ir.Value) -> ir.Value:
    """x << count; 0 if the count is negative or at least the width."""
    return _shift(b, "arith.shli", x, count, k(b, 0, x))


def shift_right(b: Builder, x: ir.Value, count: ir.Value) -> ir.Value:
    """Arithmetic x >> count; the sign if the count is negative or at least the width."""
    return _shift(b, "arith.shrsi", x, count, b.same("arith.shrsi", x, k(b, _bits(x) - 1, x)))


def shift_right_unsigned(b: Builder, x: ir.Value, count: ir.Value) -> ir.Value:
    """Logical x >> count; 0 if the count is at least the width."""
    return _shift(b, "arith.shrui", x, count, k(b, 0, x))


def power_unsigned(b: Builder, x: ir.Value, exponent: ir.Value) -> ir.Value:
    """x ** exponent modulo 2**width, by repeated squaring."""
    types = [x.type] * 3
    loop = b.op("scf.while", types, [k(b, 1, x), x, exponent], regions=2)
    before = loop.regions[0].blocks.append(*types)
    with b.inside(before):
        go = b.compare("ne", before.arguments[2], k(b, 0, x))
        b.op("scf.condition", [], [go, *before.arguments])
    after = loop.regions[1].blocks.append(*types)
    with b.inside(after):
        result, base, left = after.arguments
        odd = b.compare("ne", b.same("arith.andi", left, k(b, 1, x)), k(b, 0, x))
        result = b.select(odd, b.same("arith.muli", result, base), result)
        square = b.same("arith.muli", base, base)
        b.op("scf.yield", [], [result, square, b.same("arith.shrui", left, k(b, 1, x))])
    return loop.results[0]


def power(b: Builder, x: ir.Value, exponent: ir.Value) -> ir.Value:
    """Signed x ** exponent; a negative exponent gives 0 but for the bases 1 and -1."""
    negative = b.compare("slt", exponent, k(b, 0, x))
    safe = b.select(negative, k(b, 0, x), exponent)
    positive = power_unsigned(b, x, safe)
    odd = b.compare("ne", b.same("arith.andi", exponent, k(b, 1, x)), k(b, 0, x))
    alternating = b.select(odd, k(b, -1, x), k(b, 1, x))
    small = b.select(b.compare("eq", x, k(b, -1, x)), alternating, k(b, 0, x))
    small = b.select(b.compare("eq", x, k(b, 1, x)), k(b, 1, x), small)
    return b.select(negative, small, positive)
