"""Rules that move elements without computing: view, permute, expand and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.builder import MapResults
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


def before_broadcast(x: Operand) -> tuple[Operand, MapResults]:
    """What ``x`` repeats, and the map that reads it as `broadcast` did; ``x`` itself, if it repeats nothing."""
    own = x, tuple(range(x.rank))
    made = x.value.owner
    if isinstance(made, ir.Block) or made.name != "linalg.generic":
        return own
    (block,) = made.regions[0].blocks
    maps = [ir.AffineMapAttr(map_).value for map_ in ir.ArrayAttr(made.attributes["indexing_maps"])]
    first = next(iter(block.operations)).operation
    is_copy = first.name == "linalg.yield" and len(made.operands) == 2 and first.operands[0] == block.arguments[0]
    if not is_copy or maps[1] != ir.AffineMap.get_identity(x.rank):
        return own
    entries: list[int | None] = []
    for each in maps[0].results:
        if isinstance(each, ir.AffineConstantExpr) and each.value == 0:
            entries.append(None)
        elif isinstance(each, ir.AffineDimExpr):
            entries.append(each.position)
        else:
            return own
    shape = tuple(1 if entry is None else x.shape[entry] for entry in entries)
    return Operand(x.dtype, shape, made.operands[0]), tuple(entries)


@rule("aten.expand.default")
def expand(ctx: Context, node: Node, x: Operand, size: Sequence[Dim], implicit: bool = False) -> Operand:
    """Broadcast to the declared shape."""
    return broadcast(ctx, x, ctx.spec(node).shape)
