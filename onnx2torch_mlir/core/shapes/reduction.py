"""Shape rules of reductions, scans and sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnx2torch_mlir.core.shapes.rules import TensorType, axis_of, rule
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder


def reduced(x: Value, axes: Sequence[int] | None, keepdim: bool) -> tuple[Dim, ...]:
    """``x``'s shape with ``axes`` (all, if None or empty) taken out, or kept as 1."""
    chosen = {axis_of(axis, x.rank) for axis in axes} if axes else set(range(x.rank))
    if keepdim:
        return tuple(1 if axis in chosen else size for axis, size in enumerate(x.shape))
    return tuple(size for axis, size in enumerate(x.shape) if axis not in chosen)


def _accumulated(x: Value, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    return x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64


@rule("aten.sum.dim_IntList", "aten.mean.dim")
def summed(
    builder: ProgramBuilder,
    x: Value,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> TensorType:
    """Floats keep their dtype, integers are summed in int64, unless ``dtype`` is given."""
    return TensorType(_accumulated(x, dtype), reduced(x, dim, keepdim))


@rule("aten.prod.dim_int")
def multiplied(
    builder: ProgramBuilder, x: Value, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> TensorType:
    """As `summed`, along one axis."""
    return TensorType(_accumulated(x, dtype), reduced(x, [dim], keepdim))


@rule("aten.amax.default", "aten.amin.default")
def extremum(builder: ProgramBuilder, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> TensorType:
    """The operand's dtype."""
    return TensorType(x.dtype, reduced(x, dim, keepdim))


@rule("aten.var.correction")
def variance(
    builder: ProgramBuilder,
    x: Value,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> TensorType:
    """The operand's dtype."""
    return TensorType(x.dtype, reduced(x, dim, keepdim))


@rule("aten.any.dims", "aten.all.dims")
def truth(builder: ProgramBuilder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False) -> TensorType:
    """Bool."""
    return TensorType(torch.bool, reduced(x, dim, keepdim))


@rule("aten.argmax.default", "aten.argmin.default")
def position(builder: ProgramBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> TensorType:
    """int64."""
    return TensorType(torch.int64, reduced(x, None if dim is None else [dim], keepdim))


@rule("aten._softmax.default", "aten._log_softmax.default")
def softmax(builder: ProgramBuilder, x: Value, dim: int, half_to_float: bool) -> TensorType:
    """The operand's type."""
    axis_of(dim, x.rank)
    return TensorType(x.dtype, x.shape)


@rule("aten.native_layer_norm.default")
def layer_norm(
    builder: ProgramBuilder, x: Value, normalized_shape: Sequence[Dim], weight: Any, bias: Any, eps: float
) -> tuple[TensorType, ...]:
    """Output, mean and reciprocal standard deviation (the latter two of float32 for a narrower operand)."""
    outer = x.rank - len(normalized_shape)
    for size, expected in zip(x.shape[outer:], normalized_shape, strict=True):
        builder.require_equal(size, expected, "normalized sizes")
    statistics = TensorType(x.dtype, x.shape[:outer] + (1,) * len(normalized_shape))
    return TensorType(x.dtype, x.shape), statistics, statistics


@rule("aten.cumsum.default", "aten.cumprod.default")
def cumulated(builder: ProgramBuilder, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> TensorType:
    """As `summed`, shape kept."""
    axis_of(dim, x.rank)
    return TensorType(_accumulated(x, dtype), x.shape)


@rule("aten.sort.stable")
def sort(
    builder: ProgramBuilder, x: Value, *, stable: bool, dim: int = -1, descending: bool = False
) -> tuple[TensorType, ...]:
    """Values and int64 indices."""
    axis_of(dim, x.rank)
    return TensorType(x.dtype, x.shape), TensorType(torch.int64, x.shape)


@rule("aten.topk.default")
def topk(
    builder: ProgramBuilder, x: Value, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[TensorType, ...]:
    """Values and int64 indices with ``k`` along ``dim``."""
    axis = axis_of(dim, x.rank)
    shape = (k,) if x.rank == 0 else (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return TensorType(x.dtype, shape if x.rank else ()), TensorType(torch.int64, shape if x.rank else ())
