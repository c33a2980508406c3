"""Shape, Size, Constant, ConstantOfShape, EyeLike, OneHot: tensors made of sizes and numbers."""

from __future__ import annotations

from typing import Any

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.parameters import Sizes
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import torch_dtype
from onnx2torch_mlir.families.indexing import along, axis_in, count_along, wrapped


def shape(g: ProgramBuilder, data: Value, *, start: int = 0, end: int | None = None) -> Value:
    """The sizes from axis ``start`` up to ``end``. Source: ONNX Shape."""
    return g.sizes(data.shape[start:end])


def size(g: ProgramBuilder, data: Value) -> Value:
    """The number of elements. Source: ONNX Size."""
    return g.size_value(D.product(data.shape))


def constant(
    g: ProgramBuilder,
    *,
    value: Value | None = None,
    value_int: int | None = None,
    value_ints: list[int] | None = None,
    value_float: float | None = None,
    value_floats: list[float] | None = None,
    value_string: Any = None,
    value_strings: Any = None,
    sparse_value: Any = None,
) -> Value:
    """A tensor of the model, in whichever form it is written. Source: ONNX Constant."""
    if value is not None:
        return value
    for numbers, dtype in (
        (value_int, torch.int64),
        (value_ints, torch.int64),
        (value_float, torch.float32),
        (value_floats, torch.float32),
    ):
        if numbers is not None:
            return g.known(torch.tensor(numbers, dtype=dtype))
    for name, given in (("value_string", value_string), ("value_strings", value_strings)):
        if given is not None:
            raise refuse("O2M-C008", "string tensors are not supported", case=name)
    if sparse_value is not None:
        raise refuse("O2M-C008", "sparse tensors are not supported", case="sparse_value")
    raise refuse("O2M-C005", "a Constant has no value", case="value")


def constant_of_shape(g: ProgramBuilder, shape: Sizes, *, value: Value | None = None) -> Value:
    """A tensor of ``shape`` filled with the one element of ``value``, 0.0 without it. Source: ONNX ConstantOfShape."""
    tensor = torch.zeros(1) if value is None else value.tensor
    if tensor is None or tensor.numel() != 1:
        raise refuse("O2M-C005", "the value of a ConstantOfShape has not one element", case="value")
    sizes = [g.as_size(item) for item in shape]
    if tensor.dtype.is_floating_point and tensor.dtype.itemsize == 1:
        return g.expand(g.known(tensor.reshape([1] * len(sizes))), sizes)
    return g.full(sizes, tensor.item(), tensor.dtype).tagged("" if value is None else value.element)


def eye_like(g: ProgramBuilder, data: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """Ones on the ``k``-th diagonal of a matrix of the operand's shape. Source: ONNX EyeLike."""
    if data.rank != 2:
        raise refuse("O2M-C006", f"EyeLike takes a matrix, not rank {data.rank}", case=f"rank={data.rank}")
    rows, columns = (count_along(g, data.shape, axis) for axis in (0, 1))
    ones = g.call("aten.eq.Tensor", g.add(rows, k), columns)
    return g.cast(ones, data.dtype if dtype is None else torch_dtype(dtype))


def one_hot(g: ProgramBuilder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """A new axis of size ``depth`` that says where the index is; others are all off. Source: ONNX OneHot."""
    axis = axis_in(axis, indices.rank + 1)
    count = g.as_size(g.item(g.cast(g.reshape(depth, []), torch.int64), signed=True))
    index = g.unsqueeze(wrapped(g, indices, count), axis)
    choices = g.reshape(g.arange(0, count), along([*indices.shape[:axis], count, *indices.shape[axis:]], axis))
    off, on = (g.select(values, 0, item) for item in (0, 1))
    return g.where(g.call("aten.eq.Tensor", index, choices), on, off)
