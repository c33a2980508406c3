"""What is dequantized, computed on its integers: forms of primitives for `Scaled` operands, tried before their rules.

A form gives None where it does not apply exactly; then the operands' numbers are made and the primitive's own rule
computes on these. So dq -> op -> q becomes integer arithmetic by what each op can do, not by a list of patterns.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.scaled import Scaled

Form = Callable[..., Any]

FORMS: dict[str, Form] = {}
"""By overload; parameters and results are those of a rule, or the result is None."""

_FAMILIES = ("integer_movement", "integer_pointwise", "integer_contraction", "integer_window")


def form(*names: str) -> Callable[[Form], Form]:
    """Register a form for the overloads ``names``."""

    def register(function: Form) -> Form:
        for name in names:
            if name in FORMS:
                raise ValueError(f"{name} has two integer forms")
            FORMS[name] = function
        return function

    return register


def on_integers(ctx: Context, node: Node, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of ``name`` on its integers, or None."""
    if not FORMS:
        for family in _FAMILIES:
            importlib.import_module(f"onnx2torch_mlir.lowering.{family}")
    found = FORMS.get(name)
    return None if found is None else found(ctx, node, *args, **kwargs)


def plain(argument: Any) -> Any:
    """``argument`` with the numbers made of what is `Scaled` in it."""
    if isinstance(argument, Scaled):
        return argument.plain()
    if isinstance(argument, list):
        return [plain(item) for item in argument]
    if isinstance(argument, dict):
        return {key: plain(item) for key, item in argument.items()}
    return argument


class _Type:
    """A tensor's type, as a node's metadata tell it."""

    def __init__(self, dtype: torch.dtype, shape: tuple[Dim, ...]) -> None:
        self.dtype = dtype
        self.shape = shape


class Retyped:
    """A node as a rule sees it, whose (first) result is declared in another dtype."""

    def __init__(self, ctx: Context, node: Node, dtype: torch.dtype) -> None:
        first, *rest = ctx.specs(node)
        types = [_Type(dtype, first.shape), *(_Type(spec.dtype, spec.shape) for spec in rest)]
        self.meta = {"val": types[0] if not rest else tuple(types)}
        self.target, self.users, self.args, self.name = node.target, node.users, node.args, node.name


def known_number(node: Any) -> float | int | None:
    """The number in a node of one element, where the program says it."""
    if not isinstance(node, Node) or node.target is not torch.ops.aten.full.default:
        return None
    number, sizes = node.args[1], node.args[0]
    whole = all(size == 1 for size in sizes)  # type: ignore[union-attr]
    return number if whole and isinstance(number, int | float) else None


def is_scaled_float(x: Any) -> bool:
    """Whether ``x`` stands for float32 numbers."""
    return isinstance(x, Scaled) and bool(x.factors)
