"""The table of rules: one function per primitive, keyed by the overload's name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}
"""Rules by overload (``aten.mm.default``) or higher-order operator (``cond``)."""

_FAMILIES = (
    "pointwise",
    "creation",
    "movement",
    "slicing",
    "indexing",
    "scatter",
    "scan",
    "sort",
    "data_dependent",
    "control",
    "reduction",
    "normalization",
    "contraction",
    "convolution",
    "window",
)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the overloads ``names``; a second rule for a name is a defect and raises ValueError."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two lowering rules")
            RULES[name] = function
        return function

    return register


def load_rules() -> dict[str, Rule]:
    """Import every family of rules and return the table."""
    for family in _FAMILIES:
        importlib.import_module(f"onnx2torch_mlir.lowering.{family}")
    return RULES
