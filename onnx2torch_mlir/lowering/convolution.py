"""Convolution over a padded input: any number of spatial dims, groups, strides and dilations, transposed or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.correlation import correlate
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import convert, pointwise
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.shapes import reshape
from onnx2torch_mlir.lowering.slicing import pad
from onnx2torch_mlir.lowering.transposed_convolution import Stretch, spread_convolution
from onnx2torch_mlir.lowering.windows import spread


@rule("aten.convolution.default")
def convolution(
    ctx: Context,
    node: Node,
    x: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Sequence[int],
    padding: Sequence[Dim],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Operand:
    """[N, C, *S] x [F, C/groups, *K] -> [N, F, *O]; transposed: the weight is [C, F/groups, *K]."""
    out = ctx.spec(node)
    window = Window(stride, padding, dilation, transposed, output_padding, groups)
    product = correlation(ctx, x, weight, out, window, ctx.b.constant(0, x.dtype))
    if bias is not None:
        product = biased(ctx, product, bias)
    return convert(ctx, product, out.dtype)


def biased(ctx: Context, product: Operand, bias: Operand) -> Operand:
    """[N, F, *O] with ``bias`` [F] added."""
    shaped = reshape(ctx, bias, [bias.shape[0], *[1] * (product.rank - 2)])
    return pointwise(ctx, product.spec, "add", product, shaped)


class Window(NamedTuple):
    """The arguments of a convolution that are not tensors."""

    stride: Sequence[int]
    padding: Sequence[Dim]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int


def correlation(
    ctx: Context,
    x: Operand,
    weight: Operand,
    out: Spec,
    window: Window,
    around: ir.Value,
    *,
    offsets: Sequence[ir.Value | None] = (None, None),
) -> Operand:
    """The convolution without bias, in the dtype in which ``out`` accumulates; ``around`` is what pads ``x``.

    ``offsets`` (of that dtype) are subtracted from the elements of ``x`` and of ``weight``.
    """
    spatial = x.rank - 2
    given = (window.stride, window.padding, window.dilation, window.output_padding)
    steps, low, apart, extra = (spread(v, spatial) for v in given)
    if window.transposed:
        return spread_convolution(ctx, x, weight, out, Stretch(steps, low, apart, extra, window.groups), around, offsets)
    widths: list[Dim] = [0, 0, *low]
    x = pad(ctx, x, widths, widths, around)
    ctx.require_equal(x.shape[1], to_dim(weight.shape[1] * window.groups), "channels of a convolution")
    return correlate(ctx, x, weight, out, steps, apart, window.groups, offsets)
