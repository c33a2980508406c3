"""Tensors in onnxruntime's blocked layout, and the plain tensors that they hold.

A blocked tensor is declared [N, C, H, W], but its elements lie in the order [N, C / block, H, W, block]; C is a multiple of
the block. `blocked` and `unblocked` are moves of elements that cancel: what was made by `blocked` is plain again without a
move, and so is what pointwise operators and concatenations made of such tensors. A chain of convolutions is therefore a
chain of plain ones, and yet every value between them, where one is asked for, is the one that onnxruntime has there.

Source: https://github.com/microsoft/onnxruntime, ``nchwc_transformer.cc`` and ``nchwc_ops.cc``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.primitives import POINTWISE_BINARY, POINTWISE_UNARY
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

_POINTWISE = frozenset(
    name if "." in name else f"{name}.default"
    for name in (*POINTWISE_UNARY, *POINTWISE_BINARY, "where.self", "clamp", "clamp.Tensor")
)
_TO_BLOCKS, _FROM_BLOCKS = [0, 1, 3, 4, 2], [0, 1, 4, 2, 3]


def checked(x: Value, block: int) -> int:
    """The number of channels of a blocked ``x``.

    Raises:
        Refusal: O2M-C006 where it has other than four axes, or channels that do not fill the blocks.
    """
    channels = x.shape[1] if x.rank == 4 else None
    if not isinstance(channels, int) or channels % block:
        raise refuse("O2M-C006", f"{x.shape} is not blocked by {block}", case="rank")
    return channels


def blocked(g: ProgramBuilder, x: Value, block: int) -> Value:
    """``x`` [N, C, H, W] with its elements in blocked order."""
    batch, _, height, width = x.shape
    blocks = checked(x, block) // block
    apart = g.reshape(x, [batch, blocks, block, height, width])
    return g.reshape(g.permute(apart, _TO_BLOCKS), x.shape)


def unblocked(g: ProgramBuilder, x: Value, block: int) -> Value:
    """The plain tensor that a blocked ``x`` holds."""
    blocks = checked(x, block) // block
    plain = None if x.is_known or x.builder is not g else _source(g, x.node, x.shape, block)
    if plain is not None:
        return plain
    batch, _, height, width = x.shape
    apart = g.reshape(x, [batch, blocks, height, width, block])
    return g.reshape(g.permute(apart, _FROM_BLOCKS), x.shape)


def _source(g: ProgramBuilder, node: torch.fx.Node, shape: Sequence[Dim], block: int) -> Value | None:
    """The plain tensor of ``shape`` that ``node`` holds in blocks, if it is known how it came about."""
    made_of = _made_by_blocking(node, block)
    if made_of is not None:
        value = _value(g, made_of)
        return value if value is not None and _same(g, value.shape, shape) else None
    primitive = str(node.target)
    if primitive == "aten.cat.default" and node.args[1:] in ((1,), (-3,)):
        return _of_parts(g, node.args[0], block)
    if primitive.removeprefix("aten.") not in _POINTWISE:
        return None
    operands = [_operand(g, item, shape, block) for item in node.args]
    return None if any(item is _OTHER for item in operands) else g.call(primitive, *operands, **node.kwargs)


_OTHER = object()
"""Stands for an operand that cannot be had plain."""


def _operand(g: ProgramBuilder, item: Any, shape: Sequence[Dim], block: int) -> Any:
    """An operand of a pointwise operator on blocked tensors as one on plain tensors."""
    if not isinstance(item, torch.fx.Node):
        return item
    value = _value(g, item)
    if value is None:
        return _OTHER
    if all(size == 1 for size in value.shape):
        return value
    if not _same(g, value.shape, shape):
        return _OTHER
    plain = _source(g, item, shape, block)
    return _OTHER if plain is None else plain


def _of_parts(g: ProgramBuilder, nodes: Any, block: int) -> Value | None:
    parts = []
    for node in nodes:
        value = _value(g, node)
        if value is None or not isinstance(value.shape[1], int) or value.shape[1] % block:
            return None
        parts.append(_source(g, node, value.shape, block))
    known = [part for part in parts if part is not None]
    return g.cat(known, 1) if known and len(known) == len(parts) else None


def _made_by_blocking(node: torch.fx.Node, block: int) -> torch.fx.Node | None:
    """What `blocked` was called with to make ``node``."""
    steps: list[Any] = []
    for wanted in ("view", "clone", "permute", "view"):
        if node.target is not getattr(torch.ops.aten, wanted).default:
            return None
        steps.append(node)
        source = node.args[0]
        if not isinstance(source, torch.fx.Node):
            return None
        node = source
    _, _, permute, apart = steps
    sizes = apart.args[1]
    return node if permute.args[1] == _TO_BLOCKS and len(sizes) == 5 and sizes[2] == block else None


def _value(g: ProgramBuilder, node: torch.fx.Node) -> Value | None:
    tensor = node.meta.get("val")
    if not isinstance(tensor, torch.Tensor):
        return None
    return Value(g, tensor.dtype, tuple(to_dim(size) for size in tensor.shape), node=node)


def _same(g: ProgramBuilder, a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(D.known_equal(g.simplify(x), g.simplify(y)) for x, y in pairs)


def plain_filters(g: ProgramBuilder, w: Value, block: int, *, inputs_blocked: bool) -> Value:
    """Filters [M, C, H, W] from the order [M / block, C / block, H, W, block of C, block of M].

    Without ``inputs_blocked`` from [M / block, C, H, W, block of M]. Those of the model are not read for it.

    Raises:
        Refusal: O2M-C006 where their channels do not fill the blocks.
    """
    sizes = [size for size in w.shape if isinstance(size, int)]
    inner = block if inputs_blocked else 1
    if len(sizes) != 4 or w.rank != 4 or sizes[0] % block or sizes[1] % inner:
        raise refuse("O2M-C006", f"filters of {w.shape} are not blocked by {block}", case="W")
    filters, channels, height, width = sizes
    apart = [filters // block, channels // inner, height, width, inner, block]
    order = [0, 5, 1, 4, 2, 3]
    if not w.is_known:
        return g.reshape(g.permute(g.reshape(w, apart), order), sizes)

    def load() -> torch.Tensor:
        tensor = w.tensor
        assert tensor is not None
        return tensor.reshape(apart).permute(order).reshape(sizes).contiguous()

    return g.constant(f"{w.name or 'filters'}.plain", w.dtype, sizes, load)


def padded_channels(g: ProgramBuilder, x: Value, block: int) -> Value:
    """``x`` [N, C, H, W] with channels of zeros that fill the last block."""
    channels = x.shape[1]
    if not isinstance(channels, int):
        raise refuse("O2M-C004", "the number of channels is only known at run time", case="X")
    return g.pad(x, [0] * 4, [0, math.ceil(channels / block) * block - channels, 0, 0])
