"""The table of rules: one function per primitive, keyed by the overload's name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from onnx2torch_mlir.core.extension import ADDED

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
    "quantization",
    "named",
)


_BROKEN: dict[str, str] = {}
"""Modules of plug-ins that cannot be imported, with the reason."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the overloads ``names``; a second rule for a name is a defect and raises ValueError.

    A module that is imported again replaces its own rules.
    """

    def register(function: Rule) -> Rule:
        for name in names:
            if name in RULES and _origin(RULES[name]) != _origin(function):
                raise ValueError(f"{name} has two lowering rules")
            RULES[name] = function
        return function

    return register


def _origin(function: Rule) -> tuple[str, str]:
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", "")


def load_rules() -> dict[str, Rule]:
    """Import every family of rules, and those of primitives that plug-ins add, and return the table."""
    for family in _FAMILIES:
        importlib.import_module(f"onnx2torch_mlir.lowering.{family}")
    for module in {added.lowering for added in ADDED.values()} - {""} - _BROKEN.keys():
        try:
            importlib.import_module(module)
        except Exception as error:  # a third party's code may raise anything; who does not need it is not concerned
            _BROKEN[module] = f"{module} cannot be imported: {type(error).__name__}: {error}"
    return RULES


def why_missing(name: str) -> str:
    """Why there is no rule for the primitive ``name``, in a sentence."""
    added = ADDED.get(name)
    broken = "" if added is None else _BROKEN.get(added.lowering, "")
    return f"{name} has no lowering rule{f': {broken}' if broken else ''}"
