"""Inverse, CDist, and products of a sparse matrix by a dense one."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.elimination import inverted
from onnx2torch_mlir.families.matmul import gemm


def inverse(g: ProgramBuilder, x: Value) -> Value:
    """The inverses of the matrices [..., n, n] in the last two axes.

    Raises:
        Refusal: O2M-C006 where they are not square.
    """
    if x.rank < 2:
        raise refuse("O2M-C006", f"the inverse of a value of rank {x.rank}", case="rank")
    g.require_equal(x.shape[-1], x.shape[-2], "rows and columns of a matrix to invert")
    size = x.shape[-1] if isinstance(x.shape[-1], int) else x.shape[-2]
    dtype = torch.promote_types(x.dtype, torch.float32)
    batched = g.reshape(g.cast(x, dtype), [D.product(x.shape[:-2]), size, size])
    return g.cast(g.reshape(inverted(g, batched), x.shape), x.dtype)


def cdist(g: ProgramBuilder, a: Value, b: Value, *, metric: str = "sqeuclidean") -> Value:
    """Euclidean distances, or their squares, of each row of ``a`` [M, N] from each of ``b`` [K, N]: [M, K].

    They are computed from products, as in onnxruntime's ``cdist.h``: |a|² - 2 a·b + |b|², and not below 0.

    Raises:
        Refusal: O2M-C003 for another metric, for which onnxruntime has no kernel.
    """
    if metric not in ("sqeuclidean", "euclidean"):
        raise refuse("O2M-C003", f"onnxruntime computes no {metric} distance", case=f"metric={metric}")
    if a.rank != 2 or b.rank != 2:
        raise refuse("O2M-C006", f"distances of operands of ranks {a.rank} and {b.rank}", case="rank")
    products = g.mul(g.matmul(a, g.permute(b, [1, 0])), -2.0)
    own, other = g.sum(g.mul(a, a), [1], True), g.sum(g.mul(b, b), [1])
    squares = g.maximum(g.add(g.add(products, own), other), 0.0)
    return g.unary("sqrt", squares) if metric == "euclidean" else squares


def sparse_to_dense_matmul(
    g: ProgramBuilder, a: Value, b: Value, *, alpha: float = 1.0, transA: int = 0, transB: int = 0
) -> Value:
    """alpha * A' B' of a sparse ``a`` [M, K], which is held with its zeros, and of ``b`` [K, N].

    onnxruntime's kernel multiplies by ``alpha`` only where the numbers are float32. It leaves out the products of zeros that
    ``a`` does not hold: where ``b`` has infinities or NaNs, these are NaN here.

    Raises:
        Refusal: O2M-C006 where ranks or sizes do not fit.
    """
    return gemm(g, a, b, alpha=alpha if a.dtype is torch.float32 else 1.0, transA=transA, transB=transB)
