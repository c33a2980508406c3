"""The symbols of one program and the types made of them.

The symbols belong to a `torch.fx.experimental.symbolic_shapes.ShapeEnv` as *unbacked* symbols, so that the finished program
is an ordinary dynamic-shape program.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo

from onnx2torch_mlir.core.dims import OPAQUE, replaced
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.signs import SIGNED_FROM


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
            if isinstance(opaque, OPAQUE) and isinstance(plain, int | sympy.Symbol):
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
            simpler = replaced(dim, self._equalities)
            if isinstance(simpler, int) or simpler == dim:
                return simpler
            dim = simpler
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
