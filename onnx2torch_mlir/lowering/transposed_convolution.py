"""Transposed convolutions as convolutions of the input with the mirrored kernel.

With a stride, each place of the input gives a stride's worth of neighbouring results, which differ in the taps that they meet.
So there are that many smaller convolutions: one for each of these *phases*, every result of which goes to its place in the
output (`_by_phases`), or one with as many times the channels, whose results are interleaved afterwards (`_interleaved`). Where
neither will do, zeros are put between the elements of the input (`_spread_out`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from torch_mlir import ir

from onnx2torch_mlir.core.dims import ceil_div, floor_div, maximum, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import MapEntry
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.correlation import correlate
from onnx2torch_mlir.lowering.dtypes import op_math
from onnx2torch_mlir.lowering.movement import transpose
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.shapes import reshape
from onnx2torch_mlir.lowering.slicing import crop_and_pad, extract_slice, insert_slice, pad

_MANY_RESULTS = 8
"""Of one group: as many as are worth products of their own for each phase."""
_MOST_PHASES = 16


class Stretch(NamedTuple):
    """What a transposed convolution has for each spatial dim, and its groups."""

    steps: Sequence[int]
    low: Sequence[Dim]
    apart: Sequence[int]
    extra: Sequence[int]
    groups: int


def spread_convolution(
    ctx: Context,
    x: Operand,
    weight: Operand,
    out: Spec,
    stretch: Stretch,
    around: ir.Value,
    offsets: Sequence[ir.Value | None],
) -> Operand:
    """[N, C, *S] x [C, F/groups, *K] -> [N, F, *O], without bias, in the accumulator's dtype; see `convolution.correlation`."""
    steps, low, apart, _, groups = stretch
    weight = _channels_swapped(ctx, weight, groups)
    ctx.require_equal(x.shape[1], to_dim(weight.shape[1] * groups), "channels of a convolution")
    if any(s != 1 for s in steps) and all(a == 1 for a in apart):
        phases = _phases(x, weight, out, stretch)
        if phases and offsets[1] is None:
            return _by_phases(ctx, x, weight, out, stretch, phases, around, offsets)
        whole = _stretched(ctx, weight, steps) if offsets[1] is None else weight
        if _divides(steps, whole.shape[2:]):
            return _interleaved(ctx, x, whole, out, steps, low, groups, around, offsets)
    x = _spread_out(ctx, x, weight, stretch, out.shape[2:], around)
    return correlate(ctx, x, _mirrored(ctx, weight), out, [1] * len(steps), apart, groups, offsets)


class _Phase(NamedTuple):
    """Results ``first + stride * m`` along one spatial dim.

    They are the sums over t of ``x[m + taps - 1 - before - t] * weight[tap + stride * t]``.
    """

    first: int
    tap: int
    taps: int
    before: int


def _phases(x: Operand, weight: Operand, out: Spec, stretch: Stretch) -> list[list[_Phase]]:
    """The phases along each spatial dim, if each is a convolution of its own that pays; else nothing."""
    kernel, low = (_known(sizes) for sizes in (weight.shape[2:], stretch.low))
    results = floor_div(out.shape[1], stretch.groups)
    if kernel is None or low is None or 0 in x.shape or not isinstance(results, int):
        return []
    # Where no result has two taps along any dim, one product for all phases has nothing at its edges.
    overlap = any(k > s for k, s in zip(kernel, stretch.steps, strict=True))
    if not overlap or results < _MANY_RESULTS or math.prod(stretch.steps) > _MOST_PHASES:
        return []
    phases = [_along(k, s, p) for k, s, p in zip(kernel, stretch.steps, low, strict=True)]
    return phases if all(phase.before >= 0 for along in phases for phase in along) else []


def _known(sizes: Sequence[Dim]) -> list[int] | None:
    """The sizes, if all are numbers."""
    numbers = [size for size in sizes if isinstance(size, int)]
    return numbers if len(numbers) == len(sizes) else None


def _along(kernel: int, step: int, low: int) -> list[_Phase]:
    """The phases of one dim."""
    found = []
    for first in range(step):
        shift, tap = divmod(first + low, step)
        taps = max(0, ceil_div(kernel - tap, step))
        found.append(_Phase(first, tap, taps, taps - 1 - shift))
    return found


def _by_phases(
    ctx: Context,
    x: Operand,
    weight: Operand,
    out: Spec,
    stretch: Stretch,
    phases: Sequence[Sequence[_Phase]],
    around: ir.Value,
    offsets: Sequence[ir.Value | None],
) -> Operand:
    """A convolution for each phase, with the taps that it meets; its results are where they belong in the output."""
    dtype, ones = op_math(out.dtype), [1] * len(phases)
    result = Operand(dtype, out.shape, ctx.empty(dtype, out.shape))
    for phase in itertools.product(*phases):
        first, tap, taps, before = zip(*phase, strict=True)
        places = [to_dim(ceil_div(to_dim(o - f), s)) for o, f, s in zip(out.shape[2:], first, stretch.steps, strict=True)]
        met = extract_slice(ctx, weight, [0, 0, *tap], [*weight.shape[:2], *taps], [1, 1, *stretch.steps])
        sizes = [to_dim(count + t - 1) for count, t in zip(places, taps, strict=True)]
        after = [to_dim(size - b - d) for size, b, d in zip(sizes, before, x.shape[2:], strict=True)]
        read = crop_and_pad(ctx, x, [0, 0, *before], [0, 0, *after], around, (*x.shape[:2], *sizes))
        spec = Spec(out.dtype, (*out.shape[:2], *places))
        part = correlate(ctx, read, _mirrored(ctx, met), spec, ones, ones, stretch.groups, offsets)
        result = insert_slice(ctx, part, result, [0, 0, *first], [1, 1, *stretch.steps])
    return result


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
    places = [to_dim(d - t + 1) for d, t in zip(x.shape[2:], taps, strict=True)]
    ones = [1] * spatial
    whole = Spec(out.dtype, (n, channels, *places))
    product = correlate(ctx, x, turned, whole, ones, ones, groups, offsets)
    product = reshape(ctx, product, [n, groups, *steps, per_f, *places])
    order = [0, 1, 2 + spatial, *(axis for i in axes for axis in (3 + spatial + i, 2 + i))]
    product = reshape(ctx, transpose(ctx, product, order), [n, f, *(to_dim(j * s) for j, s in zip(places, steps, strict=True))])
    before = [to_dim(-p) for p in low]
    after = [to_dim(o + p - d) for o, p, d in zip(out.shape[2:], low, product.shape[2:], strict=True)]
    zero = ctx.b.constant(0, product.dtype)
    return crop_and_pad(ctx, product, [0, 0, *before], [0, 0, *after], zero, out.shape)


def _divides(steps: Sequence[int], kernel: Sequence[Dim]) -> bool:
    """Whether as many taps of the kernel touch every place of the output."""
    return all(isinstance(k, int) and k > 0 and k % s == 0 for s, k in zip(steps, kernel, strict=True))


def _stretched(ctx: Context, weight: Operand, steps: Sequence[int]) -> Operand:
    """A kernel of known sizes with zeros behind it, up to a multiple of each stride."""
    sizes = _known(weight.shape[2:])
    if sizes is None:
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


def _spread_out(
    ctx: Context,
    x: Operand,
    weight: Operand,
    stretch: Stretch,
    sizes: Sequence[Dim],
    zero: ir.Value,
) -> Operand:
    """The input of the equivalent convolution: ``zero`` between the elements and around them."""
    steps, low, apart, extra, _ = stretch
    if any(s != 1 for s in steps):
        wide = [maximum(0, to_dim((d - 1) * s + 1)) for d, s in zip(x.shape[2:], steps, strict=True)]
        holes = ctx.fill(zero, x.dtype, (*x.shape[:2], *wide))
        x = insert_slice(ctx, x, holes, [0] * x.rank, [1, 1, *steps])
    reach = [to_dim(a * (k - 1)) for a, k in zip(apart, weight.shape[2:], strict=True)]
    before = [to_dim(r - p) for r, p in zip(reach, low, strict=True)]
    after = [to_dim(b + e) for b, e in zip(before, extra, strict=True)]
    wanted = [to_dim(o + r) for o, r in zip(sizes, reach, strict=True)]
    return crop_and_pad(ctx, x, [0, 0, *before], [0, 0, *after], zero, (*x.shape[:2], *wanted))


def _channels_swapped(ctx: Context, weight: Operand, groups: int) -> Operand:
    """[C, F/groups, *K] as [F, C/groups, *K]."""
    c, f, *kernel = weight.shape
    per_group = floor_div(c, groups)
    split = reshape(ctx, weight, [groups, per_group, f, *kernel])
    swapped = transpose(ctx, split, [0, 2, 1, *range(3, 3 + len(kernel))])
    return reshape(ctx, swapped, [to_dim(f * groups), per_group, *kernel])
