"""Arithmetic on sizes: Python functions over symbolic ints as operations of the torch dialect."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

SCALAR_OPERATIONS: dict[tuple[Callable[..., Any], str], str] = {
    **{
        (function, "ii"): f"torch.aten.{name}.int"
        for function, name in {
            operator.add: "add",
            operator.sub: "sub",
            operator.mul: "mul",
            operator.floordiv: "floordiv",
            operator.mod: "remainder",
            operator.truediv: "div",
            operator.eq: "eq",
            operator.ne: "ne",
            operator.lt: "lt",
            operator.le: "le",
            operator.gt: "gt",
            operator.ge: "ge",
        }.items()
    },
    (operator.neg, "i"): "torch.aten.neg.int",
    (torch.sym_max, "ii"): "torch.prim.max.int",
    (torch.sym_min, "ii"): "torch.prim.min.int",
    (operator.and_, "bb"): "torch.aten.__and__.bool",
    (operator.or_, "bb"): "torch.aten.__or__.bool",
    (operator.not_, "b"): "torch.aten.__not__",
    (torch.sym_not, "b"): "torch.aten.__not__",
    (operator.eq, "bb"): "torch.aten.eq.bool",
    (operator.ne, "bb"): "torch.aten.ne.bool",
    (torch.sym_float, "i"): "torch.aten.Float.Scalar",
    (torch.sym_int, "f"): "torch.aten.Int.float",
    (operator.add, "ff"): "torch.aten.add.float",
    (operator.sub, "ff"): "torch.aten.sub.float",
    (operator.mul, "ff"): "torch.aten.mul.float",
    (operator.truediv, "ff"): "torch.aten.div.float",
    (operator.eq, "ff"): "torch.aten.eq.float",
    (operator.gt, "ff"): "torch.aten.gt.float",
}
"""(function, kinds of its operands) -> operation; the kinds are i for int, f for float, b for bool."""


def scalar_kind(value: Any) -> str:
    """The kind of a number, a symbolic number, or a node that carries one; empty for anything else."""
    if isinstance(value, torch.fx.Node):
        value = value.meta.get("val")
    if isinstance(value, bool | torch.SymBool):
        return "b"
    if isinstance(value, int | torch.SymInt):
        return "i"
    return "f" if isinstance(value, float | torch.SymFloat) else ""
