"""Symbolic sizes: sympy expressions of a program's dims as index arithmetic.

The symbolic-int nodes of a program are not lowered one by one. Symbols are bound where they arise (a dim of an input,
the result of a data-dependent operation); any expression over them is emitted where it is needed and cached for its
block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import Max, Min
from torch_mlir import ir

from onnx2torch_mlir.core.dims import is_nonnegative, known_equal, replaced, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import Builder


def equal(x: Dim, y: Dim) -> bool:
    """Whether two sizes are the same for every value of their symbols."""
    return known_equal(x, y) is True or known_equal(_plain(x), _plain(y)) is True


@cache
def _plain(dim: Dim) -> Dim:
    """``dim`` with sympy's Max and Min for torch's, which are never equal to them."""
    return dim if isinstance(dim, int) else to_dim(dim.replace(Max, sympy.Max).replace(Min, sympy.Min))


class Sizes:
    """The table of symbols of a module being built, and the printer of expressions over them."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder
        self.bound: dict[sympy.Symbol, ir.Value] = {}
        self.numbers: set[sympy.Symbol] = set()
        self.meanings: dict[sympy.Basic, sympy.Basic] = {}

    def bind(self, symbol: sympy.Symbol, value: ir.Value, *, size: bool = True) -> None:
        """Let ``symbol`` stand for an index value: a size, or a number that may be negative."""
        self.bound[symbol] = value
        if not size:
            self.numbers.add(symbol)

    def remember(self, dim: sympy.Expr, value: ir.Value) -> None:
        """Let a size whose symbols nothing binds stand for an index value, in this block and those within."""
        if isinstance(dim, sympy.Symbol):
            self.bind(dim, value)
        else:
            self.b.scopes[-1][dim] = value

    def define(self, symbol: sympy.Symbol, meaning: Dim) -> None:
        """Let ``symbol`` stand for an expression that can be had."""
        self.bind(symbol, self.value(meaning), size=self.nonnegative(meaning))
        self.meanings[symbol] = sympy.sympify(meaning)

    def equal(self, x: Dim, y: Dim) -> bool:
        """Whether two sizes are the same, also by what their symbols were defined to be."""
        return equal(x, y) or (bool(self.meanings) and equal(replaced(x, self.meanings), replaced(y, self.meanings)))

    def nonnegative(self, dim: Dim) -> bool:
        """Whether an expression is provably at least 0, given that sizes are."""
        if isinstance(dim, int):
            return dim >= 0
        return not dim.free_symbols & self.numbers and is_nonnegative(dim)

    def knows(self, expr: sympy.Basic) -> bool:
        """Whether the value of ``expr`` can be had: every symbol is bound, or the whole is remembered."""
        return all(symbol in self.bound for symbol in expr.free_symbols) or self.b.remembered(expr) is not None

    def value(self, dim: Dim) -> ir.Value:
        """A size as an index value."""
        if isinstance(dim, int):
            return self.b.idx(dim)
        return self._emit(dim)

    def scalar(self, expr: sympy.Basic) -> tuple[ir.Value, torch.dtype]:
        """A symbolic number or truth value as a scalar: i64, f64 or i1."""
        value = self._emit(expr)
        if value.type == self.b.index:
            return self.b.from_index(value, torch.int64), torch.int64
        return value, torch.bool if value.type == self.b.i1 else torch.float64

    def condition(self, expr: sympy.Basic) -> ir.Value:
        """A sympy boolean as an i1."""
        return self._emit(expr)

    def _emit(self, expr: sympy.Basic) -> ir.Value:
        if isinstance(expr, sympy.Symbol):
            if expr not in self.bound:
                raise refuse(
                    "O2M-L002",
                    f"the size {expr} is bound by no input and by no data-dependent operation",
                    hint="Give every dynamic dim an input that has it as its size.",
                    case=str(expr),
                )
            return self.bound[expr]
        found = self.b.remembered(expr)
        if found is None:
            emit = _EMITTERS.get(type(expr).__name__)
            if emit is None:
                if isinstance(expr, sympy.Integer):
                    return self.b.idx(int(expr))
                if isinstance(expr, (sympy.Float, sympy.Rational)):
                    return self.b.float_constant(float(expr), self.b.f64)
                raise refuse("O2M-L002", f"{type(expr).__name__} of sizes has no lowering", case=str(expr))
            found = self.b.scopes[-1][expr] = emit(self, expr)
        return found

    # --- helpers of the emitters

    def args(self, expr: sympy.Basic) -> list[ir.Value]:
        """The operands, all f64 if one of them is, else index (or i1)."""
        values = [self._emit(a) for a in expr.args]
        if any(v.type == self.b.f64 for v in values):
            values = [self.real(v) for v in values]
        return values

    def real(self, value: ir.Value) -> ir.Value:
        """A number as f64."""
        if value.type == self.b.f64:
            return value
        return self.b.make("arith.sitofp", self.b.f64, self.b.from_index(value, torch.int64))

    def integer(self, value: ir.Value) -> ir.Value:
        """An f64 with an integral value as an index."""
        if value.type != self.b.f64:
            return value
        return self.b.to_index(self.b.make("arith.fptosi", self.b.i64, value), torch.int64)

    def chain(self, expr: sympy.Basic, int_op: str, float_op: str) -> ir.Value:
        """A left fold of the operands with a binary operation."""
        values = self.args(expr)
        name = float_op if values[0].type == self.b.f64 else int_op
        return reduce(lambda a, b: self.b.same(name, a, b), values)

    def divide(self, name: str, x: ir.Value, y: ir.Value, divisor: sympy.Basic) -> ir.Value:
        """An integer division that gives 0 where the divisor is 0."""
        if isinstance(divisor, sympy.Integer) and divisor != 0:
            return self.b.same(name, x, y)
        zero = self.b.idx(0)
        is_zero = self.b.compare("eq", y, zero)
        return self.b.select(is_zero, zero, self.b.same(name, x, self.b.select(is_zero, self.b.idx(1), y)))


_Emitter = Callable[[Sizes, Any], ir.Value]


def _add(s: Sizes, e: sympy.Add) -> ir.Value:
    return s.chain(e, "arith.addi", "arith.addf")


def _mul(s: Sizes, e: sympy.Mul) -> ir.Value:
    numerator, denominator = e.as_numer_denom()
    if denominator != 1:
        x, y = s._emit(numerator), s._emit(denominator)
        if e.is_integer and x.type == s.b.index:
            return s.divide("arith.floordivsi", x, y, denominator)
        return s.b.same("arith.divf", s.real(x), s.real(y))
    return s.chain(e, "arith.muli", "arith.mulf")


def _pow(s: Sizes, e: Any) -> ir.Value:
    base, exponent = e.args
    if isinstance(exponent, sympy.Integer) and 0 <= exponent <= 16:
        value = s._emit(base)
        name = "arith.mulf" if value.type == s.b.f64 else "arith.muli"
        one = s.b.float_constant(1.0, s.b.f64) if value.type == s.b.f64 else s.b.idx(1)
        return reduce(lambda a, _: s.b.same(name, a, value), range(int(exponent)), one)
    return s.b.same("math.powf", s.real(s._emit(base)), s.real(s._emit(exponent)))


def _floordiv(s: Sizes, e: Any) -> ir.Value:
    x, y = s.args(e)
    if x.type == s.b.f64:
        return s.integer(s.b.same("math.floor", s.b.same("arith.divf", x, y)))
    return s.divide("arith.floordivsi", x, y, e.args[1])


def _ceildiv(s: Sizes, e: Any) -> ir.Value:
    x, y = s.args(e)
    return s.divide("arith.ceildivsi", x, y, e.args[1])


def _mod(s: Sizes, e: Any) -> ir.Value:
    x, y = s.args(e)
    quotient = s.divide("arith.floordivsi", x, y, e.args[1])
    return s.b.same("arith.subi", x, s.b.same("arith.muli", quotient, y))


def _modular_indexing(s: Sizes, e: Any) -> ir.Value:
    base, divisor, modulus = s.args(e)
    quotient = s.divide("arith.floordivsi", base, divisor, e.args[1])
    whole = s.divide("arith.floordivsi", quotient, modulus, e.args[2])
    return s.b.same("arith.subi", quotient, s.b.same("arith.muli", whole, modulus))


def _true_div(s: Sizes, e: Any) -> ir.Value:
    x, y = s.args(e)
    return s.b.same("arith.divf", s.real(x), s.real(y))


def _rounded(function: str) -> _Emitter:
    def emit(s: Sizes, e: Any) -> ir.Value:
        value = s._emit(e.args[0])
        return s.integer(s.b.same(function, value)) if value.type == s.b.f64 else value

    return emit


def _math(function: str) -> _Emitter:
    return lambda s, e: s.b.same(function, s.real(s._emit(e.args[0])))


def _relation(int_predicate: str, float_predicate: str) -> _Emitter:
    def emit(s: Sizes, e: Any) -> ir.Value:
        x, y = s.args(e)
        return s.b.compare(float_predicate if x.type == s.b.f64 else int_predicate, x, y)

    return emit


def _where(s: Sizes, e: Any) -> ir.Value:
    return _choose(s, s._emit(e.args[0]), s._emit(e.args[1]), s._emit(e.args[2]))


def _piecewise(s: Sizes, e: Any) -> ir.Value:
    pairs = [(s._emit(value), s._emit(condition)) for value, condition in e.args]
    return reduce(lambda rest, pair: _choose(s, pair[1], pair[0], rest), reversed(pairs[:-1]), pairs[-1][0])


def _choose(s: Sizes, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    if s.b.f64 in (x.type, y.type):
        x, y = s.real(x), s.real(y)
    return s.b.select(condition, x, y)


def _abs(s: Sizes, e: Any) -> ir.Value:
    value = s._emit(e.args[0])
    if value.type == s.b.f64:
        return s.b.same("math.absf", value)
    return s.b.same("arith.maxsi", value, s.b.same("arith.subi", s.b.idx(0), value))


_EMITTERS: dict[str, _Emitter] = {
    "Add": _add,
    "Mul": _mul,
    "Pow": _pow,
    "PowByNatural": _pow,
    "FloatPow": _pow,
    "FloorDiv": _floordiv,
    "CleanDiv": _floordiv,
    "CeilDiv": _ceildiv,
    "Mod": _mod,
    "PythonMod": _mod,
    "ModularIndexing": _modular_indexing,
    "IntTrueDiv": _true_div,
    "FloatTrueDiv": _true_div,
    "Max": lambda s, e: s.chain(e, "arith.maxsi", "arith.maximumf"),
    "Min": lambda s, e: s.chain(e, "arith.minsi", "arith.minimumf"),
    "Abs": _abs,
    "ToFloat": lambda s, e: s.real(s._emit(e.args[0])),
    "TruncToInt": _rounded("math.trunc"),
    "TruncToFloat": _math("math.trunc"),
    "FloorToInt": _rounded("math.floor"),
    "floor": _rounded("math.floor"),
    "CeilToInt": _rounded("math.ceil"),
    "ceiling": _rounded("math.ceil"),
    "RoundToInt": _rounded("math.roundeven"),
    "OpaqueUnaryFn_sqrt": _math("math.sqrt"),
    "OpaqueUnaryFn_exp": _math("math.exp"),
    "OpaqueUnaryFn_log": _math("math.log"),
    "OpaqueUnaryFn_log2": _math("math.log2"),
    "Equality": _relation("eq", "oeq"),
    "Unequality": _relation("ne", "une"),
    "StrictLessThan": _relation("slt", "olt"),
    "LessThan": _relation("sle", "ole"),
    "StrictGreaterThan": _relation("sgt", "ogt"),
    "GreaterThan": _relation("sge", "oge"),
    "Identity": lambda s, e: s._emit(e.args[0]),
    "LShift": lambda s, e: s.chain(e, "arith.shli", "arith.shli"),
    "RShift": lambda s, e: s.chain(e, "arith.shrsi", "arith.shrsi"),
    "BitwiseFn_bitwise_and": lambda s, e: s.chain(e, "arith.andi", "arith.andi"),
    "BitwiseFn_bitwise_or": lambda s, e: s.chain(e, "arith.ori", "arith.ori"),
    "BitwiseFn_bitwise_xor": lambda s, e: s.chain(e, "arith.xori", "arith.xori"),
    "And": lambda s, e: s.chain(e, "arith.andi", "arith.andi"),
    "Or": lambda s, e: s.chain(e, "arith.ori", "arith.ori"),
    "Not": lambda s, e: s.b.logical_not(s._emit(e.args[0])),
    "BooleanTrue": lambda s, e: s.b.int_constant(1, s.b.i1),
    "BooleanFalse": lambda s, e: s.b.int_constant(0, s.b.i1),
    "Where": _where,
    "Piecewise": _piecewise,
}
