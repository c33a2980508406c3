"""Data movement on the integers of what is dequantized; max pooling and joining too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.integer_forms import Retyped, form, plain
from onnx2torch_mlir.lowering.movement import transpose
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.registry import RULES
from onnx2torch_mlir.lowering.scaled import Scaled
from onnx2torch_mlir.lowering.shapes import groups, is_proven, reshape
from onnx2torch_mlir.lowering.slicing import crop_and_pad


def _move(name: str) -> None:
    @form(name)
    def moved(ctx: Context, node: Node, x: Any, *args: Any, **kwargs: Any) -> Scaled | None:
        if not isinstance(x, Scaled) or not x.is_whole:
            return None
        retyped = Retyped(ctx, node, x.codes.dtype)
        return x.with_codes(RULES[name](ctx, retyped, x.codes, *plain(list(args)), **plain(kwargs)))


for _name in "expand slice.Tensor select.int flip index_select gather index.Tensor clone".split():
    _move(f"aten.{_name}" if "." in _name else f"aten.{_name}.default")


@form("aten.permute.default")
def permute(ctx: Context, node: Node, x: Any, dims: Sequence[int]) -> Scaled | None:
    """Parameters move with their axis."""
    if not isinstance(x, Scaled):
        return None
    order = [d % x.rank if x.rank else d for d in dims]
    return x.with_codes(transpose(ctx, x.codes, order), order.index)


@form("aten.view.default", "aten.unsqueeze.default", "aten.squeeze.dims")
def view(ctx: Context, node: Node, x: Any, *_: Any) -> Scaled | None:
    """An axis that has parameters must still be an axis of its own."""
    if not isinstance(x, Scaled):
        return None
    shape = ctx.spec(node).shape
    places: dict[int, int] = {}
    if not x.is_whole:
        if not is_proven(x.shape, shape):
            return None
        for source, target in groups(x.shape, shape):
            long = [[a for a in run if sizes[a] != 1] for run, sizes in ((source, x.shape), (target, shape))]
            if len(long[0]) == len(long[1]) == 1:
                places[long[0][0]] = long[1][0]
        if any(p.axis is not None and p.axis not in places for p in x.parameters):
            return None
    return x.with_codes(reshape(ctx, x.codes, shape), lambda axis: places[axis])


@form("aten.cat.default")
def cat(ctx: Context, node: Node, tensors: Sequence[Any], dim: int = 0) -> Scaled | None:
    """Of tensors with the same known parameters."""
    if not all(isinstance(x, Scaled) and x.is_whole for x in tensors):
        return None
    first = tensors[0]
    if first.number is None or first.offset is None:
        return None
    same = (first.number, first.offset, first.codes.dtype, first.summed)
    if any((x.number, x.offset, x.codes.dtype, x.summed) != same for x in tensors):
        return None
    retyped = Retyped(ctx, node, first.codes.dtype)
    joined: Operand = RULES["aten.cat.default"](ctx, retyped, [x.codes for x in tensors], dim)
    return first.with_codes(joined)


def zero_code(ctx: Context, x: Scaled) -> ir.Value | None:
    """The integer that stands for 0, if it is one for the whole tensor."""
    if x.zero is None:
        return ctx.b.constant(0, x.codes.dtype)
    return None if x.zero.axis is not None else cast(ctx.b, x.zero.value, torch.int32, x.codes.dtype)


@form("aten.constant_pad_nd.default")
def constant_pad_nd(ctx: Context, node: Node, x: Any, pad: Sequence[Dim], value: Any = 0) -> Scaled | None:
    """Padding by zeros."""
    if not isinstance(x, Scaled) or not x.is_whole or not isinstance(value, int | float) or value != 0:
        return None
    zero = zero_code(ctx, x)
    if zero is None:
        return None
    low: list[Dim] = [0] * x.rank
    high: list[Dim] = [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return x.with_codes(crop_and_pad(ctx, x.codes, low, high, zero, ctx.spec(node).shape))


@form("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool(ctx: Context, node: Node, x: Any, *args: Any, **kwargs: Any) -> tuple[Scaled, Operand] | None:
    """The greatest integer stands for the greatest number if the scale is positive."""
    if not isinstance(x, Scaled) or x.number is None or x.number <= 0 or not x.is_whole:
        return None
    retyped = Retyped(ctx, node, x.codes.dtype)
    largest, where = RULES[str(node.target)](ctx, retyped, x.codes, *args, **kwargs)
    return x.with_codes(largest), where
