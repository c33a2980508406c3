"""Sines of f32 numbers and their inverses as branch-free arithmetic, right for all arguments.

An angle of f32 is a whole number of at most 24 bits times a power of 2, so that its product with a number of 29 bits is exact
in f64. Two such parts of 1 / (2 pi), and what is left of it, give its turns; of a large angle, which is a multiple of a large
power of 2, the first bits of 1 / (2 pi) make whole turns only and are left out (Payne and Hanek, "Radian reduction for
trigonometric functions", 1983). What remains of a turn is as exact for 1e38 as it is for 1.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.scalar_code import (
    Scalar,
    constant,
    converted,
    float_of_bits,
    fma,
    magnitude,
    polynomial,
    select,
    signed,
    square_root,
)

_TURNS = (
    (0.0, (0.15915494319051504, -9.861970571775625e-11, 1.3532164927539732e-19)),
    (2.0**54, (-9.861970571775625e-11, 1.3532164942068076e-19, -1.4528344661265417e-28)),
    (2.0**91, (-2.0362228515769835e-22, -1.3304005261759082e-31, 6.296043458352374e-40)),
)
"""1 / (2 pi) as two parts of 29 bits and a rest, for magnitudes from a power of 2 on: whole, and less its nearest multiples of
2**-31 and 2**-68."""

_ROUND = 1.5 * 2.0**52
"""Added to an f64, it leaves the nearest integer in the lowest bits (of a number beyond 2**51, some integer near it)."""

_SINE = (6.283185286825531, -41.34166144240082, 81.59235088483142, -75.39342700999308)
"""sin(2 pi t) / t in t**2 for |t| <= 1/8."""

_COSINE = (1.0, -19.739208681510128, 64.93932182348661, -85.44323333176462, 59.22913366244755)
"""cos(2 pi t) in t**2 for |t| <= 1/8."""

_ATAN = (
    -0.333333, 0.1999853, -0.14264043, 0.10951187, -0.08400679, 0.057912596, -0.031135248, 0.010892815, -0.0017889651,
)  # fmt: skip
"""(atan(t) - t) / t**3 in t**2 for |t| <= 1."""

_ASIN = (0.16666752, 0.074953094, 0.045469154, 0.024184737, 0.042158414)
"""(asin(t) - t) / t**3 in t**2 for |t| <= 1/2."""

_HALF_PI, _HALF_PI_REST = 1.57079637050628662109375, -4.37113900018624283e-8
"""pi / 2 as f32, and the rest."""


def sin(x: Scalar) -> Scalar:
    """The sine."""
    sine, cosine, quarters = _parts(x)
    return _quadrant(select(_is_odd(quarters), cosine, sine), quarters, x)


def cos(x: Scalar) -> Scalar:
    """The cosine."""
    sine, cosine, quarters = _parts(x)
    return _quadrant(select(_is_odd(quarters), sine, cosine), quarters + 1, None)


def tan(x: Scalar) -> Scalar:
    """The tangent."""
    sine, cosine, quarters = _parts(x)
    odd = _is_odd(quarters)
    quotient = select(odd, cosine, sine) / select(odd, sine, cosine)
    return _quadrant(quotient, quarters << 1, x)


def asin(x: Scalar) -> Scalar:
    """The arc sine."""
    a = magnitude(x)
    far, t, tail = _arc(a)
    near_end = (_HALF_PI - t * 2.0) - fma(tail, 2.0, -_HALF_PI_REST)
    return signed(select(far, near_end, t + tail), x)


def acos(x: Scalar) -> Scalar:
    """The arc cosine."""
    a = magnitude(x)
    far, t, tail = _arc(a)
    near_end = (t + tail) * 2.0
    near_end = select(x < 0.0, (_HALF_PI * 2.0 - t * 2.0) - fma(tail, 2.0, -_HALF_PI_REST * 2.0), near_end)
    middle = _HALF_PI - (signed(t, x) - (_HALF_PI_REST - signed(tail, x)))
    return select(far, near_end, middle)


def atan(x: Scalar) -> Scalar:
    """The arc tangent."""
    a = magnitude(x)
    steep = a > 1.0
    t, tail = _arc_tangent(select(steep, 1.0 / a, a))
    return signed(select(steep, (_HALF_PI - t) - (tail - _HALF_PI_REST), t + tail), x)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y); zeros and infinities as in the C library."""
    a, b = magnitude(y), magnitude(x)
    steep = a > b
    small, large = select(steep, b, a), select(steep, a, b)
    quotient = small / large
    # Neither 0 / 0 nor inf / inf is a number.
    quotient = select(small.equals(large), select(large.equals(0.0), constant(0.0, x.type), 1.0), quotient)
    t, tail = _arc_tangent(quotient)
    back = x.bits() < 0
    left = select(steep, constant(_HALF_PI, x.type), select(back, constant(2.0 * _HALF_PI, x.type), 0.0))
    rest = select(steep, constant(_HALF_PI_REST, x.type), select(back, constant(2.0 * _HALF_PI_REST, x.type), 0.0))
    away = steep ^ back
    t, tail = select(away, 0.0 - t, t), select(away, 0.0 - tail, tail)
    return signed((left + t) + (tail + rest), y)


def _parts(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """(sine, cosine, quarters): of |x| less the nearest whole number of quarter turns, as f64; and that number mod 2**32."""
    a = magnitude(x)
    first, second, third = (_of_size(a, [parts[place] for _, parts in _TURNS]) for place in range(3))
    wide = converted("arith.extf", a, ir.F64Type.get())
    turns = wide * first
    turns = turns - ((turns + _ROUND) - _ROUND)
    more = wide * second
    shifted = fma(turns + fma(wide, third, more), 4.0, _ROUND)
    # What is left by each of the sums is exact where it is small.
    t = fma(wide, third, fma(shifted - _ROUND, -0.25, turns) + more)
    square = t * t
    sine, cosine = t * polynomial(square, _SINE), polynomial(square, _COSINE)
    return sine, cosine, converted("arith.trunci", shifted.bits(), ir.IntegerType.get_signless(32))


def _of_size(a: Scalar, values: list[float]) -> Scalar:
    """The one of the f64 numbers ``values`` that belongs to the size of ``a``."""
    chosen = constant(values[0], ir.F64Type.get())
    for (least, _), value in zip(_TURNS[1:], values[1:], strict=True):
        chosen = select(a < least, chosen, value)
    return chosen


def _is_odd(quarters: Scalar) -> Scalar:
    return (quarters & 1).equals(1)


def _quadrant(value: Scalar, quarters: Scalar, odd: Scalar | None) -> Scalar:
    """``value`` as f32, negated where bit 1 of ``quarters`` is set, and where ``odd`` is negative."""
    sign = quarters << 30
    if odd is not None:
        sign = sign ^ odd.bits()
    narrow = converted("arith.truncf", value, ir.F32Type.get())
    return float_of_bits(narrow.bits() ^ (sign & -(2**31)))


def _arc_tangent(t: Scalar) -> tuple[Scalar, Scalar]:
    """Two numbers whose sum is the arc tangent of ``t``, which is not above 1; the first is ``t``."""
    square = t * t
    return t, t * square * polynomial(square, _ATAN)


def _arc(a: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """(far, t, tail): whether ``a`` is above 1/2; t + tail is its arc sine if not, else half of its arc cosine."""
    far = a > 0.5
    square = select(far, fma(a, -0.5, 0.5), a * a)
    t = select(far, square_root(square), a)
    return far, t, t * square * polynomial(square, _ASIN)


FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    "math.acos": acos,
    "math.asin": asin,
    "math.atan": atan,
    "math.atan2": atan2,
    "math.cos": cos,
    "math.sin": sin,
    "math.tan": tan,
}
"""The operations on f32 that are expanded, by name."""
