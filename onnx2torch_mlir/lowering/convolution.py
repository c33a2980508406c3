"""Convolution as one linalg.generic over a padded input: any number of spatial dims, groups, strides and dilations.

A transposed convolution is the convolution of the input spread out by zeros with the mirrored kernel; where it has a stride
and no dilation, one without those zeros, of which every place gives a stride's worth of results (`_interleaved`).
Depthwise convolutions have no channel loops besides the group's; those with a few results for each channel read it as often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import floor_div, maximum, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import MapEntry
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.contraction import multiply_add
from onnx2torch_mlir.lowering.dtypes import op_math
from onnx2torch_mlir.lowering.movement import broadcast, transpose
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import convert, pointwise
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.shapes import reshape
from onnx2torch_mlir.lowering.slicing import crop_and_pad, insert_slice, pad
from onnx2torch_mlir.lowering.windows import spread, window_entry

_FEW_RESULTS = 8
"""Of one channel: as many as are hardly worth a product of matrices."""


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
        weight = channels_swapped(ctx, weight, window.groups)
        if any(s != 1 for s in steps) and all(a == 1 for a in apart):
            whole = _stretched(ctx, weight, steps) if offsets[1] is None else weight
            if _divides(steps, whole.shape[2:]):
                return _interleaved(ctx, x, whole, out, steps, low, window.groups, around, offsets)
        x = _spread_out(ctx, x, weight, steps, low, apart, extra, out.shape[2:], around)
        weight = _mirrored(ctx, weight)
        steps = [1] * spatial
    else:
        widths: list[Dim] = [0, 0, *low]
        x = pad(ctx, x, widths, widths, around)
    ctx.require_equal(x.shape[1], to_dim(weight.shape[1] * window.groups), "channels of a convolution")
    return _correlate(ctx, x, weight, out, steps, apart, window.groups, offsets)


def _spread_out(
    ctx: Context,
    x: Operand,
    weight: Operand,
    steps: Sequence[int],
    low: Sequence[Dim],
    apart: Sequence[int],
    extra: Sequence[int],
    sizes: Sequence[Dim],
    zero: ir.Value,
) -> Operand:
    """The input of the equivalent convolution: ``zero`` between the elements and around them."""
    if any(s != 1 for s in steps):
        wide = [maximum(0, to_dim((d - 1) * s + 1)) for d, s in zip(x.shape[2:], steps, strict=True)]
        holes = ctx.fill(zero, x.dtype, (*x.shape[:2], *wide))
        x = insert_slice(ctx, x, holes, [0] * x.rank, [1, 1, *steps])
    reach = [to_dim(a * (k - 1)) for a, k in zip(apart, weight.shape[2:], strict=True)]
    before = [to_dim(r - p) for r, p in zip(reach, low, strict=True)]
    after = [to_dim(b + e) for b, e in zip(before, extra, strict=True)]
    wanted = [to_dim(o + r) for o, r in zip(sizes, reach, strict=True)]
    return crop_and_pad(ctx, x, [0, 0, *before], [0, 0, *after], zero, (*x.shape[:2], *wanted))


def _divides(steps: Sequence[int], kernel: Sequence[Dim]) -> bool:
    """Whether as many taps of the kernel touch every place of the output."""
    return all(isinstance(k, int) and k > 0 and k % s == 0 for s, k in zip(steps, kernel, strict=True))


def _stretched(ctx: Context, weight: Operand, steps: Sequence[int]) -> Operand:
    """A kernel of known sizes with zeros behind it, up to a multiple of each stride."""
    sizes = [k for k in weight.shape[2:] if isinstance(k, int)]
    if len(sizes) != len(steps):
        return weight
    missing = [-k % s for k, s in zip(sizes, steps, strict=True)]
    return pad(ctx, weight, [0] * weight.rank, [0, 0, *missing], ctx.b.constant(0, weight.dtype))


def _mirrored(ctx: Context, weight: Operand) -> Operand:
    """[F, C, *K], which has to be of known sizes, with the taps in reverse order along each spatial dim."""
    reads: list[MapEntry] = [0, 1]
    for dim, k in enumerate(weight.shape[2:], 2):
        if not isinstance(k, int):
            raise refuse("O2M-L002", "a transposed convolution needs a kernel of known size", case="weight")
        back = ir.AffineExpr.get_mul(ir.AffineDimExpr.get(dim), -1)
        reads.append(dim if k == 1 else ir.AffineExpr.get_add(back, ir.AffineConstantExpr.get(k - 1)))
    if all(isinstance(entry, int) for entry in reads):
        return weight
    result = ctx.b.generic(
        [(weight.value, tuple(reads))],
        [(ctx.empty(weight.dtype, weight.shape), tuple(range(weight.rank)))],
        "p" * weight.rank,
        lambda element, _: element,
    )
    return Operand(weight.dtype, weight.shape, result[0])


def _interleaved(
    ctx: Context,
    x: Operand,
    weight: Operand,
    out: Spec,
    steps: Sequence[int],
    low: Sequence[Dim],
    groups: int,
    around: ir.Value,
    offsets: Sequence[ir.Value | None],
) -> Operand:
    """The transposed convolution with strides ``steps`` that divide the kernel's sizes.

    Result ``s * j + q`` (before ``low`` are cut off) is the sum over t of ``x[j - t] * weight[s * t + q]``: a convolution
    with the channels [groups, s, F / groups] and a kernel ``s`` times smaller, whose results are put side by side.
    """
    spatial = x.rank - 2
    n, f = out.shape[:2]
    per_f, per_c = floor_div(f, groups), weight.shape[1]
    taps = [int(k) // s for k, s in zip(weight.shape[2:], steps, strict=True)]
    axes = range(spatial)
    split = reshape(ctx, weight, [groups, per_f, per_c, *(size for pair in zip(taps, steps, strict=True) for size in pair)])
    turned = transpose(ctx, split, [0, *(4 + 2 * i for i in axes), 1, 2, *(3 + 2 * i for i in axes)])
    channels = to_dim(f * math.prod(steps))
    turned = _mirrored(ctx, reshape(ctx, turned, [channels, per_c, *taps]))
    reach: list[Dim] = [0, 0, *(t - 1 for t in taps)]
    x = pad(ctx, x, reach, reach, around)
    ctx.require_equal(x.shape[1], to_dim(per_c * groups), "channels of a convolution")
    places = [to_dim(d - t + 1) for d, t in zip(x.shape[2:], taps, strict=True)]
    ones = [1] * spatial
    whole = Spec(out.dtype, (n, channels, *places))
    product = _correlate(ctx, x, turned, whole, ones, ones, groups, offsets)
    product = reshape(ctx, product, [n, groups, *steps, per_f, *places])
    order = [0, 1, 2 + spatial, *(axis for i in axes for axis in (3 + spatial + i, 2 + i))]
    product = reshape(ctx, transpose(ctx, product, order), [n, f, *(to_dim(j * s) for j, s in zip(places, steps, strict=True))])
    before = [to_dim(-p) for p in low]
    after = [to_dim(o + p - d) for o, p, d in zip(out.shape[2:], low, product.shape[2:], strict=True)]
    zero = ctx.b.constant(0, product.dtype)
    return crop_and_pad(ctx, product, [0, 0, *before], [0, 0, *after], zero, out.shape)


def channels_swapped(ctx: Context, weight: Operand, groups: int) -> Operand:
    """[C, F/groups, *K] as [F, C/groups, *K]."""
    c, f, *kernel = weight.shape
    per_group = floor_div(c, groups)
    split = reshape(ctx, weight, [groups, per_group, f, *kernel])
    swapped = transpose(ctx, split, [0, 2, 1, *range(3, 3 + len(kernel))])
    return reshape(ctx, swapped, [to_dim(f * groups), per_group, *kernel])


def _repeated(ctx: Context, x: Operand, count: int) -> Operand:
    """[N, C, *S] with each channel ``count`` times, one after the other."""
    n, c, *sizes = x.shape
    wide = broadcast(ctx, reshape(ctx, x, [n, c, 1, *sizes]), [n, c, count, *sizes])
    return reshape(ctx, wide, [n, to_dim(c * count), *sizes])


def _correlate(
    ctx: Context,
    x: Operand,
    weight: Operand,
    out: Spec,
    steps: Sequence[int],
    apart: Sequence[int],
    groups: int,
    offsets: Sequence[ir.Value | None],
) -> Operand:
    """The sum of products; the result is in the accumulator's dtype."""
    n, f, *sizes = out.shape
    kernel = weight.shape[2:]
    per_f, per_c = floor_div(f, groups), weight.shape[1]
    if groups > 1 and per_c == 1 and isinstance(per_f, int) and 1 < per_f <= _FEW_RESULTS:
        x, groups, per_f = _repeated(ctx, x, per_f), groups * per_f, 1
    depthwise = groups > 1 and per_f == 1 and per_c == 1
    if depthwise:
        shapes = x.shape, (groups, *kernel), out.shape
        channels_x, channels_w, channels_out, letters = "g", "g", "g", "g"
    elif groups > 1:
        shapes = (n, groups, per_c, *x.shape[2:]), (groups, per_f, per_c, *kernel), (n, groups, per_f, *sizes)
        channels_x, channels_w, channels_out, letters = "gc", "gfc", "gf", "gf"
    else:
        shapes = x.shape, weight.shape, out.shape
        channels_x, channels_w, channels_out, letters = "c", "fc", "f", "f"
    order = ["n", *letters, *(f"o{i}" for i in range(len(sizes)))]
    summed = [*("c" if "c" in channels_x else ""), *(f"k{i}" for i in range(len(sizes)))]
    number = {name: i for i, name in enumerate([*order, *summed])}
    windows: list[MapEntry] = [
        window_entry(number[f"o{i}"], number[f"k{i}"], s, d) for i, (s, d) in enumerate(zip(steps, apart, strict=True))
    ]
    taps = [number[f"k{i}"] for i in range(len(kernel))]
    places = [number[f"o{i}"] for i in range(len(kernel))]
    operands = [reshape(ctx, v, shape) for v, shape in ((x, shapes[0]), (weight, shapes[1]))]
    dtype = op_math(out.dtype)
    init = ctx.full(0, dtype, shapes[2])
    result: ir.Value = ctx.b.generic(
        [
            (operands[0].value, (0, *(number[c] for c in channels_x), *windows)),
            (operands[1].value, (*(number[c] for c in channels_w), *taps)),
        ],
        [(init.value, (0, *(number[c] for c in channels_out), *places))],
        "p" * len(order) + "r" * len(summed),
        multiply_add(ctx.b, operands[0], operands[1], dtype, offsets),
    )[0]
    return reshape(ctx, Operand(dtype, shapes[2], result), out.shape)
