"""ATen calls that derivatives contain and that are no primitives, made of primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import product as product_of
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


def _as_long_as(g: ProgramBuilder, x: Value, sizes: Sequence[Dim]) -> Value:
    """``x``, whose last axes are at least as long as ``sizes``, cut to these."""
    first = x.rank - len(sizes)
    for axis, size in enumerate(sizes, start=first):
        x = g.slice(x, axis, 0, size)
    return x


def _spread(
    g: ProgramBuilder, grad: Value, weight: Value, window: Sequence[Sequence[int]], groups: int, sizes: Sequence[Dim]
) -> Value:
    """What a convolution of ``window`` (stride, padding, dilation) gives back to each place of its input, of ``sizes``.

    A transposed convolution that reaches as far as any such input does, cut to this one: no size has to be known.
    """
    stride, padding, dilation = (list(item) for item in window)
    arguments = [stride, padding, dilation, True, [step - 1 for step in stride], groups]
    return _as_long_as(g, g.call("aten.convolution.default", grad, weight, None, *arguments), sizes)


def _correlation(
    g: ProgramBuilder, wide: Value, narrow: Value, window: Sequence[Sequence[int]], groups: int, weight: Value
) -> Value:
    """The gradient of a convolution's ``weight`` [o, i, …]: a convolution of ``wide`` by ``narrow`` over the batch.

    ``wide`` [N, groups · i, …] is what the windows slide over, ``narrow`` [N, o, …] has one place for each window. Stride
    and dilation change places.
    """
    stride, padding, dilation = (list(item) for item in window)
    batch, spatial, each = wide.shape[0], wide.shape[2:], weight.shape[1]
    axes = list(range(3, wide.rank + 1))
    apart = g.permute(g.reshape(wide, [batch, groups, each, *spatial]), [2, 1, 0, *axes])
    data = g.reshape(apart, [each, to_dim(batch * groups), *spatial])
    arguments = [dilation, padding, stride, False, [0] * len(spatial), groups]
    found = g.call("aten.convolution.default", data, g.transpose(narrow, 0, 1), None, *arguments)
    return g.transpose(_as_long_as(g, found, weight.shape[2:]), 0, 1)


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
    window = (stride, padding, dilation)
    by_x = by_weight = None
    if mask[0] and transposed:
        arguments = [stride, padding, dilation, False, [0] * len(stride), groups]
        by_x = _as_long_as(g, g.call("aten.convolution.default", grad, weight, None, *arguments), x.shape[2:])
    elif mask[0]:
        by_x = _spread(g, grad, weight, window, groups, x.shape[2:])
    if mask[1]:
        wide, narrow = (grad, x) if transposed else (x, grad)
        by_weight = _correlation(g, wide, narrow, window, groups, weight)
    return by_x, by_weight, g.sum(grad, [0, *range(2, x.rank)]) if mask[2] else None


def _avg_pool_backward(
    g: ProgramBuilder,
    grad: Value,
    x: Value,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Value:
    """Each gradient, divided by the number of cells it is the mean of, goes to all of them.

    Source: ``aten::avg_pool2d_backward`` and its 3-D form.
    """
    rank = len(kernel)
    if ceil_mode:
        raise refuse("O2M-C003", "the gradient of a pool whose last windows reach beyond the padding", case="ceil_mode")
    window = (stride or kernel, padding, [1] * rank)
    sizes = list(x.shape[x.rank - rank :])
    ones = g.full([1, 1, *kernel], 1, x.dtype)
    cells = product_of(kernel) if divisor is None else divisor
    if count_include_pad or divisor is not None:
        shares = g.div(grad, float(cells))
    else:
        places = g.full([1, 1, *sizes], 1, x.dtype)
        counts = g.call("aten.convolution.default", places, ones, None, *map(list, window), False, [0] * rank, 1)
        shares = g.div(grad, counts if grad.rank == rank + 2 else g.squeeze(counts, [0]))
    planes = product_of(grad.shape[: grad.rank - rank])
    flat = g.reshape(shares, [planes, 1, *shares.shape[shares.rank - rank :]])
    return g.reshape(_spread(g, flat, ones, window, 1, sizes), x.shape)


def _max_pool_backward(g: ProgramBuilder, grad: Value, x: Value, kernel: list[int], *rest: Any) -> Value:
    """Each gradient is added where the maximum was. Source: ``aten::max_pool2d_with_indices_backward`` and its 3-D form."""
    indices, rank = rest[-1], len(kernel)
    lead = list(x.shape[:-rank])
    plane = g.full([*lead, product_of(x.shape[-rank:])], 0, x.dtype)
    flat = [*lead, product_of(grad.shape[-rank:])]
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
    "aten.avg_pool2d_backward.default": _avg_pool_backward,
    "aten.avg_pool3d_backward.default": _avg_pool_backward,
    "aten.max_pool2d_with_indices_backward.default": _max_pool_backward,
    "aten.max_pool3d_with_indices_backward.default": _max_pool_backward,
}
"""By the name of the overload: a function of the builder and the overload's arguments."""
