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

    Where they share one, the products are [B, K, N / K, S, T] (`in_groups`). ``scale`` None is 1 / sqrt(H).
    """
    size = query.shape[3]
    if scale is not None:
        factor: Value | float = scale
    elif isinstance(size, int):
        factor = size**-0.5 if size else 1.0
    else:
        factor = g.unary("rsqrt", g.size_value(size, query.dtype))
    return _by_group(g, in_groups(g, g.mul(query, factor), key.shape[1]), g.transpose(key, 2, 3))


def weighed(g: ProgramBuilder, weights: Value, value: Value) -> Value:
    """The sums [B, N, S, H] of ``value`` [B, K, T, H] with ``weights`` [B, N, S, T], or [B, K, N / K, S, T]."""
    return of_heads(g, _by_group(g, in_groups(g, weights, value.shape[1]), value))


def in_groups(g: ProgramBuilder, x: Value, shared: Dim) -> Value:
    """``x`` [B, N, *] as [B, K, N / K, *] where its heads are not the ``shared`` K; one for all heads stays one."""
    batch, heads, *rest = x.shape
    if heads == shared or x.rank == 5:
        return x
    groups = (1, 1) if heads == 1 else (shared, floor_div(heads, shared))
    return g.reshape(x, [batch, *groups, *rest])


def of_heads(g: ProgramBuilder, x: Value) -> Value:
    """What `in_groups` made of [B, N, S, x], as that again."""
    if x.rank == 4:
        return x
    batch, shared, alike, *rest = x.shape
    return g.reshape(x, [batch, to_dim(shared * alike), *rest])


def _by_group(g: ProgramBuilder, a: Value, b: Value) -> Value:
    """``a`` [B, K, S, x], or [B, K, R, S, x], times ``b`` [B, K, x, y]: the R that share a matrix are its rows."""
    if a.rank == 4:
        return g.matmul(a, b)
    batch, shared, alike, steps, inner = a.shape
    product = g.matmul(g.reshape(a, [batch, shared, to_dim(alike * steps), inner]), b)
    return g.reshape(product, [batch, shared, alike, steps, b.shape[3]])


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
