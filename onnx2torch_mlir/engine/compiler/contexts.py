"""Contexts of MLIR that have only the dialects of which the compiler builds operations.

All of those that the wheel registers take 6 ms, of which a small program's compilation needs several; and canonicalization
gathers the patterns of all that a context has.
"""

from __future__ import annotations

from torch_mlir import ir

_BUILT = ("affine", "arith", "bufferization", "func", "linalg", "llvm", "math", "memref", "scf", "tensor", "vector")


def new_context() -> ir.Context:
    """A fresh one; other dialects are loaded when text has them, or passes depend on them."""
    context = ir.Context(load_on_create_dialects=[])
    for name in _BUILT:
        # Unlike `Context.dialects`, this does not import what Python has of it (70 ms for linalg).
        context.get_dialect_descriptor(name)
    return context
