"""Shape rules of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from onnx2torch_mlir.core.shapes.contraction import window_size
from onnx2torch_mlir.core.shapes.rules import TensorType, rule
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder


def _pooled(
    x: Value, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[Dim, ...]:
    outer = x.rank - len(kernel)
    return x.shape[:outer] + tuple(
        window_size(x.shape[outer + i], kernel[i], stride[i], padding[i], padding[i], dilation[i])
        for i in range(len(kernel))
    )


@rule("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool(
    builder: ProgramBuilder,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[TensorType, ...]:
    """Values and int64 positions; sizes rounded down (converters resolve ceil_mode into padding)."""
    if ceil_mode:
        raise refuse("O2M-C003", "ceil_mode must be resolved into padding before the core program")
    shape = _pooled(x, kernel_size, stride, padding, dilation)
    return TensorType(x.dtype, shape), TensorType(torch.int64, shape)


@rule("aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    builder: ProgramBuilder,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> TensorType:
    """As `max_pool`, values only."""
    if ceil_mode:
        raise refuse("O2M-C003", "ceil_mode must be resolved into padding before the core program")
    return TensorType(x.dtype, _pooled(x, kernel_size, stride, padding, [1] * len(kernel_size)))
