"""Sizes: numbers or sympy expressions over named symbols, never guarded on and never specialised to 0 or 1.

The algebra works on the expressions directly, which is some ten times cheaper than `torch.SymInt` arithmetic and cannot
trigger a guard. It asks sympy to compare nothing: `signs` decides what is larger. Sizes are kept small by whoever builds
a program (`sizing`), so that every step here takes a bounded time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from functools import reduce

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.signs import has_signed, is_nonnegative, is_signed, is_whole, linear_form

__all__ = [
    "OPAQUE", "ceil_div", "choices", "difference", "equation", "exact_div", "expanded", "fits", "floor_div", "has_signed",
    "in_parts", "is_nonnegative", "is_signed", "is_whole", "known_equal", "maximum", "minimum", "modulo", "product",
    "replaced", "slice_length", "stretches", "to_dim",
]  # fmt: skip


def to_dim(value: int | sympy.Expr | torch.SymInt) -> Dim:
    """``value`` as an `int` where it is one, else as a sympy expression."""
    if isinstance(value, int):
        return value
    if isinstance(value, torch.SymInt):
        value = value.node.expr
    if isinstance(value, sympy.Integer) or (isinstance(value, sympy.Expr) and value.is_Integer):
        return int(value)
    return value


def product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes; 1 for none."""
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return to_dim(result)


def floor_div(a: Dim, b: Dim) -> Dim:
    """``a // b``, rounded down."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1:
        return a
    if isinstance(b, int) and b > 0 and not isinstance(a, int):
        return _floor_div_by_number(a, b)
    a, b = sympy.sympify(a), sympy.sympify(b)
    quotient = _exact_quotient(a, b)
    if quotient is not None:
        return to_dim(quotient)
    return to_dim(FloorDiv(a, b)) if fits(a) and fits(b) else FloorDiv(a, b, evaluate=False)


@functools.lru_cache(maxsize=65536)
def _floor_div_by_number(a: sympy.Expr, b: int) -> Dim:
    """What the divisor divides taken out, and common factors; PyTorch's own rules, but for asking sympy for signs."""
    form = linear_form(a)
    if any(factor.denominator != 1 for factor in form.values()) or not is_whole(a):
        return to_dim(FloorDiv(a, sympy.Integer(b)))
    whole = [(factor.numerator // b) * atom for atom, factor in form.items() if factor.numerator % b == 0]
    rest = {atom: factor.numerator for atom, factor in form.items() if factor.numerator % b}
    if not rest:
        return to_dim(sympy.Add(*whole))
    common = math.gcd(b, *rest.values())
    operand = to_dim(sympy.Add(*((factor // common) * atom for atom, factor in rest.items())))
    divisor = b // common
    if isinstance(operand, FloorDiv) and isinstance(inner := to_dim(operand.args[1]), int) and inner > 0:
        return to_dim(sympy.Add(*whole, floor_div(to_dim(operand.args[0]), inner * divisor)))
    if isinstance(operand, int):
        return to_dim(sympy.Add(*whole, operand // divisor))
    return to_dim(sympy.Add(*whole, FloorDiv(operand, sympy.Integer(divisor), evaluate=False)))


def ceil_div(a: Dim, b: Dim) -> Dim:
    """``a // b``, rounded up; ``b`` is positive."""
    return floor_div(to_dim(a + b - 1), b)


def modulo(a: Dim, b: Dim) -> Dim:
    """``a % b`` with the sign of ``b``, as in Python."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if isinstance(b, int) and b > 0 and not isinstance(a, int):
        form = linear_form(a)
        if all(factor.denominator == 1 for factor in form.values()):
            a = to_dim(sympy.Add(*((factor.numerator % b) * atom for atom, factor in form.items())))
        if isinstance(a, int):
            return a % b
        if is_nonnegative(a) and is_nonnegative(b - 1 - a):
            return a
    return PythonMod(sympy.sympify(a), sympy.sympify(b), evaluate=False)


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller size."""
    return _extremum(sympy.Min, a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger size."""
    return _extremum(sympy.Max, a, b)


_Extremum = type[sympy.Min] | type[sympy.Max]
_MANY = 6
"""Operands of an extremum from which on they are not compared with each other."""


@functools.lru_cache(maxsize=65536)
def _extremum(kind: _Extremum, a: Dim, b: Dim) -> Dim:
    """``kind`` of both without operands that another one provably beats; sympy's own search for them takes far longer."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if kind is sympy.Min else max(a, b)
    kept: list[Dim] = []
    for item in (*_operands(kind, a), *_operands(kind, b)):
        if len(kept) < _MANY:
            if any(_beats(kind, other, item) for other in kept):
                continue
            kept = [other for other in kept if not _beats(kind, item, other)]
        kept.append(item)
    return kept[0] if len(kept) == 1 else kind(*kept, evaluate=False)


def _operands(kind: _Extremum, dim: Dim) -> list[Dim]:
    """What ``dim`` is the same extremum of: ``Max(0, n) - 1`` is one of -1 and ``n - 1``."""
    if isinstance(dim, int):
        return [dim]
    constant, rest = dim.as_coeff_Add()
    return [to_dim(item + constant) for item in rest.args] if isinstance(rest, kind) else [dim]


def _beats(kind: _Extremum, a: Dim, b: Dim) -> bool:
    return is_nonnegative(to_dim(b - a if kind is sympy.Min else a - b))


_FEW = 3
"""How many minima and maxima two sizes may hold so that their difference is taken apart."""


def difference(a: Dim, b: Dim) -> Dim:
    """``a - b``; a minimum or maximum that is taken away becomes one of differences: ``n - Max(0, n - 1)`` is ``Min(n, 1)``.

    Only while there are few, for each stands in all of the differences.
    """
    plain = to_dim(a - b)
    kind = sympy.Min if isinstance(b, sympy.Max) else sympy.Max if isinstance(b, sympy.Min) else None
    if isinstance(plain, int) or isinstance(b, int) or kind is None or choices(a) + choices(b) > _FEW:
        return plain
    return reduce(minimum if kind is sympy.Min else maximum, [difference(a, to_dim(part)) for part in b.args])


def slice_length(start: Dim, end: Dim, step: Dim) -> Dim:
    """How many positions there are from ``start`` up to ``end`` in steps of ``step`` (> 0)."""
    return maximum(0, ceil_div(difference(end, start), step))


def stretches(size: Dim, target: Dim) -> bool:
    """Whether an axis of ``size`` can be broadcast to ``target`` for certain: it is 1, or 0 where ``target`` is 0."""
    if isinstance(size, int):
        return size == 1
    return is_nonnegative(to_dim(1 - size)) and bool(known_equal(size, minimum(1, target)))


def choices(dim: Dim) -> int:
    """How many minima, maxima and cases ``dim`` holds."""
    return 0 if isinstance(dim, int) else _choices(dim)


@functools.lru_cache(maxsize=65536)
def _choices(dim: sympy.Basic) -> int:
    own = isinstance(dim, sympy.Min | sympy.Max | sympy.Piecewise)
    return own + sum(map(_choices, dim.args))


_FITS = (3, 8)
_LIGHT = (1, 3)


def fits(dim: Dim, most: tuple[int, int] = _FITS) -> bool:
    """Whether ``dim`` is small: a step with such sizes takes a short time, whatever it proves of them.

    ``most`` says how many quotients, remainders, extrema and cases, and how many symbols it may hold.
    """
    return isinstance(dim, int) or all(own <= limit for own, limit in zip(_weight(dim), most, strict=True))


@functools.lru_cache(maxsize=65536)
def _weight(dim: sympy.Basic) -> tuple[int, int]:
    if isinstance(dim, sympy.Symbol):
        return 0, 1
    parts = [_weight(part) for part in dim.args] or [(0, 0)]
    if isinstance(dim, sympy.Mul | sympy.Pow):
        # A product is as hard as its hardest factor; only many factors make it hard.
        factors = len(dim.args) if isinstance(dim, sympy.Mul) else min(int(abs(dim.exp)), 99) if dim.exp.is_Integer else 99
        return max(heads for heads, _ in parts), max(factors, *(symbols for _, symbols in parts))
    own = int(isinstance(dim, OPAQUE) or dim.is_Boolean)
    return own + sum(heads for heads, _ in parts), sum(symbols for _, symbols in parts)


def replaced(dim: Dim, by: Mapping[sympy.Basic, sympy.Basic]) -> Dim:
    """``dim`` with what ``by`` lists replaced in it, at once; its extrema are formed as `minimum` and `maximum` form them."""
    if isinstance(dim, int) or not by:
        return dim
    if dim in by:
        return to_dim(by[dim])
    if not dim.args:
        return dim
    if isinstance(dim, sympy.Piecewise):
        return to_dim(dim.xreplace(by))
    before = [to_dim(part) for part in dim.args]
    parts = [replaced(part, by) for part in before]
    if all(new is old or new == old for new, old in zip(parts, before, strict=True)):
        return dim
    if isinstance(dim, sympy.Min | sympy.Max):
        return reduce(minimum if isinstance(dim, sympy.Min) else maximum, parts)
    if isinstance(dim, FloorDiv):
        return floor_div(*parts)
    if isinstance(dim, Mod | PythonMod):
        return modulo(*parts)
    return to_dim(dim.func(*parts))


def in_parts(dim: sympy.Expr, name: Callable[[sympy.Expr], Dim]) -> Dim:
    """``dim`` with what its terms, factors or operands hold replaced by what ``name`` gives for it, where that is not light."""

    def part(item: sympy.Expr) -> Dim:
        coefficient, rest = item.as_coeff_Mul()
        if fits(item, _LIGHT) or not is_whole(rest):
            return to_dim(item)
        if isinstance(rest, sympy.Mul):
            return to_dim(coefficient * product(map(part, rest.args)))
        if isinstance(rest, sympy.Add):
            return to_dim(coefficient * sympy.Add(*map(part, rest.args)))
        return to_dim(coefficient * name(rest))

    if isinstance(dim, sympy.Add | sympy.Mul):
        return to_dim(dim.func(*map(part, dim.args)))
    if isinstance(dim, sympy.Min | sympy.Max):
        return reduce(minimum if isinstance(dim, sympy.Min) else maximum, map(part, dim.args))
    if isinstance(dim, FloorDiv):
        return floor_div(part(dim.args[0]), part(dim.args[1]))
    if isinstance(dim, Mod | PythonMod):
        return modulo(part(dim.args[0]), part(dim.args[1]))
    return dim


def equation(a: Dim, b: Dim) -> sympy.Basic:
    """``a == b`` as a condition, which sympy would otherwise try to decide."""
    known = known_equal(a, b)
    return sympy.sympify(known) if known is not None else sympy.Eq(a, b, evaluate=False)


def exact_div(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` where that is provably an integer expression, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b != 0 and a % b == 0 else None
    quotient = _exact_quotient(sympy.sympify(a), sympy.sympify(b))
    return None if quotient is None else to_dim(quotient)


OPAQUE = (FloorDiv, Mod, PythonMod, sympy.Min, sympy.Max, sympy.Piecewise)
"""What polynomial division takes as a variable."""


@functools.lru_cache(maxsize=65536)
def _exact_quotient(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    if b == 0:
        return None
    if b.is_Symbol and a.is_Mul and b in a.args:
        return a / b
    opaque = {part: sympy.Dummy(integer=True) for part in a.atoms(*OPAQUE) | b.atoms(*OPAQUE)}
    quotient = sympy.cancel(a.xreplace(opaque) / b.xreplace(opaque))
    _, denominator = quotient.as_numer_denom()
    if denominator != 1:
        return None
    quotient = sympy.expand(quotient)
    integral = all(term.as_coeff_Mul()[0].is_Integer for term in sympy.Add.make_args(quotient))
    return quotient.xreplace({dummy: part for part, dummy in opaque.items()}) if integral else None


def expanded(dim: sympy.Expr) -> sympy.Expr:
    """``dim`` as a sum without products of sums; what stands inside of quotients and extrema is left as it is."""
    if not any(isinstance(part, sympy.Mul | sympy.Pow) for part in (dim, *dim.args)):
        return dim
    terms = linear_form(dim).items()
    return sympy.Add(*(sympy.Rational(factor.numerator, factor.denominator) * atom for atom, factor in terms))


@functools.lru_cache(maxsize=65536)
def known_equal(a: Dim, b: Dim) -> bool | None:
    """True or False where the sizes are provably equal or different, None where that depends on run time."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if a is b or a == b:
        return True
    gap = expanded(sympy.sympify(a - b))
    if gap == 0:
        return True
    if gap.is_Integer or is_nonnegative(gap - 1) or is_nonnegative(-gap - 1):
        return False
    if is_nonnegative(gap) and is_nonnegative(-gap):
        return True
    return True if sympy.expand(gap) == 0 else None
