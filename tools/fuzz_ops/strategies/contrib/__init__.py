"""How nodes of onnxruntime's own operators are drawn, in files by family."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from tools.fuzz_ops.draw import Draw
from tools.fuzz_ops.strategies.contrib import attention, caches, fused, others, quantized, recurrent, weights

_MODULES: tuple[ModuleType, ...] = (attention, caches, fused, others, quantized, recurrent, weights)

STRATEGIES: dict[str, Callable[[Draw], None]] = {
    op: strategy for module in _MODULES for op, strategy in module.STRATEGIES.items()
}
"""Of the domain com.microsoft, by operator."""
