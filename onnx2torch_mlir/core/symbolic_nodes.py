"""Sizes as nodes of the graph: one node per expression, made where it is first needed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch
import torch.fx
from sympy.logic.boolalg import BooleanAtom
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Mod, PythonMod

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder

_FUNCTIONS: dict[type, Callable[..., Any]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    FloorDiv: operator.floordiv,
    CleanDiv: operator.floordiv,
    Mod: operator.mod,
    PythonMod: operator.mod,
    sympy.Max: torch.sym_max,
    sympy.Min: torch.sym_min,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.And: operator.and_,
    sympy.Or: operator.or_,
    sympy.Not: torch.sym_not,
}


def _integral(expression: sympy.Basic) -> Sequence[sympy.Basic]:
    """The operands; those of a comparison without the fractions into which sympy turns ``2 * n < 1``."""
    if not isinstance(expression, sympy.core.relational.Relational):
        return expression.args
    scale = sympy.ilcm(1, 1, *(number.q for number in expression.atoms(sympy.Rational)))
    return [sympy.expand(scale * side) for side in expression.args] if scale != 1 else expression.args


class SymbolicNodes:
    """Maps expressions over the program's symbols to nodes that compute them."""

    def __init__(self, builder: ProgramBuilder) -> None:
        self._builder = builder
        self._nodes: dict[sympy.Basic, torch.fx.Node] = {}
        self._sources: dict[sympy.Symbol, tuple[torch.fx.Node, int]] = {}

    def bind(self, symbol: sympy.Symbol, tensor: torch.fx.Node, axis: int) -> None:
        """Say that ``symbol`` is the size of ``tensor`` along ``axis``."""
        self._sources.setdefault(symbol, (tensor, axis))

    def define(self, symbol: sympy.Symbol, node: torch.fx.Node) -> None:
        """Say that ``node`` computes ``symbol``."""
        self._nodes[symbol] = node

    def is_bound(self, symbol: sympy.Symbol) -> bool:
        """Whether the program can compute ``symbol``."""
        return symbol in self._nodes or symbol in self._sources

    def node(self, expression: sympy.Basic) -> Any:
        """The node of ``expression``, or a plain number where it is one."""
        if isinstance(expression, sympy.Integer):
            return int(expression)
        if isinstance(expression, BooleanAtom):
            return bool(expression)
        if expression in self._nodes:
            return self._nodes[expression]
        if isinstance(expression, sympy.Symbol):
            if expression not in self._sources:
                raise LookupError(f"no value of the program has the size {expression}")
            node = self._call(torch.ops.aten.sym_size.int, self._sources[expression], expression)
        elif isinstance(expression, sympy.Piecewise):
            node = self._piecewise(expression)
        elif isinstance(expression, sympy.Pow) and expression.exp.is_Integer and expression.exp > 0:
            base = self.node(expression.base)
            node = base
            for power in range(2, int(expression.exp) + 1):
                node = self._call(operator.mul, (node, base), expression.base**power)
        else:
            node = self._fold(expression)
        self._nodes[expression] = node
        return node

    def _fold(self, expression: sympy.Basic) -> torch.fx.Node:
        function = _FUNCTIONS.get(type(expression))
        if function is None:
            raise NotImplementedError(f"{type(expression).__name__} in a size: {expression}")
        operands = [self.node(argument) for argument in _integral(expression)]
        if isinstance(expression, sympy.Add | sympy.Mul | sympy.Max | sympy.Min | sympy.And | sympy.Or):
            result, partial = operands[0], expression.args[0]
            for operand, argument in zip(operands[1:], expression.args[1:], strict=True):
                partial = expression.func(partial, argument)
                result = self._call(function, (result, operand), partial)
            return result
        return self._call(function, tuple(operands), expression)

    def _piecewise(self, expression: sympy.Piecewise) -> Any:
        pieces = list(expression.args)
        result = self.node(pieces[-1][0])
        value = pieces[-1][0]
        for chosen, condition in reversed(pieces[:-1]):
            value = sympy.Piecewise((chosen, condition), (value, True))
            result = self._call(torch.sym_ite, (self.node(condition), self.node(chosen), result), value)
        return result

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], expression: sympy.Basic) -> torch.fx.Node:
        node = self._builder.graph.call_function(function, args)
        shape_env = self._builder.table.shape_env
        if isinstance(expression, sympy.logic.boolalg.Boolean) and not isinstance(expression, sympy.Symbol):
            node.meta["val"] = shape_env.create_symboolnode(expression)
        else:
            node.meta["val"] = self._builder.table.symint(expression)
        self._builder.stamp(node)
        return node
