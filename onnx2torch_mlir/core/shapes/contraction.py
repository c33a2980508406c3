"""Shape rules of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx2torch_mlir.core.dims import floor_div, to_dim
from onnx2torch_mlir.core.shapes.rules import TensorType, rule
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder


@rule("aten.mm.default")
def mm(builder: ProgramBuilder, a: Value, b: Value) -> TensorType:
    """[M, K] by [K, N]."""
    builder.require_equal(a.shape[1], b.shape[0], "inner sizes of a matrix product")
    return TensorType(a.dtype, (a.shape[0], b.shape[1]))


@rule("aten.bmm.default")
def bmm(builder: ProgramBuilder, a: Value, b: Value) -> TensorType:
    """[B, M, K] by [B, K, N]."""
    builder.require_equal(a.shape[0], b.shape[0], "batch sizes of a matrix product")
    builder.require_equal(a.shape[2], b.shape[1], "inner sizes of a matrix product")
    return TensorType(a.dtype, (a.shape[0], a.shape[1], b.shape[2]))


def window_size(size: Dim, kernel: Dim, stride: int, low: Dim, high: Dim, dilation: int) -> Dim:
    """Number of places of a window along one axis, rounded down."""
    span = to_dim(size + low + high - dilation * (kernel - 1) - 1)
    return to_dim(floor_div(span, stride) + 1)


@rule("aten.convolution.default")
def convolution(
    builder: ProgramBuilder,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> TensorType:
    """[N, C, *spatial] by [F, C/groups, *kernel], or by [C, F/groups, *kernel] where transposed."""
    spatial = x.rank - 2
    if spatial < 1 or weight.rank != x.rank:
        raise refuse("O2M-C006", f"a convolution of rank {x.rank} by a kernel of rank {weight.rank}")
    kernel = weight.shape[2:]
    if transposed:
        builder.require_equal(x.shape[1], weight.shape[0], "channels of a transposed convolution and its kernel")
        filters = to_dim(weight.shape[1] * groups)
        sizes = tuple(
            to_dim(
                (x.shape[2 + i] - 1) * stride[i]
                - 2 * padding[i]
                + dilation[i] * (kernel[i] - 1)
                + output_padding[i]
                + 1
            )
            for i in range(spatial)
        )
        return TensorType(x.dtype, (x.shape[0], filters, *sizes))
    builder.require_equal(x.shape[1], to_dim(weight.shape[1] * groups), "channels of a convolution and its kernel")
    sizes = tuple(
        window_size(x.shape[2 + i], kernel[i], stride[i], padding[i], padding[i], dilation[i]) for i in range(spatial)
    )
    return TensorType(x.dtype, (x.shape[0], weight.shape[0], *sizes))
