"""Shape rules of data movement and creation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.shapes.rules import TensorType, axis_of, rule
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder


@rule("aten.view.default")
def view(builder: ProgramBuilder, x: Value, size: Sequence[Dim]) -> TensorType:
    """``size`` without -1; the number of elements must be the same."""
    size = [builder.as_size(to_dim(item)) for item in size]
    builder.require_equal(D.product(x.shape), D.product(size), "number of elements of a reshape")
    return TensorType(x.dtype, tuple(size))


@rule("aten.permute.default")
def permute(builder: ProgramBuilder, x: Value, dims: Sequence[int]) -> TensorType:
    """The axes in another order."""
    if sorted(dims) != list(range(x.rank)):
        raise refuse("O2M-C006", f"{list(dims)} is no permutation of {x.rank} axes")
    return TensorType(x.dtype, tuple(x.shape[axis] for axis in dims))


@rule("aten.expand.default")
def expand(builder: ProgramBuilder, x: Value, size: Sequence[Dim]) -> TensorType:
    """``size``, to which every axis of ``x`` of size 1 is repeated."""
    size = [builder.as_size(to_dim(item)) for item in size]
    for own, wanted in zip(x.shape, size[len(size) - x.rank :], strict=True):
        if not D.stretches(own, wanted):
            builder.require_equal(own, wanted, "sizes of an expansion")
    return TensorType(x.dtype, tuple(size))


@rule("aten.unsqueeze.default")
def unsqueeze(builder: ProgramBuilder, x: Value, dim: int) -> TensorType:
    """A new axis of size 1."""
    axis = axis_of(dim, x.rank + 1)
    return TensorType(x.dtype, (*x.shape[:axis], 1, *x.shape[axis:]))


@rule("aten.squeeze.dims")
def squeeze(builder: ProgramBuilder, x: Value, dim: Sequence[int]) -> TensorType:
    """Without ``dim``, whose sizes must be 1 (they are asserted to be)."""
    axes = {axis_of(axis, x.rank) for axis in dim}
    for axis in axes:
        builder.require_equal(x.shape[axis], 1, "size of a squeezed axis")
    return TensorType(x.dtype, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))


@rule("aten.slice.Tensor")
def slice_(builder: ProgramBuilder, x: Value, dim: int, start: Dim, end: Dim, step: int = 1) -> TensorType:
    """``start`` and ``end`` lie in 0 … size (the builder's callers clamp); ``step`` is positive."""
    axis = axis_of(dim, x.rank)
    length = D.slice_length(start, end, step)
    return TensorType(x.dtype, (*x.shape[:axis], length, *x.shape[axis + 1 :]))


@rule("aten.select.int")
def select(builder: ProgramBuilder, x: Value, dim: int, index: Dim) -> TensorType:
    """Without ``dim``."""
    axis = axis_of(dim, x.rank)
    return TensorType(x.dtype, x.shape[:axis] + x.shape[axis + 1 :])


@rule("aten.cat.default")
def cat(builder: ProgramBuilder, tensors: Sequence[Value], dim: int = 0) -> TensorType:
    """The sizes along ``dim`` added up; all others equal."""
    first = tensors[0]
    axis = axis_of(dim, first.rank)
    total: Dim = 0
    shape = list(first.shape)
    for value in tensors:
        if value.rank != first.rank or value.dtype is not first.dtype:
            raise refuse("O2M-C006", f"concatenation of {first!r} with {value!r}")
        total = to_dim(total + value.shape[axis])
        for other, size in enumerate(value.shape):
            if other != axis:
                builder.require_equal(shape[other], size, "sizes of a concatenation")
                shape[other] = size if isinstance(size, int) else shape[other]
    return TensorType(first.dtype, (*shape[:axis], total, *shape[axis + 1 :]))


@rule("aten.constant_pad_nd.default")
def pad(builder: ProgramBuilder, x: Value, pad: Sequence[Dim], value: float = 0) -> TensorType:
    """``pad`` lists (low, high) from the last axis backwards; negative numbers crop."""
    shape = list(x.shape)
    for position in range(len(pad) // 2):
        axis = x.rank - 1 - position
        shape[axis] = builder.as_size(to_dim(shape[axis] + pad[2 * position] + pad[2 * position + 1]))
    return TensorType(x.dtype, tuple(shape))


@rule("aten.flip.default")
def flip(builder: ProgramBuilder, x: Value, dims: Sequence[int]) -> TensorType:
    """The operand's type."""
    return TensorType(x.dtype, x.shape)


@rule("aten.index_select.default")
def index_select(builder: ProgramBuilder, x: Value, dim: int, index: Value) -> TensorType:
    """``index`` is 1-D."""
    axis = axis_of(dim, x.rank)
    return TensorType(x.dtype, (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]))


@rule("aten.gather.default")
def gather(builder: ProgramBuilder, x: Value, dim: int, index: Value) -> TensorType:
    """The index's shape."""
    return TensorType(x.dtype, index.shape)


@rule("aten.index.Tensor")
def index(builder: ProgramBuilder, x: Value, indices: Sequence[Value | None]) -> TensorType:
    """NumPy's rule for integer indices: broadcast, in place of the indexed axes if adjacent, else in front."""
    chosen = [axis for axis, item in enumerate(indices) if item is not None]
    shape = builder.broadcast([item.shape for item in indices if item is not None])
    rest = [size for axis, size in enumerate(x.shape) if axis not in chosen]
    adjacent = chosen == list(range(chosen[0], chosen[0] + len(chosen)))
    before = chosen[0] if adjacent else 0
    return TensorType(x.dtype, (*rest[:before], *shape, *rest[before:]))


@rule(
    "aten.scatter.src",
    "aten.scatter_add.default",
    "aten.scatter_reduce.two",
    "aten.index_put.default",
)
def scatter(builder: ProgramBuilder, x: Value, *args: Any, **kwargs: Any) -> TensorType:
    """The operand's type."""
    return TensorType(x.dtype, x.shape)


@rule("aten.full.default")
def full(builder: ProgramBuilder, size: Sequence[Dim], fill_value: Any, *, dtype: torch.dtype) -> TensorType:
    """``size`` of ``dtype``."""
    return TensorType(dtype, tuple(builder.as_size(to_dim(item)) for item in size))


@rule("aten.arange.start_step")
def arange(builder: ProgramBuilder, start: Dim, end: Dim, step: Dim = 1, *, dtype: torch.dtype) -> TensorType:
    """From ``start`` up to ``end`` in steps of an integer ``step`` other than 0."""
    if isinstance(step, sympy.Expr):
        raise refuse("O2M-C003", "a range whose step is a symbolic size")
    span = to_dim(end - start) if step > 0 else to_dim(start - end)
    return TensorType(dtype, (D.maximum(0, D.ceil_div(span, abs(step))),))


@rule("aten.scalar_tensor.default")
def scalar_tensor(builder: ProgramBuilder, number: Dim | float, *, dtype: torch.dtype) -> TensorType:
    """A 0-d value."""
    return TensorType(dtype, ())


@rule("aten.nonzero.default")
def nonzero(builder: ProgramBuilder, x: Value) -> TensorType:
    """[count, rank] of int64 with a data-dependent count."""
    return TensorType(torch.int64, (builder.table.new_symbol(f"count of {builder.origin}"), x.rank))
