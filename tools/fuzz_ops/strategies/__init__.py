"""How a node of each operator is drawn: one function by operator, in files by family."""

from __future__ import annotations

from collections.abc import Callable

from onnx2torch_mlir.specs import DEFAULT_DOMAIN, Row
from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.strategies import (
    algebra,
    contrib,
    control,
    elementwise,
    host,
    image,
    indexing,
    learning,
    movement,
    networks,
    random,
    reduction,
    sequences,
    signal,
    training,
    windows,
)
from tools.fuzz_ops.strategies.contrib import layouts

_MODULES = (
    *(elementwise, reduction, movement, windows, algebra, indexing, image, networks),
    *(random, signal, sequences, control, host),
)

Strategy = Callable[[Draw], None]

STRATEGIES: dict[str, dict[str, Strategy]] = {
    DEFAULT_DOMAIN: {op: strategy for module in _MODULES for op, strategy in module.STRATEGIES.items()},
    "ai.onnx.ml": dict(learning.STRATEGIES),
    "com.microsoft": dict(contrib.STRATEGIES),
    "com.microsoft.nchwc": dict(layouts.BLOCKED),
    "com.microsoft.onnx": dict(layouts.KEPT),
    "ai.onnx.preview": dict(training.PREVIEW),
    "ai.onnx.preview.training": dict(training.STRATEGIES),
}
"""By domain and operator."""

_WHY = {
    "it runs on the host, in onnxruntime itself: there is nothing to compare": ("Tokenizer",),
    "it runs a whole decoder, which tests give it": ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"),
    "onnxruntime takes a sparse matrix in a form of its own, which a test gives it": ("SparseToDenseMatMul",),
    "onnxruntime runs it with AVX512 only; a test holds it against the layout of its weights": ("MatMulFpQ4",),
}
UNDRAWN: dict[tuple[str, str], str] = {("com.microsoft", op): why for why, ops in _WHY.items() for op in ops}
"""By domain and operator: why no node of it can be drawn."""


def strategy_of(domain: str, op: str, row: Row | None) -> Strategy | None:
    """How a node of ``op`` is drawn: its own function, or for a row of the elementwise family the schema alone."""
    found = STRATEGIES.get(domain, {}).get(op)
    if found is None and row is not None and row.target.startswith("onnx2torch_mlir.families.elementwise."):
        return elementwise.pointwise
    return found
