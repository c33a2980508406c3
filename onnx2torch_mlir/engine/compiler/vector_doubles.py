"""Functions of f64 as branch-free arithmetic, and those of f32 that are short and exact by way of f64.

Results of f64 differ from the correctly rounded ones by at most 2.5 units in the last place, those of f32 by 0.51; NaN,
infinities, zeros and their signs, overflow and the functions' edges are exact. Logarithms follow fdlibm's (Sun Microsystems,
1993), which divides so that its series is short.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.scalar_code import (
    Scalar,
    clamped,
    constant,
    converted,
    float_of_bits,
    fma,
    magnitude,
    polynomial,
    power_of_2,
    scaled,
    select,
    signed,
    square_root,
)

_ROUND = 1.5 * 2.0**52
"""Added to a number below 2**51, it leaves the nearest integer in the lowest bits."""

_ROUND_BITS = 0x4338000000000000
"""The bits of `_ROUND`."""

_ROOT_BITS = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2)."""

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 as a number of 33 bits, whose product with an exponent is exact, and the rest."""

_LOG2_E = 1.0 / math.log(2.0)

_EXP = (
    0.5, 0.16666666666666677, 0.041666666666666526, 0.008333333333321617, 0.00138888888889555, 0.00019841269886144972,
    2.480158718535347e-05, 2.7557244202394043e-06, 2.7557392076816783e-07, 2.510903642003791e-08, 2.0878504835212752e-09,
)  # fmt: skip
"""(e**r - 1 - r) / r**2 for |r| <= ln(2) / 2."""

_LOG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip
"""(log((1 + s) / (1 - s)) / s - 2) / s**2 in s**2, for sqrt(1/2) <= (1 + s) / (1 - s) < sqrt(2)."""

_ERFC = (
    1.1283791670955126, 0.6366197723675909, 0.10277260330131552, -0.019128446993094857, -0.00020919485393002725,
    0.00169620766993926, -0.0005901324304801737, 2.5904500529468073e-05, 6.442047132566641e-05, -2.957566864764076e-05,
    3.169676010974272e-06, 3.1329553582337933e-06, -2.037181312261293e-06, 5.706269474000258e-07, -1.1704906965657509e-08,
    -6.573511336625764e-08, 3.458543749928879e-08, -1.0773521412381434e-08, 2.360552785796908e-09, -3.76077446146581e-10,
    4.3018609854720494e-11, -3.364410587391607e-12, 1.614900809325559e-13, -3.592261835770463e-15,
)  # fmt: skip
"""-log(1 - erf(a)) / a for 0 <= a <= 5.95, of least error relative to erf(a)."""

_NEARLY_LINEAR = 2.0**-12
"""Below it, sinh and its like differ from the argument by less than f32 shows."""


def exp(x: Scalar) -> Scalar:
    """e to the x."""
    shifted, grown = _reduced(clamped(x, -746.0, 710.0), 2046)
    return scaled(grown + 1.0, shifted)


def expm1(x: Scalar) -> Scalar:
    """e to the x, less 1."""
    shifted, grown = _reduced(clamped(x, -60.0, 710.0), 1022)
    half = power_of_2(shifted.bits())
    return select(magnitude(x) < 2.0**-55, x, fma(half, grown, half - 0.5) * 2.0)


def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent: t / (t + 2) of t = e to the 2|x|, less 1."""
    shifted, grown = _reduced(clamped(magnitude(x) * 2.0, None, 40.0), 1023)
    power = power_of_2(shifted.bits())
    total = fma(power, grown, power - 1.0)
    return signed(total / (total + 2.0), x)


def log(x: Scalar) -> Scalar:
    """The natural logarithm."""
    tiny = x < 2.0**-1022
    e, m = _mantissa(select(tiny, x * 2.0**54, x))
    n = _number(e) - select(tiny, constant(54.0, x.type), 0.0)
    return _log_or_edge(_log_of(n, m - 1.0), x, 0.0)


def log1p(x: Scalar) -> Scalar:
    """log(1 + x), x near 0 included."""
    u = x + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)
    e, m = _mantissa(u)
    # In two factors, because 2**-1024 is none; where e is that large, nothing was lost.
    f = fma(lost * 0.5, power_of_2(1024 - e), m - 1.0)
    return select(x.equals(0.0), x, _log_or_edge(_log_of(_number(e), f), x, -1.0))


def erf(x: Scalar) -> Scalar:
    """The error function: 1 less e to a polynomial, the power without its 1 so that nothing is lost near 0."""
    near = clamped(magnitude(x), None, 5.95)
    shifted, grown = _reduced(0.0 - near * polynomial(near, _ERFC), 1023)
    power = power_of_2(shifted.bits())
    return signed(fma(0.0 - power, grown, 1.0 - power), x)


def _reduced(x: Scalar, bias: int) -> tuple[Scalar, Scalar]:
    """(shifted, grown): e to the x is 1 + grown times 2 to the number in the lowest bits of ``shifted``, less ``bias``."""
    shifted = fma(x, _LOG2_E, _ROUND + bias)
    n = shifted - (_ROUND + bias)
    r = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, x))
    return shifted, fma(r * r, polynomial(r, _EXP), r)


def _mantissa(x: Scalar) -> tuple[Scalar, Scalar]:
    """(e, m), e an i64, for x = m * 2**e, sqrt(1/2) <= m < sqrt(2); of normal positive numbers."""
    bits = x.bits() - _ROOT_BITS
    return bits >> 52, float_of_bits((bits & (2**52 - 1)) + _ROOT_BITS)


def _number(e: Scalar) -> Scalar:
    """A small i64 as f64: by an addition, for which there are vectors everywhere."""
    return float_of_bits(e + _ROUND_BITS) - _ROUND


def _log_of(n: Scalar, f: Scalar) -> Scalar:
    """log(2**n * (1 + f))."""
    s = f / (f + 2.0)
    square = s * s
    half = f * f * 0.5
    tail = fma(s, fma(square, polynomial(square, _LOG), half), n * _LN2_LOW)
    return n * _LN2_HIGH - ((half - tail) - f)


def _log_or_edge(result: Scalar, x: Scalar, zero: float) -> Scalar:
    """``result``, or what logarithms are where x is not positive and finite: -inf at ``zero``, NaN below."""
    edge = select(x.equals(zero), constant(-math.inf, x.type), math.nan)
    return select(x > zero, select(x < math.inf, result, x), edge)


def _by_way_of_doubles(function: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """A function of f32 that one of f64 computes."""

    def narrow(*operands: Scalar) -> Scalar:
        wide = [converted("arith.extf", operand, ir.F64Type.get()) for operand in operands]
        return converted("arith.truncf", function(*wide), operands[0].type)

    return narrow


def _odd(function: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    """A function of f64 that is that of the magnitude with the sign of x, and nearly x itself near 0."""

    def whole(x: Scalar) -> Scalar:
        a = magnitude(x)
        return signed(select(a < _NEARLY_LINEAR, a, function(a)), x)

    return whole


def _sinh(a: Scalar) -> Scalar:
    power = exp(a)
    return (power - 1.0 / power) * 0.5


def _cosh(x: Scalar) -> Scalar:
    power = exp(magnitude(x))
    return (power + 1.0 / power) * 0.5


def _asinh(a: Scalar) -> Scalar:
    return log(a + square_root(fma(a, a, 1.0)))


def _acosh(x: Scalar) -> Scalar:
    # Far below 1 both terms of the sum cancel, and its logarithm is no NaN by itself.
    return log(select(x < 1.0, constant(math.nan, x.type), x + square_root(fma(x, x, -1.0))))


def _atanh(a: Scalar) -> Scalar:
    return log((a + 1.0) / (1.0 - a)) * 0.5


def _power(x: Scalar, y: Scalar) -> Scalar:
    """x to the y: e to the y log|x|, whose sign and whether it is a number depend on whether y is whole and odd."""
    a = magnitude(x)
    total = exp(clamped(y, -(2.0**200), 2.0**200) * log(a))
    near = clamped(magnitude(y), None, 2.0**25)  # Beyond, numbers of f32 are even.
    shifted = near + _ROUND
    whole = (shifted - _ROUND).equals(near)
    no_number = (x < 0.0) & (a < math.inf)
    total = select(whole, total, select(no_number, constant(math.nan, x.type), total))
    odd = select(whole, shifted.bits() << 63, 0)
    result = float_of_bits(total.bits() ^ (odd & x.bits()))
    return select(y.equals(0.0) | x.equals(1.0), constant(1.0, x.type), result)


FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    "math.erf": erf,
    "math.exp": exp,
    "math.expm1": expm1,
    "math.log": log,
    "math.log1p": log1p,
    "math.tanh": tanh,
}
"""The operations on f64 that are expanded, by name."""

SINGLES: dict[str, Callable[..., Scalar]] = {
    "math.acosh": _by_way_of_doubles(_acosh),
    "math.asinh": _by_way_of_doubles(_odd(_asinh)),
    "math.atanh": _by_way_of_doubles(_odd(_atanh)),
    "math.cosh": _by_way_of_doubles(_cosh),
    "math.powf": _by_way_of_doubles(_power),
    "math.sinh": _by_way_of_doubles(_odd(_sinh)),
}
"""Those on f32 that f64 computes."""
