"""Positions along an axis: what the elements of an index stand for, and that none of them is outside.

A program that counts negative positions from the end makes an index of them (``where(i < 0, i + size, i)``). Rules that read or
write there count by themselves: then neither that index is made nor is it read again, once to be checked and once to be used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand

_ATEN = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Counted(Operand):
    """Positions in an axis of ``size``, made of the ``given`` ones by counting negative ones from its end."""

    given: Operand
    size: Dim


def counted(node: Node, result: Operand, given: Operand) -> Operand:
    """The ``result`` of a ``where`` of torch, as `Counted` if that is what it is; ``given`` is its last operand."""
    size = _counted_size(node)
    if size is None or (given.dtype, given.shape) != (result.dtype, result.shape):
        return result
    return Counted(result.dtype, result.shape, result.value, given, size)


def _counted_size(node: Any) -> Dim | None:
    """What ``where(i < 0, i + size, i)`` adds, or the same where ``i + size >= 0``, too; None if that is not what a node is."""
    condition, more, plain = node.args
    added = _operands(more, _ATEN.add.Tensor)
    both = _operands(condition, _ATEN.logical_and.default)
    if both is not None:
        condition = both[0]
        behind = _operands(both[1], _ATEN.ge.Tensor)
        if behind is None or behind[0] is not more or _number(behind[1]) != 0:
            return None
    below = _operands(condition, _ATEN.lt.Tensor)
    if added is None or below is None or not added[0] is below[0] is plain or _number(below[1]) != 0:
        return None
    return _number(added[1])


def _operands(node: Any, target: Any) -> tuple[Any, Any] | None:
    """Those of a call of ``target`` with two, and nothing else."""
    if not isinstance(node, Node) or node.target is not target or len(node.args) != 2 or node.kwargs:
        return None
    return node.args[0], node.args[1]


def _number(node: Any) -> Dim | None:
    """The only one of what a node makes, a size where it is one of the program's."""
    if not isinstance(node, Node) or node.target not in (_ATEN.full.default, _ATEN.scalar_tensor.default):
        return None
    *shape, number = node.args
    if shape not in ([], [[]]):
        return None
    number = number.meta.get("val") if isinstance(number, Node) else number
    if isinstance(number, torch.SymInt):
        found: Dim = number.node.expr
        return found
    return number if isinstance(number, int) else None


@dataclass(frozen=True)
class Positions:
    """The elements of an ``index`` along an axis of ``size``: negative ones count ``from_end``, or are outside."""

    index: Operand
    size: Dim
    from_end: bool

    @classmethod
    def of(cls, ctx: Context, index: Operand, size: Dim, *, from_end: bool = False) -> Positions:
        """Those of an index, or of what it is made of by counting."""
        if isinstance(index, Counted) and ctx.sizes.equal(index.size, size):
            return cls(index.given, size, True)
        return cls(index, size, from_end)

    def require_inside(self, ctx: Context) -> None:
        """``cf.assert`` that every one lies in [0, size), or in [-size, size) if they may count from the end."""
        b, limit = ctx.b, ctx.sizes.value(self.size)
        init = ctx.full(1, torch.bool, ())

        def body(element: ir.Value, fine: ir.Value) -> ir.Value:
            return b.same("arith.andi", fine, b.compare("ult", self.at(ctx, element, limit), limit))

        every = tuple(range(self.index.rank))
        flag = b.generic([(self.index.value, every)], [(init.value, ())], "r" * self.index.rank, body)[0]
        ctx.assert_true(b.make("tensor.extract", b.i1, flag), f"an index lies outside a dim of size {self.size}")

    def at(self, ctx: Context, element: ir.Value, limit: ir.Value) -> ir.Value:
        """The position, counted from the front, that an element stands for; ``limit`` is the size."""
        b, place = ctx.b, ctx.b.to_index(element, self.index.dtype)
        if not self.from_end:
            return place
        return b.select(b.compare("slt", place, b.idx(0)), b.same("arith.addi", place, limit), place)
