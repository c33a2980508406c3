"""Sizes: numbers or sympy expressions over named symbols, never guarded on and never specialised to 0 or 1.

The symbols belong to a `torch.fx.experimental.symbolic_shapes.ShapeEnv` as *unbacked* symbols, so that the finished program
is an ordinary dynamic-shape program; the algebra here works on the expressions directly, which is some ten times cheaper
than `torch.SymInt` arithmetic and cannot trigger a guard.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from functools import reduce

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod
from torch.utils._sympy.numbers import int_oo

from onnx2torch_mlir.core.signature import Dim


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
    a, b = sympy.sympify(a), sympy.sympify(b)
    quotient = _exact_quotient(a, b)
    return to_dim(FloorDiv(a, b) if quotient is None else quotient)


def ceil_div(a: Dim, b: Dim) -> Dim:
    """``a // b``, rounded up; ``b`` is positive."""
    return floor_div(to_dim(a + b - 1), b)


def modulo(a: Dim, b: Dim) -> Dim:
    """``a % b`` with the sign of ``b``, as in Python."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return to_dim(PythonMod(sympy.sympify(a), sympy.sympify(b)))


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller size."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if is_nonnegative(to_dim(a - b)):
        return b
    if is_nonnegative(to_dim(b - a)):
        return a
    return _settled(sympy.Min(a, b))


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger size."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    if is_nonnegative(to_dim(a - b)):
        return a
    if is_nonnegative(to_dim(b - a)):
        return b
    return _settled(sympy.Max(a, b))


def _settled(choice: sympy.Expr) -> Dim:
    """``choice`` without extrema of numbers, which sympy leaves where it moves terms: ``Min(n, Max(1, 3))``."""
    numbers = {part: part.func(*part.args) for part in choice.atoms(sympy.Min, sympy.Max) if not part.free_symbols}
    return to_dim(choice.xreplace(numbers) if numbers else choice)


_FEW = 2
"""How many minima and maxima a size may hold to be taken apart."""


def difference(a: Dim, b: Dim) -> Dim:
    """``a - b``; a minimum or maximum that is taken away becomes one of differences: ``n - Max(0, n - 1)`` is ``Min(n, 1)``.

    Only while there are few: sympy compares all of them with each other, as often as they are nested.
    """
    if choices(a) + choices(b) > _FEW:
        return to_dim(a - b)
    if isinstance(b, sympy.Max):
        return reduce(minimum, [difference(a, to_dim(part)) for part in b.args])
    if isinstance(b, sympy.Min):
        return reduce(maximum, [difference(a, to_dim(part)) for part in b.args])
    return to_dim(a - b)


def stretches(size: Dim, target: Dim) -> bool:
    """Whether an axis of ``size`` can be broadcast to ``target`` for certain: it is 1, or 0 where ``target`` is 0."""
    if isinstance(size, int):
        return size == 1
    return is_nonnegative(to_dim(1 - size)) and bool(known_equal(size, minimum(1, target)))


def choices(dim: Dim) -> int:
    """How many minima, maxima and cases ``dim`` holds."""
    parts = sympy.preorder_traversal(sympy.sympify(dim))
    return sum(isinstance(part, sympy.Min | sympy.Max | sympy.Piecewise) for part in parts)


def exact_div(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` where that is provably an integer expression, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b != 0 and a % b == 0 else None
    quotient = _exact_quotient(sympy.sympify(a), sympy.sympify(b))
    return None if quotient is None else to_dim(quotient)


_OPAQUE = (FloorDiv, Mod, PythonMod, sympy.Min, sympy.Max, sympy.Piecewise)
"""What polynomial division takes as a variable."""


@functools.lru_cache(maxsize=65536)
def _exact_quotient(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    if b == 0:
        return None
    opaque = {part: sympy.Dummy(integer=True) for part in a.atoms(*_OPAQUE) | b.atoms(*_OPAQUE)}
    quotient = sympy.cancel(a.xreplace(opaque) / b.xreplace(opaque))
    _, denominator = quotient.as_numer_denom()
    if denominator != 1:
        return None
    quotient = sympy.expand(quotient)
    integral = all(term.as_coeff_Mul()[0].is_Integer for term in sympy.Add.make_args(quotient))
    return quotient.xreplace({dummy: part for part, dummy in opaque.items()}) if integral else None


@functools.lru_cache(maxsize=65536)
def _difference(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    return sympy.expand(a - b)


def known_equal(a: Dim, b: Dim) -> bool | None:
    """True or False where the sizes are provably equal or different, None where that depends on run time."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if a is b or a == b:
        return True
    difference = _difference(sympy.sympify(a), sympy.sympify(b))
    if difference == 0:
        return True
    if difference.is_Integer:
        return False
    if is_nonnegative(to_dim(difference - 1)) or is_nonnegative(to_dim(-difference - 1)):
        return False
    return None


SIGNED_FROM = 1_000_000
"""Symbols numbered from here on are numbers of either sign (starts, ends, pads); those below are sizes."""


def is_signed(symbol: sympy.Basic) -> bool:
    """Whether ``symbol`` stands for a number that may be negative, rather than for a size."""
    number = str(symbol).lstrip("su")
    return number.isdecimal() and int(number) >= SIGNED_FROM


def has_signed(dim: Dim) -> bool:
    """Whether a number of either sign occurs in ``dim``."""
    return not isinstance(dim, int) and any(is_signed(symbol) for symbol in dim.free_symbols)


_twins: dict[sympy.Symbol, sympy.Symbol] = {}


def _twin(symbol: sympy.Symbol) -> sympy.Symbol:
    if symbol not in _twins:
        assumptions = {} if is_signed(symbol) else {"nonnegative": True}
        _twins[symbol] = sympy.Symbol(symbol.name, integer=True, **assumptions)
    return _twins[symbol]


def _quotient(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """A quotient in a form whose sign sympy can decide; a divisor that is a size and 0 gives no negative number."""
    if b.is_Integer:
        return sympy.floor(a / b)
    return sympy.Dummy(integer=True, nonnegative=True if is_nonnegative(a) and is_nonnegative(b) else None)


@functools.lru_cache(maxsize=65536)
def is_nonnegative(dim: Dim) -> bool:
    """Whether the expression is provably at least 0, given that every symbol of a size is."""
    if isinstance(dim, int):
        return dim >= 0
    constant, rest = dim.as_coeff_Add()
    few = choices(rest) <= _FEW
    if few and isinstance(rest, sympy.Min | sympy.Max):
        every = all if isinstance(rest, sympy.Min) else any
        return every(is_nonnegative(to_dim(part + constant)) for part in rest.args)
    if few and isinstance(-rest, sympy.Min | sympy.Max):
        every = all if isinstance(-rest, sympy.Max) else any
        return every(is_nonnegative(to_dim(constant - part)) for part in (-rest).args)
    if isinstance(rest, FloorDiv) and rest.args[1].is_Integer and rest.args[1] > 0:
        return is_nonnegative(to_dim(sympy.expand(rest.args[0] + constant * rest.args[1])))
    expression = dim.replace(FloorDiv, _quotient)
    twin = expression.xreplace({symbol: _twin(symbol) for symbol in expression.free_symbols})
    return bool(twin.is_nonnegative)


class DimTable:
    """The symbols of one program: made here, named after ONNX dims, and turned into `torch.SymInt` and FakeTensors.

    ``names`` maps a symbol's name to the ONNX dim or, for a data-dependent size, to what produced it.
    """

    def __init__(self) -> None:
        self.shape_env = ShapeEnv()
        self.fake_mode = FakeTensorMode(shape_env=self.shape_env, allow_non_fake_inputs=True)
        self.names: dict[str, str] = {}
        self.by_name: dict[str, sympy.Symbol] = {}
        self._symints: dict[sympy.Expr, int | torch.SymInt] = {}
        self._fakes: dict[tuple[torch.dtype, tuple[Dim, ...]], FakeTensor] = {}
        self._equalities: dict[sympy.Expr, sympy.Expr] = {}
        self._signed = 0

    def new_symbol(self, name: str, *, signed: bool = False) -> sympy.Symbol:
        """A fresh symbol for a size of at least 0, or for a ``signed`` number that is only known at run time.

        The two kinds are told apart by their numbers (`is_signed`): the algebra never takes a signed one to be positive.
        """
        if signed:
            counter = self.shape_env.unbacked_symint_counter
            self.shape_env.unbacked_symint_counter = SIGNED_FROM + self._signed
            self._signed += 1
            size = self.shape_env.create_unbacked_symint()
            self.shape_env.unbacked_symint_counter = counter
        else:
            size = self.shape_env.create_unbacked_symint()
            # What torch._check(size >= 0) comes to; that also records an assertion, and takes forty times as long.
            self.shape_env.constrain_symbol_range(size.node.expr, 0, int_oo)
        symbol = size.node.expr
        self.names[str(symbol)] = name
        self._symints[symbol] = size
        return symbol

    def fresh_name(self, stem: str) -> str:
        """``stem``, numbered where a symbol is named so already."""
        taken = set(self.names.values())
        numbered = (f"{stem} ({count})" for count in itertools.count(2))
        return next(name for name in itertools.chain([stem], numbered) if name not in taken)

    def input_symbol(self, name: str) -> sympy.Symbol:
        """The symbol of the ONNX dim ``name``: one symbol for all inputs that use the name."""
        if name not in self.by_name:
            self.by_name[name] = self.new_symbol(name)
        return self.by_name[name]

    def merge(self, a: Dim, b: Dim) -> None:
        """Record that the program asserts ``a == b``, so that later sizes are simplified by it."""
        a, b = self.simplify(a), self.simplify(b)
        for opaque, plain in ((a, b), (b, a)):
            if isinstance(opaque, _OPAQUE) and isinstance(plain, int | sympy.Symbol):
                self._equalities[opaque] = sympy.sympify(plain)
                return
        if isinstance(b, sympy.Symbol) and (isinstance(a, int) or b not in a.free_symbols):
            self._equalities[b] = sympy.sympify(a)
        elif isinstance(a, sympy.Symbol) and (isinstance(b, int) or a not in b.free_symbols):
            self._equalities[a] = sympy.sympify(b)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Forget, if an exception leaves the block, the equalities that were recorded in it."""
        before = dict(self._equalities)
        try:
            yield
        except BaseException:
            self._equalities = before
            raise

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Forget, after the block, the equalities that were recorded in it: a branch or a body need not run at all."""
        before = dict(self._equalities)
        try:
            yield
        finally:
            self._equalities = before

    def simplify(self, dim: Dim) -> Dim:
        """``dim`` with what the program asserts about its symbols put in."""
        if isinstance(dim, int) or not self._equalities:
            return dim
        for _ in range(len(self._equalities)):
            replaced = to_dim(dim.xreplace(self._equalities))
            if isinstance(replaced, int) or replaced == dim:
                return replaced
            dim = replaced
        return dim

    def symint(self, dim: Dim) -> int | torch.SymInt:
        """``dim`` as torch knows it."""
        if isinstance(dim, int):
            return dim
        if dim not in self._symints:
            self._symints[dim] = self.shape_env.create_symintnode(dim, hint=None)
        return self._symints[dim]

    def fake(self, dtype: torch.dtype, shape: tuple[Dim, ...]) -> FakeTensor:
        """A contiguous FakeTensor of this type; the same object for the same type."""
        key = (dtype, shape)
        if key not in self._fakes:
            # As under the mode, without its dispatch and its cache: a tenth of the time, and there are thousands.
            meta = torch.empty([self.symint(dim) for dim in shape], dtype=dtype, device="meta")
            self._fakes[key] = FakeTensor(self.fake_mode, meta, torch.device("cpu"))
        return self._fakes[key]

    def describe(self, dim: Dim) -> str:
        """``dim`` with ONNX names for its symbols, for messages."""
        if isinstance(dim, int):
            return str(dim)
        return str(dim.xreplace({s: sympy.Symbol(self.names.get(str(s), str(s))) for s in dim.free_symbols}))
