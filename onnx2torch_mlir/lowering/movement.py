"""Rules that move elements without computing: view, permute, expand and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import Node

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import elementwise
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.shapes import reshape


@rule(
    "aten.view.default",
    "aten.unsqueeze.default",
    "aten.squeeze.dims",
)
def view(ctx: Context, node: Node, x: Operand, *_: Any) -> Operand:
    """The elements in order under the declared shape."""
    return reshape(ctx, x, ctx.spec(node).shape)


def transpose(ctx: Context, x: Operand, order: Sequence[int]) -> Operand:
    """Dim ``k`` of the result is dim ``order[k]`` of ``x``."""
    if list(order) == list(range(x.rank)):
        return x
    shape = tuple(x.shape[a] for a in order)
    reads = tuple(list(order).index(a) for a in range(x.rank))
    result = ctx.b.generic(
        [(x.value, reads)],
        [(ctx.empty(x.dtype, shape), tuple(range(x.rank)))],
        "p" * x.rank,
        lambda element, _: element,
    )
    return Operand(x.dtype, shape, result[0])


@rule("aten.permute.default")
def permute(ctx: Context, node: Node, x: Operand, dims: Sequence[int]) -> Operand:
    """Dims in another order."""
    return transpose(ctx, x, [d % x.rank if x.rank else d for d in dims])


def broadcast(ctx: Context, x: Operand, shape: Sequence[Dim]) -> Operand:
    """``x`` repeated along its dims of size 1 (and new leading dims) to ``shape``."""
    if x.shape == tuple(shape):
        return x
    return elementwise(ctx, Spec(x.dtype, tuple(shape)), [x], lambda element: element)


@rule("aten.expand.default")
def expand(ctx: Context, node: Node, x: Operand, size: Sequence[Dim], implicit: bool = False) -> Operand:
    """Broadcast to the declared shape."""
    return broadcast(ctx, x, ctx.spec(node).shape)
