"""Sizes of the program being built: assertions about them, broadcasting, and sizes that data decide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import sympy
import torch
import torch.fx

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.calls import Calls
from onnx2torch_mlir.core.dim_table import DimTable
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.symbolic_nodes import SymbolicNodes
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


class Sizing(Calls):
    """Mixed into the builder."""

    table: DimTable
    graph: torch.fx.Graph
    symbols: SymbolicNodes
    origin: str
    _asserted: set[sympy.Basic]
    _size_of: dict[sympy.Basic, sympy.Symbol]
    _names_of: dict[sympy.Basic, sympy.Symbol]

    @abstractmethod
    def stamp(self, node: torch.fx.Node) -> None:
        """Record provenance on ``node``."""

    @abstractmethod
    def node_of(self, value: Value) -> torch.fx.Node:
        """The node of ``value`` in this program."""

    def require_equal(self, a: Dim, b: Dim, message: str) -> None:
        """Assert that two sizes are equal: now if that is known, else when the program runs.

        Raises:
            Refusal: O2M-C006 where they are known to differ.
        """
        a, b = self.simplify(a), self.simplify(b)
        if a != b:
            a, b = self.bounded(a), self.bounded(b)
        equal = D.known_equal(a, b)
        if equal:
            return
        detail = f"{message}: {self.table.describe(a)} is not {self.table.describe(b)}"
        if equal is False:
            raise refuse("O2M-C006", detail)
        self.require(D.equation(a, b), f"{message}: {self.table.describe(a)} must equal {self.table.describe(b)}")
        self.table.merge(a, b)

    def require(self, condition: sympy.Basic, message: str) -> None:
        """Assert a condition over sizes when the program runs (``aten._assert_scalar``); names are ONNX dims."""
        if condition == sympy.true:
            return
        if condition == sympy.false:
            raise refuse("O2M-C006", message)
        if condition in self._asserted:
            return
        self._asserted.add(condition)
        node = self.graph.call_function(
            torch.ops.aten._assert_scalar.default, (self.symbols.node(condition), message)
        )
        node.meta["val"] = None
        self.stamp(node)

    def broadcast(self, operands: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The NumPy broadcast of ``operands``; sizes that cannot be compared are asserted to be equal."""
        rank = max(map(len, operands), default=0)
        result: list[Dim] = []
        for position in range(rank):
            chosen: Dim = 1
            for shape in operands:
                offset = position - rank + len(shape)
                size = shape[offset] if offset >= 0 else 1
                if size == 1 or size is chosen:
                    continue
                if D.stretches(chosen, size):
                    chosen = size
                    continue
                if D.stretches(size, chosen):
                    continue
                self.require_equal(chosen, size, "sizes of operands that are broadcast together")
                chosen = size if isinstance(size, int) else self.table.simplify(chosen)
            result.append(chosen)
        return tuple(result)

    def item(self, value: Value, *, signed: bool = False) -> Dim:
        """The only element of an integer value as a size: known, or a data-dependent symbol.

        A size is asserted to be at least 0 when the program runs; a ``signed`` one may be any number and becomes a size
        through `as_size`.

        Source: ``aten::_local_scalar_dense``.
        """
        known = value.dims()
        return known[0] if known is not None else self._read(self.node_of(value), signed)

    def _read(self, tensor: torch.fx.Node, signed: bool, *, checked: bool = True) -> sympy.Symbol:
        symbol = self.table.new_symbol(self.table.fresh_name(f"value of {self.origin or 'a tensor'}"), signed=signed)
        node = self.graph.call_function(torch.ops.aten._local_scalar_dense.default, (tensor,))
        node.meta["val"] = self.table.symint(symbol)
        self.stamp(node)
        self.symbols.define(symbol, node)
        if checked and not signed:
            self.require(sympy.Ge(symbol, 0), f"a size computed by {self.origin or 'the program'} is negative")
        return symbol

    def simplify(self, dim: Dim) -> Dim:
        """``dim`` with what the program asserts about its symbols put in, and the names of what has one."""
        dim = self.table.simplify(dim)
        return D.replaced(dim, self._names_of)

    def as_size(self, dim: Dim) -> Dim:
        """``dim`` as the size of an axis: itself, or a size with its value where it holds a number of either sign.

        Raises:
            Refusal: O2M-C006 where it is known to be negative.
        """
        if isinstance(dim, int) and dim < 0:
            raise refuse("O2M-C006", f"{dim} cannot be a size")
        dim = self.simplify(dim)
        return self.opaque_size(dim) if D.has_signed(dim) and not D.is_nonnegative(dim) else self.bounded(dim, size=True)

    def bounded(self, dim: Dim, *, size: bool = False) -> Dim:
        """``dim``, or an expression with the same value that is small (`dims.fits`), in symbols that the program computes.

        However long a chain of sizes gets, each step is made of small ones. The same expression always gets the same
        symbol, so that what was equal stays so; a ``size`` is asserted to be at least 0 unless that is known.
        """
        if D.fits(dim):
            return dim
        dim = self.simplify(dim)
        if D.fits(dim) or isinstance(dim, int):
            return dim
        smaller = D.in_parts(dim, self._named)
        if D.is_nonnegative(dim) and not D.is_nonnegative(smaller):
            return self._named(dim)
        if D.fits(smaller) or isinstance(smaller, int) or not D.is_whole(smaller):
            return smaller
        return self.opaque_size(smaller) if size and not D.is_nonnegative(smaller) else self._named(smaller)

    def _named(self, dim: sympy.Expr) -> sympy.Symbol:
        """A symbol of its own for a number of any sign that the program computes."""
        if isinstance(dim, sympy.Symbol):
            return dim
        if dim not in self._names_of:
            signed = not D.is_nonnegative(dim)
            self._names_of[dim] = self._read(self._computed(dim), signed, checked=False)
        return self._names_of[dim]

    def opaque_size(self, dim: Dim) -> Dim:
        """A symbol of its own for the value of ``dim``, asserted to be at least 0: keeps piecewise sizes out of shapes."""
        if isinstance(dim, int):
            return dim
        if dim not in self._size_of:
            self._size_of[dim] = self._read(self._computed(dim), signed=False)
            if isinstance(dim, sympy.Symbol):
                self.table.merge(self._size_of[dim], dim)
        return self._size_of[dim]

    def _computed(self, dim: sympy.Expr) -> torch.fx.Node:
        """A 0-d tensor of the value of ``dim``."""
        node = self.symbols.node(dim)
        if node.target is torch.ops.aten._local_scalar_dense.default:
            return node.args[0]
        result: torch.fx.Node = self.call("aten.scalar_tensor.default", dim, dtype=torch.int64).node
        return result
