"""ATen calls that derivatives contain and that are no primitives, made of primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def _same(g: ProgramBuilder, x: Value, *_: Any) -> Value:
    return x


def _full_like(
    g: ProgramBuilder, x: Value, number: float = 0, *_: Any, dtype: torch.dtype | None = None
) -> Value:
    return g.full(x.shape, number, dtype or x.dtype)


def _full(g: ProgramBuilder, size: Sequence[Dim], number: float, *, dtype: torch.dtype = torch.float32) -> Value:
    return g.full(size, number, dtype)


def _new(number: float) -> Callable[..., Value]:
    def new(g: ProgramBuilder, x: Value, size: Sequence[Dim], *, dtype: torch.dtype | None = None) -> Value:
        return g.full(size, number, dtype or x.dtype)

    return new


def _scalar(g: ProgramBuilder, number: Any, *, dtype: torch.dtype = torch.float32) -> Value:
    return g.scalar(number, dtype) if isinstance(number, int | float | bool) else g.size_value(number, dtype)


def _power(g: ProgramBuilder, x: Value, exponent: float) -> Value:
    return g.mul(x, x) if exponent == 2 else g.binary("pow", x, exponent)


def _slice(
    g: ProgramBuilder, x: Value, axis: int, start: Dim | None, end: Dim | None, step: int = 1
) -> Value:
    start, end = _bounds(x.shape[axis], start, end)
    return g.slice(x, axis % x.rank, start, end, step)


def _bounds(size: Dim, start: Dim | None, end: Dim | None) -> tuple[Dim, Dim]:
    def clamped(bound: Dim) -> Dim:
        if isinstance(bound, int) and bound < 0:
            bound = to_dim(size + bound)
        return size if isinstance(bound, int) and bound >= 2**31 else D.minimum(bound, size)

    return clamped(0 if start is None else start), clamped(size if end is None else end)


def _slice_scatter(
    g: ProgramBuilder, x: Value, source: Value, axis: int, start: Dim | None, end: Dim | None, step: int = 1
) -> Value:
    """``x`` with ``source`` in the place of a slice of it."""
    size = x.shape[axis]
    first, last = _bounds(size, start, end)
    if step == 1:
        parts = [g.slice(x, axis, 0, first), source, g.slice(x, axis, last, size)]
        return g.cat(parts, axis)
    shape = [1] * x.rank
    shape[axis % x.rank] = -1
    places = g.add(g.mul(g.arange(0, source.shape[axis]), step), g.size_value(first))
    index = g.expand(g.reshape(places, shape), source.shape)
    result: Value = g.call("aten.scatter.src", x, axis, index, source)
    return result


def _select_scatter(g: ProgramBuilder, x: Value, source: Value, axis: int, index: Dim) -> Value:
    at = to_dim(x.shape[axis] + index) if isinstance(index, int) and index < 0 else index
    return _slice_scatter(g, x, g.unsqueeze(source, axis % x.rank), axis, at, to_dim(at + 1))


def _convolution_backward(
    g: ProgramBuilder,
    grad: Value,
    x: Value,
    weight: Value,
    bias_sizes: Any,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    mask: list[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """The gradients of a convolution: two further convolutions, and a sum for the bias.

    Source: ``aten::convolution_backward``.
    """
    spatial = list(range(2, x.rank))
    if transposed or not all(isinstance(size, int) for size in (*x.shape[2:], *grad.shape[2:], *weight.shape)):
        raise refuse("O2M-C003", "the gradient of a transposed convolution or of one of unknown size", case="Conv")
    by_bias = g.sum(grad, [0, *spatial]) if mask[2] else None
    by_x = by_weight = None
    if mask[0]:
        extra = [
            x.shape[a] - ((grad.shape[a] - 1) * stride[a - 2] - 2 * padding[a - 2]
                          + dilation[a - 2] * (weight.shape[a] - 1) + 1)
            for a in spatial
        ]  # fmt: skip
        arguments = [stride, padding, dilation, True, [int(item) for item in extra], groups]
        by_x = g.call("aten.convolution.default", grad, weight, None, *arguments)
    if mask[1]:
        zeros = [0] * len(spatial)
        each, out = int(weight.shape[1]), int(weight.shape[0]) // groups
        parts = []
        for group in range(groups):
            own = g.transpose(g.slice(x, 1, group * each, (group + 1) * each), 0, 1)
            back = g.transpose(g.slice(grad, 1, group * out, (group + 1) * out), 0, 1)
            part = g.call("aten.convolution.default", own, back, None, dilation, padding, stride, False, zeros, 1)
            for axis in spatial:
                part = g.slice(part, axis, 0, weight.shape[axis])
            parts.append(g.transpose(part, 0, 1))
        by_weight = g.cat(parts, 0)
    return by_x, by_weight, by_bias


def _max_pool_backward(g: ProgramBuilder, grad: Value, x: Value, *rest: Any) -> Value:
    """Each gradient is added where the maximum was. Source: ``aten::max_pool2d_with_indices_backward``."""
    indices = rest[-1]
    lead = list(x.shape[:-2])
    plane = g.full([*lead, to_dim(x.shape[-2] * x.shape[-1])], 0, x.dtype)
    flat = [*lead, to_dim(grad.shape[-2] * grad.shape[-1])]
    added = g.call("aten.scatter_add.default", plane, len(lead), g.reshape(indices, flat), g.reshape(grad, flat))
    return g.reshape(added, x.shape)


EXTRA: dict[str, Callable[..., Any]] = {
    "aten.alias.default": _same,
    "aten.detach.default": _same,
    "aten.clone.default": _same,
    "aten.full_like.default": _full_like,
    "aten.zeros_like.default": _full_like,
    "aten.ones_like.default": lambda g, x, *_, dtype=None: _full_like(g, x, 1, dtype=dtype),
    "aten.full.default": _full,
    "aten.new_zeros.default": _new(0),
    "aten.new_ones.default": _new(1),
    "aten.scalar_tensor.default": _scalar,
    "aten.pow.Tensor_Scalar": _power,
    "aten.sgn.default": lambda g, x: g.unary("sign", x),
    "aten.t.default": lambda g, x: g.transpose(x, 0, 1) if x.rank == 2 else x,
    "aten.transpose.int": lambda g, x, a, b: g.transpose(x, a, b),
    "aten.squeeze.dim": lambda g, x, axis: g.squeeze(x, [axis]),
    "aten.view.default": lambda g, x, size: g.reshape(x, size),
    "aten.reshape.default": lambda g, x, size: g.reshape(x, size),
    "aten._unsafe_view.default": lambda g, x, size: g.reshape(x, size),
    "aten.expand.default": lambda g, x, size, *_: g.expand(
        x, [x.shape[i - len(size) + x.rank] if item == -1 else item for i, item in enumerate(size)]
    ),
    "aten.slice.Tensor": _slice,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.select_scatter.default": _select_scatter,
    "aten.convolution_backward.default": _convolution_backward,
    "aten.max_pool2d_with_indices_backward.default": _max_pool_backward,
}
"""By the name of the overload: a function of the builder and the overload's arguments."""
