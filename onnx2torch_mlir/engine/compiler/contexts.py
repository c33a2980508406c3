"""Contexts of MLIR that have only what the compiler builds operations of: a dialect takes time whenever one is made, and more
whenever patterns are gathered from all that it has."""

from __future__ import annotations

from torch_mlir import ir

_BUILT = ("affine", "arith", "bufferization", "func", "linalg", "llvm", "math", "memref", "scf", "tensor", "vector")


def new_context() -> ir.Context:
    """A context, in which others of the dialects that there are come with text and passes that have them."""
    return ir.Context(load_on_create_dialects=_BUILT)
