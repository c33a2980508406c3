"""Values of planes between their elements: AffineGrid and GridSample, by gathered neighbours and weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import Sizes
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import describe
from onnx2torch_mlir.families.resize_axes import Tap, clamped, cubic_weights
from onnx2torch_mlir.families.windows import check_spatial

PADDING_MODES = ("zeros", "border", "reflection")
CUBIC_COEFFICIENT = -0.75


def sampled(g: ProgramBuilder, x: Value, taps: Sequence[Sequence[Tap]]) -> Value:
    """Sums of weighed elements of ``x`` [N, C, *spatial]: [N, C, P].

    ``taps`` has one list per spatial axis; their indices and weights are [N, P], the indices within the axis.
    """
    spatial = x.shape[2:]
    planes = g.reshape(x, [*x.shape[:2], dims.product(spatial)])
    total: Value | None = None
    for choice in itertools.product(*taps):
        flat: Value | None = None
        weight: Value | None = None
        for size, tap in zip(spatial, choice, strict=True):
            flat = tap.index if flat is None else g.add(g.mul(flat, g.size_value(size)), tap.index)
            if tap.weight is not None:
                weight = tap.weight if weight is None else g.mul(weight, tap.weight)
        assert flat is not None
        index = g.expand(g.unsqueeze(flat, 1), [*x.shape[:2], flat.shape[1]])
        part: Value = g.call("aten.gather.default", planes, 2, index)
        if weight is not None:
            part = g.mul(part, g.cast(g.unsqueeze(weight, 1), x.dtype))
        total = part if total is None else g.add(total, part)
    assert total is not None
    return total


def grid_sample(
    g: ProgramBuilder,
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Value:
    """``x`` [N, C, *spatial] at the places of ``grid`` [N, *places, axes], -1 … 1 from end to end, last axis first.

    Source: ONNX GridSample 16 to 22 and its reference implementation.

    Raises:
        Refusal: O2M-C005 for unknown words and ranks that do not fit, O2M-C003 for interpolated integers.
    """
    check_spatial(x)
    rank = x.rank - 2
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic"):
        raise refuse("O2M-C005", f"unknown mode {mode}", case=f"mode={mode}")
    if padding_mode not in PADDING_MODES:
        raise refuse("O2M-C005", f"unknown padding {padding_mode}", case=f"padding_mode={padding_mode}")
    if mode != "nearest" and not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise refuse(
            "O2M-C003",
            f"{mode} interpolation of {describe(x.dtype)}: ONNX does not say what an interpolated number is there",
            hint="Cast the input to float before, and the result back.",
            case=f"mode={mode}",
        )
    if grid.rank != x.rank:
        raise refuse("O2M-C005", f"the input has rank {x.rank}, the grid rank {grid.rank}", case="rank")
    g.require_equal(grid.shape[-1], rank, "last size of the grid and number of spatial axes")
    g.require_equal(grid.shape[0], x.shape[0], "batch sizes of the input and the grid")
    dtype = torch.float64 if {torch.float64, torch.complex128} & {x.dtype, grid.dtype} else torch.float32
    places = grid.shape[1:-1]
    wide = g.reshape(g.cast(grid, dtype), [grid.shape[0], dims.product(places), rank])
    taps = []
    for axis, size in enumerate(x.shape[2:]):
        normal = g.select(wide, 2, rank - 1 - axis)
        length = g.size_value(size, dtype)
        if align_corners:
            where = g.mul(g.div(g.add(normal, 1.0), 2.0), g.size_value(to_dim(size - 1), dtype))
        else:
            where = g.div(g.sub(g.mul(g.add(normal, 1.0), length), 1.0), 2.0)
        taps.append(neighbours(g, where, size, mode, padding_mode, bool(align_corners)))
    if mode == "nearest":
        return g.reshape(_nearest(g, x, taps), [*x.shape[:2], *places])
    result = g.cast(sampled(g, x if x.dtype.is_complex else g.cast(x, dtype), taps), x.dtype)
    return g.reshape(result, [*x.shape[:2], *places])


def _nearest(g: ProgramBuilder, x: Value, taps: Sequence[Sequence[Tap]]) -> Value:
    """One element each, or zero where a weight says so; any dtype."""
    result = sampled(g, x, [[Tap(tap.index, None) for tap in along] for along in taps])
    for (tap,) in taps:
        if tap.weight is not None:
            inside = g.unsqueeze(g.call("aten.ne.Tensor", tap.weight, g.scalar(0.0, tap.weight.dtype)), 1)
            result = g.where(inside, result, g.scalar(0, x.dtype))
    return result


def neighbours(g: ProgramBuilder, x: Value, size: Dim, mode: str, padding_mode: str, align_corners: bool) -> list[Tap]:
    """What the values at coordinates ``x`` [N, P] along an axis of ``size`` are made of."""
    if mode == "nearest":
        x = g.unary("round", x)
    if padding_mode == "border" and mode != "cubic":  # cubic clamps its four neighbours alone, as onnxruntime does
        x = clamped(g, x, size)
    elif padding_mode == "reflection":
        x = _reflected(g, x, size, align_corners)
    if mode == "nearest":
        return [_padded(g, x, None, size, padding_mode, align_corners)]
    down = g.unary("floor", x)
    rest = g.sub(x, down)
    if mode == "linear":
        weights, first = [g.sub(1.0, rest), rest], 0
    else:
        weights, first = cubic_weights(g, rest, CUBIC_COEFFICIENT), -1
    return [
        _padded(g, g.add(down, float(first + i)), weight, size, padding_mode, align_corners) for i, weight in enumerate(weights)
    ]


def _padded(g: ProgramBuilder, place: Value, weight: Value | None, size: Dim, padding_mode: str, align_corners: bool) -> Tap:
    """The element at a whole number ``place``, which may lie outside."""
    if padding_mode == "reflection":
        place = _reflected(g, place, size, align_corners)
    index = g.cast(place, torch.int64)
    within = clamped(g, index, size)
    if padding_mode != "zeros":
        return Tap(within, weight)
    weight = weight if weight is not None else g.full(place.shape, 1.0, place.dtype)
    inside = g.call("aten.eq.Tensor", index, within)
    return Tap(within, g.where(inside, weight, g.scalar(0.0, place.dtype)))


def _reflected(g: ProgramBuilder, x: Value, size: Dim, align_corners: bool) -> Value:
    """``x`` folded back at the ends: at the outer elements' centres, or at their outer edges."""
    dtype = x.dtype
    low = g.scalar(0.0 if align_corners else -0.5, dtype)
    span = g.size_value(dims.maximum(to_dim(size - 1), 1) if align_corners else size, dtype)
    high = g.add(low, span)
    below = g.call("aten.lt.Tensor", x, low)
    above = g.call("aten.gt.Tensor", x, high)
    distance = g.where(below, g.sub(low, x), g.sub(x, high))
    turns = g.unary("trunc", g.div(distance, span))
    rest = g.sub(distance, g.mul(turns, span))
    even = g.call("aten.eq.Tensor", g.binary("remainder", turns, 2.0), g.scalar(0.0, dtype))
    from_low, from_high = g.add(low, rest), g.sub(high, rest)
    folded = g.where(g.call("aten.eq.Tensor", below, even), from_low, from_high)
    return g.where(g.call("aten.logical_or.default", below, above), folded, x)


def affine_grid(g: ProgramBuilder, theta: Value, size: Sizes, *, align_corners: int = 0) -> Value:
    """The places of a grid of ``size`` (N, C, *spatial) moved by ``theta`` [N, axes, axes + 1]: [N, *spatial, axes].

    Places go from -1 to 1, from outer centre to outer centre or from edge to edge; the last axis comes first.

    Source: ONNX AffineGrid and its reference implementation (a single place of corners that are aligned is -1).
    """
    spatial = size[2:]
    rank = len(spatial)
    if rank not in (2, 3) or theta.rank != 3:
        raise refuse("O2M-C005", f"{rank} spatial axes and theta of rank {theta.rank}", case="size")
    g.require_equal(theta.shape[0], size[0], "batch sizes of theta and the grid")
    dtype = torch.float64 if theta.dtype is torch.float64 else torch.float32
    count = dims.product(spatial)
    rows = []
    for axis in reversed(range(rank)):
        index = g.cast(g.arange(0, spatial[axis]), dtype)
        if align_corners:
            gaps = g.size_value(dims.maximum(to_dim(spatial[axis] - 1), 1), dtype)
            along = g.sub(g.div(g.mul(index, 2.0), gaps), 1.0)
        else:
            along = g.sub(g.div(g.add(g.mul(index, 2.0), 1.0), g.size_value(spatial[axis], dtype)), 1.0)
        shaped = g.reshape(along, [spatial[axis], *[1] * (rank - 1 - axis)])
        rows.append(g.reshape(g.expand(shaped, spatial), [1, count]))
    places = g.cat([*rows, g.full([1, count], 1.0, dtype)], 0)
    flat = g.reshape(g.cast(theta, dtype), [to_dim(theta.shape[0] * rank), rank + 1])
    moved = g.reshape(g.matmul(flat, places), [theta.shape[0], rank, *spatial])
    return g.cast(g.permute(moved, [0, *range(2, rank + 2), 1]), theta.dtype)
