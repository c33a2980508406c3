"""Functions of f32 as branch-free arithmetic, so that the loops around them vectorise; a call would not.

Each is a reduction of the argument to a short interval and a minimax polynomial there (Remez exchange, the coefficients
rounded to f32 one after the other, the rest fitted again). Results differ from the correctly rounded ones by at most 2 units
in the last place, erf's by 2.8, over the whole range, denormals included, but for `exp_at_most_1`'s; NaN, infinities, zeros and
their signs, overflow and the functions' edges are exact. f16 and bf16 come here as f32. Sines and their inverses are in
vector_angles.py, f64 and what is computed by way of it in vector_doubles.py; other functions of f64 stay with the C library.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from onnx2torch_mlir.engine.compiler import vector_angles, vector_doubles
from onnx2torch_mlir.engine.compiler.scalar_code import (
    Scalar,
    by_pairs,
    clamped,
    constant,
    converted,
    float_bits,
    float_of_bits,
    fma,
    magnitude,
    polynomial,
    power_of_2,
    scaled,
    select,
    signed,
)
from onnx2torch_mlir.engine.compiler.vector_unit import of_host

_ROUND = 12582912.0
"""1.5 * 2**23: added to a number below 2**22, it leaves the nearest integer in the lowest bits."""

_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 as a number of 10 bits, whose product with an exponent is exact, and the rest."""

_LOG2_E = 1.0 / math.log(2.0)

_EXP = (0.49999994, 0.16666521, 0.041668266, 0.008368677, 0.0013820734)
"""(e**r - 1 - r) / r**2 for |r| <= ln(2) / 2."""

_EXPM1 = (0.49999997, 0.16666546, 0.041667435, 0.008366262, 0.0013870657)
"""The same, of least error relative to e**r - 1."""

_EXP2 = (0.6931472, 0.24022648, 0.055503596, 0.009618503, 0.0013390997, 0.00015327803)
"""(2**r - 1) / r for |r| <= 1/2."""

_LOG = (0.3333333, -0.25000826, 0.20001249, -0.16623189, 0.14201224, -0.13161537, 0.12765852, -0.07635762)
"""(log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f < sqrt(2)."""

_ERFC = (
    0.2820948064,
    0.1193665415,
    -0.01546595059,
    -0.01861032285,
    0.001190509414,
    0.001974252984,
    -0.0002223593474,
    -0.0001304013567,
    3.624382953e-05,
    -2.779411261e-06,
)
"""(1 - (1 - erf(a))**(1/4)) / a for 0 <= a <= 3.96, of least error relative to erf(a)."""

_ERFC_ERROR = -1.4343603e-07
"""Of the first of these as f32, twice the relative error; a little more makes the whole better."""


def _less_ln2(x: Scalar, n: Scalar) -> Scalar:
    """x less n times ln 2, for a whole n: in two steps, of which the first loses nothing even where products are rounded."""
    return fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, x))


def exp(x: Scalar) -> Scalar:
    """e to the x."""
    x = clamped(x, -104.0, 89.0)
    shifted = fma(x, _LOG2_E, _ROUND + 254)
    r = _less_ln2(x, shifted - (_ROUND + 254))
    return scaled(fma(fma(polynomial(r, _EXP), r, 1.0), r, 1.0), shifted)


def exp_at_most_1(x: Scalar) -> Scalar:
    """e to the x, which is not positive; results below 2**-126 may be 0. What a softmax adds up: those near 1 are as exact as
    `exp`'s, those of 2**-n are wrong by n * 2**-29 more, for ln 2 is one number where n times it is not rounded."""
    x = clamped(x, -88.0, None)
    shifted = fma(x, _LOG2_E, _ROUND + 127)
    n = shifted - (_ROUND + 127)
    r = fma(n, -math.log(2.0), x) if of_host().rounds_once else _less_ln2(x, n)
    power = power_of_2(shifted.bits())
    return fma(fma(by_pairs(r, _EXP), r * r, r), power, power)


def exp2(x: Scalar) -> Scalar:
    """2 to the x."""
    x = clamped(x, -151.0, 129.0)
    shifted = x + (_ROUND + 254)
    r = x - (shifted - (_ROUND + 254))
    return scaled(fma(polynomial(r, _EXP2), r, 1.0), shifted)


def expm1(x: Scalar) -> Scalar:
    """e to the x, less 1."""
    near = clamped(x, -30.0, 89.0)
    shifted = fma(near, _LOG2_E, _ROUND + 126)
    r = _less_ln2(near, shifted - (_ROUND + 126))
    grown = fma(r * r, polynomial(r, _EXPM1), r)
    half = power_of_2(shifted.bits())
    return select(magnitude(x) < 2.0**-26, x, fma(half, grown, half - 0.5) * 2.0)


def _mantissa(x: Scalar) -> tuple[Scalar, Scalar]:
    """(e, m), e an i32, for x = m * 2**e, sqrt(1/2) <= m < sqrt(2); of normal positive numbers."""
    root = float_bits(math.sqrt(0.5))
    bits = x.bits() - root
    return bits >> 23, float_of_bits((bits & 0x7FFFFF) + root)


def _normal(x: Scalar) -> tuple[Scalar, Scalar]:
    """(e, m) for x = m * 2**e; e as a float."""
    tiny = x < 2.0**-126
    e, m = _mantissa(select(tiny, x * 2.0**23, x))
    return converted("arith.sitofp", e, x.type) + select(tiny, constant(-23.0, x.type), 0.0), m


def _log_tail(f: Scalar) -> Scalar:
    """log(1 + f) - f."""
    return f * f * fma(f, polynomial(f, _LOG), -0.5)


def _log_or_edge(result: Scalar, x: Scalar, zero: float) -> Scalar:
    """``result``, or what logarithms are where x is not positive and finite: -inf at ``zero``, NaN below."""
    edge = select(x.equals(zero), constant(-math.inf, x.type), math.nan)
    return select(x > zero, select(x < math.inf, result, x), edge)


def log(x: Scalar) -> Scalar:
    """The natural logarithm."""
    e, m = _normal(x)
    f = m - 1.0
    result = fma(e, _LN2_HIGH, fma(e, _LN2_LOW, _log_tail(f)) + f)
    return _log_or_edge(result, x, 0.0)


def log2(x: Scalar) -> Scalar:
    """The logarithm to base 2; exact for powers of 2."""
    e, m = _normal(x)
    f = m - 1.0
    tail = _log_tail(f)
    over = _LOG2_E - 1.0
    result = fma(tail, over, fma(f, over, tail)) + f + e
    return _log_or_edge(result, x, 0.0)


def log10(x: Scalar) -> Scalar:
    """The logarithm to base 10."""
    e, m = _normal(x)
    f = m - 1.0
    tail = _log_tail(f)
    high = 0.43359375
    low = math.log10(math.e) - high
    two_high = 0.301025390625
    two_low = math.log10(2.0) - two_high
    result = fma(e, two_high, fma(f, high, fma(tail, high, fma(f, low, fma(tail, low, e * two_low)))))
    return _log_or_edge(result, x, 0.0)


def log1p(x: Scalar) -> Scalar:
    """log(1 + x), x near 0 included."""
    u = x + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)
    e, m = _mantissa(u)
    # In two factors, because 2**-128 is none; where e is that large, nothing was lost.
    f = fma(lost * 0.5, power_of_2(128 - e), m - 1.0)
    n = converted("arith.sitofp", e, x.type)
    result = fma(n, _LN2_HIGH, fma(n, _LN2_LOW, _log_tail(f)) + f)
    edged = _log_or_edge(result, x, -1.0)
    return select(x.equals(0.0), x, edged)


def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent: t / (t + 2) of t = e to the 2|x|, less 1."""
    twice = clamped(magnitude(x) * 2.0, None, 18.5)
    shifted = fma(twice, _LOG2_E, _ROUND + 127)
    r = _less_ln2(twice, shifted - (_ROUND + 127))
    power = power_of_2(shifted.bits())
    grown = fma(power, fma(r * r, polynomial(r, _EXPM1), r), power - 1.0)
    return signed(grown / (grown + 2.0), x)


def sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + e to the -x), with one division; denormal results are 0."""
    x = clamped(x, -88.0, 88.0)
    shifted = fma(x, _LOG2_E, _ROUND + 127)
    r = _less_ln2(x, shifted - (_ROUND + 127))
    power = power_of_2(shifted.bits())
    falling = polynomial(r, [-c if place % 2 else c for place, c in enumerate(_EXP)])
    return power / (power + fma(fma(falling, r, -1.0), r, 1.0))


def erf(x: Scalar, factor: float = 1.0) -> Scalar:
    """The error function of ``factor`` times x."""
    return signed(_erf_of_magnitude(x, factor), x)


def times_1_plus_erf(number: Scalar, x: Scalar, factor: float = 1.0) -> Scalar:
    """``number``, which has the sign of x, times 1 and the error function of ``factor`` times x; -0 becomes 0."""
    return fma(magnitude(number), _erf_of_magnitude(x, factor), number)


def _erf_of_magnitude(x: Scalar, factor: float) -> Scalar:
    """The error function of ``factor`` times the magnitude of x: 1 - (1 - u)**4 for a polynomial u, written so that nothing is
    lost where u is small."""
    exact = _single(_ERFC[0]) * (1 + _ERFC_ERROR / 2) * factor
    first = _single(exact)
    rest = [coefficient * factor ** (place + 1) for place, coefficient in enumerate(_ERFC)][1:]
    a = clamped(magnitude(x), None, 3.96 / factor)
    q = polynomial(a, [first, *rest]) if of_host().works_in_halves else fma(a, by_pairs(a, rest), first)
    u = a * q
    twice = fma(a, q + q, -(u * (u - 2 * (exact / first - 1))))
    return fma(-twice, twice, twice + twice)


def _single(number: float) -> float:
    """The number as f32 holds it."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    "math.erf": erf,
    "math.exp": exp,
    "math.exp2": exp2,
    "math.expm1": expm1,
    "math.log": log,
    "math.log10": log10,
    "math.log1p": log1p,
    "math.log2": log2,
    "math.tanh": tanh,
    **vector_angles.FUNCTIONS,
    **vector_doubles.SINGLES,
}
"""The operations on f32 that are expanded (vector_expansion.py), by name."""
