"""Signs of sizes: what is at least 0 whatever its symbols are, decided by bounds and a bounded search.

An expression is taken as a linear form over *atoms*: symbols, products of symbols, quotients, remainders, minima and
maxima. Every atom has an interval; where the intervals do not decide, an extremum is replaced by each of its operands
and a quotient by the fractions on both sides of it. A proof that is not found means that nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from torch.utils._sympy import functions as torch_functions
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

from onnx2torch_mlir.core.signature import Dim

SIGNED_FROM = 1_000_000
"""Symbols numbered from here on are numbers of either sign (starts, ends, pads); those below are sizes."""

MINIMA = (sympy.Min, torch_functions.Min)
MAXIMA = (sympy.Max, torch_functions.Max)
REMAINDERS = (Mod, PythonMod)

_Form = dict[sympy.Basic, Fraction]
"""Coefficient by atom; 1 is the atom of the constant."""
_Bounds = tuple[Fraction | None, Fraction | None]
_Options = tuple[Callable[[Iterable[bool]], bool], list[_Form]]
_ANYTHING: _Bounds = (None, None)
_STEPS = 64
"""Forms that one proof may look at."""


def is_signed(symbol: sympy.Basic) -> bool:
    """Whether ``symbol`` stands for a number that may be negative, rather than for a size."""
    number = str(symbol).lstrip("su")
    return number.isdecimal() and int(number) >= SIGNED_FROM


def has_signed(dim: Dim) -> bool:
    """Whether a number of either sign occurs in ``dim``."""
    return not isinstance(dim, int) and any(is_signed(symbol) for symbol in dim.free_symbols)


@lru_cache(maxsize=65536)
def is_nonnegative(dim: Dim) -> bool:
    """Whether the expression is provably at least 0, given that every symbol of a size is."""
    if isinstance(dim, int):
        return dim >= 0
    form = linear_form(dim)
    # An integer above -1 is at least 0, which the fractions that stand for quotients need.
    return _holds(form, _is_whole_form(form), [_STEPS])


def is_whole(dim: Dim) -> bool:
    """Whether the expression is an integer for all integers that its symbols stand for."""
    return isinstance(dim, int) or _is_whole_form(linear_form(dim))


def _is_whole_form(form: _Form) -> bool:
    return all(coefficient.denominator == 1 and _is_whole_atom(atom) for atom, coefficient in form.items())


@lru_cache(maxsize=65536)
def _is_whole_atom(atom: sympy.Basic) -> bool:
    # sympy would deduce all that it can about the sign and the parity of every part.
    if isinstance(atom, (FloorDiv, *REMAINDERS, *MINIMA, *MAXIMA, sympy.Mul)):
        return all(map(is_whole, atom.args))
    if isinstance(atom, sympy.Piecewise):
        return all(is_whole(value) for value, _ in atom.args)
    return bool(atom.is_integer)


@lru_cache(maxsize=65536)
def linear_form(dim: sympy.Expr) -> _Form:
    """``dim`` as a sum of atoms with coefficients; products of sums are multiplied out, atoms are left as they are."""
    form: _Form = {}
    for term in sympy.Add.make_args(dim):
        coefficient, rest = term.as_coeff_Mul()
        if not coefficient.is_Rational:
            _add(form, Fraction(1), {term: Fraction(1)})
            continue
        factor = Fraction(int(coefficient.p), int(coefficient.q))
        if isinstance(rest, sympy.Add):
            _add(form, factor, linear_form(rest))
            continue
        opened = sympy.expand(rest, deep=False) if _holds_sums(rest) else rest
        _add(form, factor, {rest: Fraction(1)} if opened == rest else linear_form(opened))
    return form


def _holds_sums(term: sympy.Basic) -> bool:
    return isinstance(term, sympy.Mul | sympy.Pow) and any(
        isinstance(item, sympy.Add) or _holds_sums(item) for item in term.args
    )


def _add(form: _Form, factor: Fraction, other: _Form) -> None:
    for atom, coefficient in other.items():
        total = form.get(atom, Fraction(0)) + factor * coefficient
        if total:
            form[atom] = total
        else:
            form.pop(atom, None)


def _holds(form: _Form, whole: bool, steps: list[int]) -> bool:
    """Whether ``form`` is at least 0: by its bounds, or with an atom replaced by something that bounds it."""
    steps[0] -= 1
    if steps[0] < 0:
        return False
    low, _ = _bounds_of_form(form)
    if low is not None and (low > -1 if whole else low >= 0):
        return True
    chosen: tuple[sympy.Basic, _Options] | None = None
    for atom, coefficient in form.items():
        options = _options(atom, coefficient > 0)
        # What has to hold for every operand goes first: then the choice among others may differ from one to the next.
        if options is not None and (chosen is None or options[0] is all):
            chosen = atom, options
            if options[0] is all:
                break
    if chosen is None:
        return False
    atom, (every, parts) = chosen
    rest = {other: coefficient for other, coefficient in form.items() if other != atom}

    def replaced(part: _Form) -> _Form:
        result = dict(rest)
        _add(result, form[atom], part)
        return result

    return every(_holds(replaced(part), whole, steps) for part in parts)


def _options(atom: sympy.Basic, above: bool) -> _Options | None:
    """Forms of which all, or any, have to be tried in place of ``atom``, which stands ``above`` 0 or is taken away."""
    if isinstance(atom, (*MINIMA, *MAXIMA)):
        every = all if isinstance(atom, MINIMA) == above else any
        return every, [linear_form(part) for part in atom.args]
    if isinstance(atom, sympy.Piecewise):
        return all, [linear_form(value) for value, _ in atom.args]
    if isinstance(atom, FloorDiv | Mod | PythonMod) and _is_positive(atom.args[1]):
        operand, divisor = linear_form(atom.args[0]), Fraction(int(atom.args[1]))
        if isinstance(atom, FloorDiv):
            if not _is_whole_form(operand):
                return None
            quotient: _Form = {}
            _add(quotient, 1 / divisor, operand)
            if above:
                _add(quotient, Fraction(1), {sympy.S.One: (1 - divisor) / divisor})
            return any, [quotient, *_ends(atom, above)]
        if not above and is_nonnegative(atom.args[0]):
            return any, [operand, *_ends(atom, above)]
    return None


def _ends(atom: sympy.Basic, above: bool) -> list[_Form]:
    end = _bounds(atom)[0 if above else 1]
    return [] if end is None else [{sympy.S.One: end}]


def _is_positive(number: Any) -> bool:
    return bool(number.is_Integer and number > 0)


def _bounds_of_form(form: _Form) -> _Bounds:
    low: Fraction | None = Fraction(0)
    high: Fraction | None = Fraction(0)
    for atom, coefficient in form.items():
        ends = _bounds(atom) if coefficient > 0 else _bounds(atom)[::-1]
        low = None if low is None or ends[0] is None else low + coefficient * ends[0]
        high = None if high is None or ends[1] is None else high + coefficient * ends[1]
    return low, high


@lru_cache(maxsize=65536)
def _bounds(atom: sympy.Basic) -> _Bounds:
    """The least and the greatest value of an atom, None where it has none or none is known."""
    if atom is sympy.S.One:
        return Fraction(1), Fraction(1)
    if isinstance(atom, sympy.Symbol):
        return (None if is_signed(atom) else Fraction(0)), None
    if isinstance(atom, sympy.Mul):
        return _bounds_of_product([_bounds_of_form(linear_form(factor)) for factor in atom.args])
    if isinstance(atom, sympy.Pow) and atom.exp.is_Integer and atom.exp > 0:
        return _bounds_of_product([_bounds_of_form(linear_form(atom.base))] * int(atom.exp))
    if isinstance(atom, (*MINIMA, *MAXIMA, sympy.Piecewise)):
        return _bounds_of_choice(atom)
    if isinstance(atom, FloorDiv):
        return _bounds_of_quotient(*atom.args)
    if isinstance(atom, REMAINDERS) and _is_positive(atom.args[1]):
        return Fraction(0), Fraction(int(atom.args[1]) - 1)
    return (Fraction(0) if _by_sympy(atom) else None), None


def _bounds_of_product(factors: list[_Bounds]) -> _Bounds:
    low, high = Fraction(1), Fraction(1)
    bounded = True
    for least, greatest in factors:
        if least is None or least < 0:
            return _ANYTHING
        low *= least
        bounded = bounded and greatest is not None
        high *= greatest or 0
    return low, high if bounded else None


def _bounds_of_choice(atom: sympy.Basic) -> _Bounds:
    operands = [value for value, _ in atom.args] if isinstance(atom, sympy.Piecewise) else atom.args
    ends = [_bounds_of_form(linear_form(operand)) for operand in operands]
    lows, highs = ([end for end in side if end is not None] for side in zip(*ends, strict=True))
    every_low = min(lows) if len(lows) == len(ends) else None
    every_high = max(highs) if len(highs) == len(ends) else None
    if isinstance(atom, MINIMA):
        return every_low, min(highs, default=None)
    if isinstance(atom, MAXIMA):
        return max(lows, default=None), every_high
    return every_low, every_high


def _bounds_of_quotient(operand: sympy.Expr, divisor: sympy.Expr) -> _Bounds:
    low, high = _bounds_of_form(linear_form(operand))
    if _is_positive(divisor):
        by = int(divisor)
        return (None if low is None else Fraction(low // by)), (None if high is None else Fraction(high // by))
    # A divisor that is a size and 0 gives no negative number.
    return (Fraction(0), high) if is_nonnegative(operand) and is_nonnegative(divisor) else _ANYTHING


def _by_sympy(atom: sympy.Basic) -> bool:
    """What sympy knows of a function that is none of the above: programs that were traced hold others."""
    sizes = {
        symbol: sympy.Symbol(symbol.name, integer=True, nonnegative=None if is_signed(symbol) else True)
        for symbol in atom.free_symbols
        if isinstance(symbol, sympy.Symbol)
    }
    return bool(atom.xreplace(sizes).is_nonnegative)
