"""Rotary position embeddings: pairs of elements turned by angles that depend on the position."""

from __future__ import annotations

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.values import Value


def rotated(g: ProgramBuilder, x: Value, cos: Value, sin: Value, *, interleaved: bool) -> Value:
    """The first 2 c elements of the last axis of ``x`` turned, c angles at a time; what follows them stays.

    ``cos`` and ``sin`` [..., c] broadcast to ``x`` without its last axis. A pair is two neighbours if ``interleaved``, else
    an element of the first and one of the second half. Narrow floats are turned in float32.
    """
    half = cos.shape[-1]
    width, size = to_dim(half * 2), x.shape[-1]
    g.require(sympy.Le(width, size), f"{width} elements to rotate in a head of {size}")
    wide = g.cast(g.slice(x, x.rank - 1, 0, width), torch.float32 if x.dtype.itemsize < 4 else x.dtype)
    cos, sin = g.cast(cos, wide.dtype), g.cast(sin, wide.dtype)
    pairs = g.reshape(wide, [*x.shape[:-1], half, 2] if interleaved else [*x.shape[:-1], 2, half])
    axis = x.rank if interleaved else x.rank - 1
    a, b = g.select(pairs, axis, 0), g.select(pairs, axis, 1)
    turned = [g.sub(g.mul(a, cos), g.mul(b, sin)), g.add(g.mul(b, cos), g.mul(a, sin))]
    whole = g.reshape(g.cat([g.unsqueeze(item, axis) for item in turned], axis), [*x.shape[:-1], width])
    return g.cat([g.cast(whole, x.dtype), g.slice(x, x.rank - 1, width, size)], x.rank - 1)


def rows_at(g: ProgramBuilder, table: Value, positions: Value) -> Value:
    """The rows of ``table`` [rows, c] at ``positions``, of any rank, whose shape takes the place of the first axis."""
    flat = g.reshape(g.cast(positions, torch.int64), [-1])
    rows = g.call("aten.index_select.default", table, 0, flat)
    return g.reshape(rows, [*positions.shape, table.shape[1]])
