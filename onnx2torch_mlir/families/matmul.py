"""Matrix products of floats and integers."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families import wide
from onnx2torch_mlir.families.quantized_decomposed import is_zero


def matmul(g: ProgramBuilder, a: Value, b: Value) -> Value:
    """NumPy's matrix product; integers wrap.

    Raises:
        Refusal: O2M-C006 for operands of rank 0 or of sizes that do not fit.
    """
    if a.rank == 0 or b.rank == 0:
        raise refuse("O2M-C006", "a matrix product of a scalar")
    return wide.in_int64(g, g.matmul, a, b)


def _scaled(g: ProgramBuilder, x: Value, factor: float) -> Value:
    if factor == 1.0:
        return x
    return g.mul(x, factor if x.dtype.is_floating_point else int(factor))


def gemm(
    g: ProgramBuilder,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """alpha * A' B' + beta * C with C broadcast to the product.

    Whole factors of integer matrices multiply them as integers, others in float64, whose result loses its fraction.
    Source: ONNX Gemm and its reference implementation.

    Raises:
        Refusal: O2M-C006 where ranks or sizes do not fit.
    """
    if a.rank != 2 or b.rank != 2:
        raise refuse("O2M-C006", f"Gemm of operands of ranks {a.rank} and {b.rank}")
    if c is not None and c.rank > 2:
        raise refuse("O2M-C006", f"Gemm with C of rank {c.rank}", case="C")
    dtype = a.dtype
    left = wide.widen(g, g.transpose(a, 0, 1) if transA else a)
    right = wide.widen(g, g.transpose(b, 0, 1) if transB else b)
    product: Value = g.call("aten.mm.default", left, right)
    addend = None if c is None or beta == 0.0 else c
    if not dtype.is_floating_point and not (alpha.is_integer() and (addend is None or beta.is_integer())):
        product = g.cast(wide.narrow(g, product, dtype), torch.float64)
        addend = None if addend is None else g.cast(addend, torch.float64)
    elif addend is not None:
        addend = wide.widen(g, addend)
    result = _scaled(g, product, alpha)
    if addend is not None:
        result = g.add(result, _scaled(g, addend, beta))
    return g.cast(result, dtype) if result.dtype is torch.float64 else wide.narrow(g, result, dtype)


def scaled_matmul(
    g: ProgramBuilder,
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """alpha * A' B' by NumPy's rules; vectors are never transposed.

    ``transBatchA`` says that the rows of A are its first axis, before those of the batch; then ``transA`` exchanges the
    last two. Source: com.microsoft FusedMatMul.

    Raises:
        Refusal: O2M-C006 for matrices without a batch whose rows should come before it.
    """
    left = _turned(g, a, bool(transA), bool(transBatchA))
    right = _turned(g, b, bool(transB), bool(transBatchB))
    return _scaled(g, matmul(g, left, right), alpha)


def _turned(g: ProgramBuilder, x: Value, columns_first: bool, rows_before_batch: bool) -> Value:
    axes = list(range(x.rank))
    if rows_before_batch:
        if x.rank < 3:
            raise refuse("O2M-C006", f"an operand of rank {x.rank} has no batch axes", case="transBatch=1")
        axes = [*axes[1:-1], 0, axes[-1]]
    if columns_first and x.rank > 1:
        axes[-2:] = axes[:-3:-1]
    return g.permute(x, axes)


def gemm_legacy(
    g: ProgramBuilder,
    a: Value,
    b: Value,
    c: Value,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """`gemm` before opset 7, where C is only broadcast if ``broadcast`` says so.

    Raises:
        Refusal: O2M-C006 where C is of rank below 2 without ``broadcast``.
    """
    if not broadcast and c.rank != 2:
        raise refuse("O2M-C006", f"C has rank {c.rank} without broadcast=1", case="broadcast")
    return gemm(g, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


def matmul_integer(
    g: ProgramBuilder, a: Value, b: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
) -> Value:
    """Product of 8-bit matrices less their zero points, in int32.

    A zero point is a scalar, or one number per row of ``a`` (per column of ``b``), or (opset 10's tables) of the full
    rank of its matrix with size 1 along the inner axis. Source: https://onnx.ai/onnx/operators/onnx__MatMulInteger.html.
    """
    left, right = shifted(g, a, a_zero_point, -2), shifted(g, b, b_zero_point, -1)
    return g.matmul(left, right)


def shifted(g: ProgramBuilder, x: Value, zero_point: Value | None, axis: int) -> Value:
    """``x - zero_point`` in int32; a zero point of rank 1 lies along ``axis`` (counted from the back)."""
    wide_x = g.cast(x, torch.int32)
    if zero_point is None or is_zero(zero_point):
        return wide_x
    return g.sub(wide_x, g.cast(along(g, zero_point, x, axis), torch.int32))


def along(g: ProgramBuilder, parameter: Value, x: Value, axis: int) -> Value:
    """``parameter`` shaped to broadcast against ``x``: one of rank 1 lies along ``axis`` (counted from the back)."""
    if parameter.rank == 1 and parameter.shape[0] == 1:
        return g.reshape(parameter, [])
    if parameter.rank == 1 and axis == -2 and x.rank > 1:
        return g.reshape(parameter, [parameter.shape[0], 1])
    return parameter

