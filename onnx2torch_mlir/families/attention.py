"""Scaled dot-product attention on [batch, heads, steps, size], where several heads of queries may share one of keys."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import exact_div, floor_div, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value


def split_heads(g: ProgramBuilder, x: Value, heads: int) -> Value:
    """[B, S, heads * H] as [B, heads, S, H]."""
    batch, steps, hidden = x.shape
    size = exact_div(hidden, heads)
    if size is None:
        size = floor_div(hidden, heads)
        g.require_equal(to_dim(size * heads), hidden, "heads times their size, and hidden size")
    return g.permute(g.reshape(x, [batch, steps, heads, size]), [0, 2, 1, 3])


def merge_heads(g: ProgramBuilder, x: Value) -> Value:
    """[B, heads, S, H] as [B, S, heads * H]."""
    batch, heads, steps, size = x.shape
    return g.reshape(g.permute(x, [0, 2, 1, 3]), [batch, steps, to_dim(heads * size)])


def scores(g: ProgramBuilder, query: Value, key: Value, scale: float | None) -> Value:
    """The scaled products [B, N, S, T] of ``query`` [B, N, S, H] and ``key`` [B, K, T, H]; N / K heads share a key.

    ``scale`` None is 1 / sqrt(H).
    """
    size = query.shape[3]
    if scale is not None:
        factor: Value | float = scale
    elif isinstance(size, int):
        factor = size**-0.5 if size else 1.0
    else:
        factor = g.unary("rsqrt", g.size_value(size, query.dtype))
    return _by_group(g, g.mul(query, factor), g.transpose(key, 2, 3))


def weighed(g: ProgramBuilder, weights: Value, value: Value) -> Value:
    """The sums [B, N, S, H] of ``value`` [B, K, T, H] with ``weights`` [B, N, S, T]; N / K heads share a value."""
    return _by_group(g, weights, value)


def _by_group(g: ProgramBuilder, a: Value, b: Value) -> Value:
    """``a`` [B, N, S, x] times ``b`` [B, K, x, y]: the heads that share a matrix are its rows, so nothing is repeated."""
    batch, heads, steps, inner = a.shape
    shared = b.shape[1]
    if heads == shared:
        return g.matmul(a, b)
    rows = to_dim(floor_div(heads, shared) * steps)
    product = g.matmul(g.reshape(a, [batch, shared, rows, inner]), b)
    return g.reshape(product, [batch, heads, steps, b.shape[3]])


def softmax_beside(g: ProgramBuilder, x: Value, sink: Value | None) -> Value:
    """Softmax along the last axis; the weight of one more score, ``sink``, which broadcasts to the others, is dropped."""
    last = x.rank - 1
    if sink is None:
        return g.softmax(x, last)
    top = g.maximum(g.amax(x, [last], keepdim=True), sink)
    powers = g.unary("exp", g.sub(x, top))
    total = g.add(g.sum(powers, [last], keepdim=True), g.unary("exp", g.sub(sink, top)))
    return g.div(powers, total)


def causal(g: ProgramBuilder, steps: Dim, total: Dim, past: Value | Dim) -> Value:
    """Whether a step sees a key: [steps, total], or with more leading axes as ``past``, the steps before the first, has."""
    row = g.unsqueeze(g.arange(0, steps), 1)
    before = past if isinstance(past, Value) else g.size_value(past)
    return g.binary("le", g.unsqueeze(g.arange(0, total), 0), g.add(row, before))


def lowest(dtype: torch.dtype) -> float:
    """What stands for a score that must not count."""
    return torch.finfo(dtype).min
