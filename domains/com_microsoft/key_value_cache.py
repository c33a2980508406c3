"""Keys and values of earlier steps, [B, heads, steps, size], and what a step adds to them."""

from __future__ import annotations

import sympy

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def after_past(g: ProgramBuilder, past: Value, new: Value) -> Value:
    """``new`` behind ``past``."""
    check(g, past, new)
    return g.cat([past, new], 2)


def written_into(g: ProgramBuilder, past: Value, new: Value, filled: Dim) -> Value:
    """The buffer ``past`` with the one step of ``new`` at the place ``filled``.

    onnxruntime writes one step only, whatever it is given; so more are refused.
    """
    check(g, past, new)
    g.require_equal(new.shape[2], 1, "steps that are written into a shared buffer")
    g.require(sympy.Lt(filled, past.shape[2]), f"no room behind {filled} steps of a buffer of {past.shape[2]}")
    return g.cat([g.slice(past, 2, 0, filled), new, g.slice(past, 2, to_dim(filled + 1), past.shape[2])], 2)


def check(g: ProgramBuilder, past: Value, new: Value) -> None:
    """The sizes of ``past`` are those of ``new``, but for its steps.

    Raises:
        Refusal: O2M-C005 for another rank, O2M-C006 for other sizes.
    """
    if past.rank != 4:
        raise refuse("O2M-C005", f"a past of rank {past.rank}, not 4", case="past")
    for axis in (0, 1, 3):
        g.require_equal(past.shape[axis], new.shape[axis], "batch, heads and sizes of the past and of what is new")
