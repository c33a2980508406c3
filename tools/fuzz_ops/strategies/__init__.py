"""How a node of each operator is drawn: one function by operator, in files by family."""

from __future__ import annotations

from collections.abc import Callable

from onnx2torch_mlir.specs import DEFAULT_DOMAIN, Row
from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.strategies import (
    algebra,
    control,
    elementwise,
    image,
    indexing,
    movement,
    networks,
    random,
    reduction,
    sequences,
    signal,
    windows,
)

_MODULES = (elementwise, reduction, movement, windows, algebra, indexing, image, networks, random, signal, sequences, control)

Strategy = Callable[[Draw], None]

STRATEGIES: dict[str, Strategy] = {op: strategy for module in _MODULES for op, strategy in module.STRATEGIES.items()}
"""By operator of the default domain."""


def strategy_of(domain: str, op: str, row: Row | None) -> Strategy | None:
    """How a node of ``op`` is drawn: its own function, or for a row of the elementwise family the schema alone."""
    if domain != DEFAULT_DOMAIN:
        return None
    found = STRATEGIES.get(op)
    if found is None and row is not None and row.target.startswith("onnx2torch_mlir.families.elementwise."):
        return elementwise.pointwise
    return found
