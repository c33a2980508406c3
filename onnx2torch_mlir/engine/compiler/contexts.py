"""Contexts of MLIR that have only the dialects of which the compiler builds operations.

All of those that the wheel registers take 6 ms, of which a small program's compilation needs several; and canonicalization
gathers the patterns of all that a context has.
"""

from __future__ import annotations

from torch_mlir import ir

_BUILT = ("affine", "arith", "bufferization", "func", "linalg", "llvm", "math", "memref", "scf", "tensor", "vector")


def new_context() -> ir.Context:
    """A fresh one; other dialects are loaded when text has them, or passes depend on them."""
    return ir.Context(load_on_create_dialects=_BUILT)
