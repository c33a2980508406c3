"""Averages and sums of what is dequantized, taken of its integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.integer_forms import form
from onnx2torch_mlir.lowering.integer_movement import zero_code
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.reduction import axes_of, count_of, kept
from onnx2torch_mlir.lowering.scaled import Parameter, Scaled, combined, constant
from onnx2torch_mlir.lowering.shapes import reshape
from onnx2torch_mlir.lowering.window import averaged, averaging


def _number(ctx: Context, x: Scaled, code: ir.Value) -> ir.Value:
    """An element's integer less the zero point, in int32."""
    wide = cast(ctx.b, code, x.codes.dtype, torch.int32)
    return wide if x.zero is None else ctx.b.same("arith.subi", wide, x.zero.value)


def _summable(x: Any) -> bool:
    return isinstance(x, Scaled) and bool(x.factors) and x.is_whole and x.is_byte


@form("aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    ctx: Context,
    node: Node,
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Operand | None:
    """Sums of windows in int32; what pads ``x`` stands for 0."""
    zero = zero_code(ctx, x) if _summable(x) else None
    if zero is None:
        return None
    b, out = ctx.b, ctx.spec(node)
    windows = averaging(ctx, node, x.codes, kernel_size, stride, padding)
    total = windows.generic(
        windows.padded(zero),
        [ctx.full(0, torch.int32, out.shape)],
        lambda code, total: [b.same("arith.addi", total, _number(ctx, x, code))],
    )[0]
    summed = Scaled(ctx, Operand(torch.int32, out.shape, total), None, x.factors, summed=True)
    return averaged(ctx, windows, summed.plain(), out, count_include_pad, divisor_override)


@form("aten.mean.dim", "aten.sum.dim_IntList")
def mean(
    ctx: Context,
    node: Node,
    x: Any,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Scaled | None:
    """The sum of the integers; the factor of a mean is divided by their number."""
    if not _summable(x) or ctx.spec(node).dtype is not torch.float32:
        return None
    b = ctx.b
    axes = axes_of(dim, x.rank)
    count = count_of(ctx, x.codes, axes)
    wide = torch.int32 if isinstance(count, int) and count * 255 < 1 << 31 else torch.int64
    shape = kept(x.shape, axes, False)
    init = ctx.full(0, wide, shape)
    result = b.generic(
        [(x.codes.value, tuple(range(x.rank)))],
        [(init.value, tuple(a for a in range(x.rank) if a not in axes))],
        "".join("r" if a in axes else "p" for a in range(x.rank)),
        lambda code, total: b.same("arith.addi", total, cast(b, _number(ctx, x, code), torch.int32, wide)),
    )
    sums = reshape(ctx, Operand(wide, shape, result[0]), kept(x.shape, axes, keepdim))
    factor = x.factors[0]
    if "mean" in str(node.target):
        factor = combined(ctx, "divf", factor, _count(ctx, count))
    return Scaled(ctx, sums, None, (factor,), summed=True)


def _count(ctx: Context, count: Any) -> Parameter:
    if isinstance(count, int):
        return constant(ctx, count, torch.float32)
    value, source = ctx.sizes.scalar(sympy.sympify(count))
    return Parameter(cast(ctx.b, value, source, torch.float32), torch.float32)
