"""The registry of shape rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder


@dataclass(frozen=True)
class TensorType:
    """Dtype and shape of a result; ``element`` is as in `Value`."""

    dtype: torch.dtype
    shape: tuple[Dim, ...]
    element: str = ""


Result = TensorType | tuple[TensorType, ...]
Rule = Callable[..., Result]

_RULES: dict[str, Rule] = {}


def rule(*primitives: str) -> Callable[[Rule], Rule]:
    """Register a shape rule: ``rule(builder, *args, **kwargs) -> Result``; names as ``aten.relu.default``."""

    def register(function: Rule) -> Rule:
        for primitive in primitives:
            if primitive in _RULES:
                raise ValueError(f"{primitive} has two shape rules")
            _RULES[primitive] = function
        return function

    return register


def set_rule(primitive: str, function: Rule) -> None:
    """Let ``function`` be the rule of a primitive that is not in the closed list (`core.extension`)."""
    _RULES[primitive] = function


def rule_names() -> frozenset[str]:
    """The primitives that have a shape rule."""
    return frozenset(_RULES)


def infer(builder: ProgramBuilder, primitive: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    """The type of the call's result.

    Raises:
        Refusal: O2M-C006 where the arguments contradict each other.
    """
    return _RULES[primitive](builder, *args, **kwargs)


def axis_of(axis: int, rank: int) -> int:
    """``axis`` counted from the front.

    Raises:
        Refusal: O2M-C006 where it is out of range.
    """
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise refuse("O2M-C006", f"axis {axis} is out of range for rank {rank}")
    return axis % max(rank, 1)
