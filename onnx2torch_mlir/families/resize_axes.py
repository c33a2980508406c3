"""One axis of a resize: where every new element lies in the old axis, and which old elements it is made of.

Coordinates are computed by the program, in float32 as onnxruntime does (float64 for doubles), so that all sizes, scales
and regions may be known or not; what is known folds away.

Source: the Resize operator page; onnxruntime's ``upsamplebase.h`` where the page leaves a case open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

_MOST_TAPS = 32
_DENSE = 8
"""To pick elements for a tap of a widened filter takes as long as so many products with a dense matrix."""


@dataclass(frozen=True)
class ResizedAxis:
    """An axis of ``size`` elements that gets ``places``; ``scale`` and the ends of the region are 0-d floats."""

    axis: int
    size: Dim
    places: Dim
    scale: Value
    region: tuple[Value, Value] | None = None


@dataclass(frozen=True)
class Tap:
    """What one old element adds to each new one: ``index`` int64 [places], ``weight`` [places] (None: all ones)."""

    index: Value
    weight: Value | None


def coordinates(g: ProgramBuilder, resized: ResizedAxis, mode: str) -> Value:
    """The place of every new element on the old axis: [places], of the scale's dtype.

    Raises:
        Refusal: O2M-C005 for a mode that ONNX does not know.
    """
    dtype = resized.scale.dtype
    index = g.cast(g.arange(0, resized.places), dtype)
    last = g.size_value(to_dim(resized.size - 1), dtype)
    gaps = g.size_value(dims.maximum(to_dim(resized.places - 1), 1), dtype)
    several = g.size_value(dims.minimum(to_dim(resized.places - 1), 1), dtype)
    centers = g.div(g.add(index, 0.5), resized.scale)
    if mode == "half_pixel":
        return g.sub(centers, 0.5)
    if mode == "pytorch_half_pixel":
        return g.mul(g.sub(centers, 0.5), several)
    if mode == "tf_half_pixel_for_nn":
        return centers
    if mode == "asymmetric":
        return g.div(index, resized.scale)
    if mode == "align_corners":
        return g.div(g.mul(index, last), gaps)
    if mode == "half_pixel_symmetric":
        width = g.size_value(resized.size, dtype)
        adjustment = g.div(g.size_value(resized.places, dtype), g.mul(resized.scale, width))
        offset = g.mul(g.div(width, 2.0), g.sub(1.0, adjustment))
        return g.sub(g.add(offset, centers), 0.5)
    if mode != "tf_crop_and_resize" or resized.region is None:
        raise refuse("O2M-C005", f"unknown mode {mode}", case=f"coordinate_transformation_mode={mode}")
    start, end = resized.region
    spread = g.add(g.mul(start, last), g.div(g.mul(g.mul(index, g.sub(end, start)), last), gaps))
    middle = g.mul(g.mul(0.5, g.add(start, end)), last)
    return g.add(g.mul(spread, several), g.mul(middle, g.sub(1.0, several)))


def outside(g: ProgramBuilder, x: Value, size: Dim) -> Value:
    """Whether coordinates lie beyond the first or the last element: bool [places]."""
    below = g.call("aten.lt.Tensor", x, g.scalar(0.0, x.dtype))
    above = g.call("aten.gt.Tensor", x, g.size_value(to_dim(size - 1), x.dtype))
    result: Value = g.call("aten.logical_or.default", below, above)
    return result


def clamped(g: ProgramBuilder, index: Value, size: Dim) -> Value:
    """``index`` within 0 … size - 1, in its own dtype."""
    low = g.maximum(index, g.scalar(0, index.dtype))
    return g.minimum(low, g.size_value(to_dim(size - 1), index.dtype))


def nearest_tap(g: ProgramBuilder, x: Value, resized: ResizedAxis, nearest_mode: str) -> Tap:
    """The old element nearest to each coordinate.

    ``simple`` is what onnxruntime does before opset 11: rounded down, or up where the axis shrinks.
    """
    down = g.unary("floor", x)
    rest = g.sub(x, down)
    one = g.scalar(1.0, x.dtype)
    if nearest_mode == "floor":
        chosen = down
    elif nearest_mode == "ceil":
        chosen = g.unary("ceil", x)
    elif nearest_mode == "round_prefer_floor":
        chosen = g.where(g.call("aten.gt.Tensor", rest, g.scalar(0.5, x.dtype)), g.add(down, one), down)
    elif nearest_mode == "round_prefer_ceil":
        chosen = g.where(g.call("aten.ge.Tensor", rest, g.scalar(0.5, x.dtype)), g.add(down, one), down)
    elif nearest_mode == "simple":
        chosen = g.where(g.call("aten.lt.Tensor", resized.scale, one), g.unary("ceil", x), down)
    else:
        raise refuse("O2M-C005", f"unknown mode {nearest_mode}", case=f"nearest_mode={nearest_mode}")
    return Tap(clamped(g, g.cast(chosen, torch.int64), resized.size), None)


def linear_taps(g: ProgramBuilder, x: Value, size: Dim, *, halves: Value | None = None) -> list[Tap]:
    """The two neighbours of each coordinate; beyond an end, that end alone.

    Where ``halves`` (bool, 0-d), the last element is weighed by a half twice, as onnxruntime does on the axes that it
    resizes: the same but for rounding.
    """
    x = clamped(g, x, size)
    down = g.unary("floor", x)
    upper = g.sub(x, down)
    lower = g.sub(1.0, upper)
    index = g.cast(down, torch.int64)
    following = clamped(g, g.add(index, 1), size)
    if halves is not None:
        same = g.call("aten.logical_and.default", g.call("aten.eq.Tensor", index, following), halves)
        half = g.scalar(0.5, x.dtype)
        lower, upper = g.where(same, half, lower), g.where(same, half, upper)
    return [Tap(index, lower), Tap(following, upper)]


def cubic_taps(g: ProgramBuilder, x: Value, size: Dim, a: float, exclude_outside: bool) -> list[Tap]:
    """The four neighbours of each coordinate, the ends repeated outwards or left out."""
    down = g.unary("floor", x)
    rest = g.sub(x, down)
    index = g.cast(down, torch.int64)
    offsets = range(-1, 3)
    taps = [Tap(g.add(index, i), weight) for i, weight in zip(offsets, cubic_weights(g, rest, a), strict=True)]
    if exclude_outside:
        taps = _excluded(g, taps, size)
    return [Tap(clamped(g, tap.index, size), tap.weight) for tap in taps]


def cubic_weights(g: ProgramBuilder, rest: Value, a: float) -> list[Value]:
    """What the four neighbours weigh, from the one before to the second one after; ``rest`` lies in 0 … 1."""
    weights = []
    for offset in (-1, 0, 1, 2):
        distance = g.unary("abs", g.sub(rest, float(offset)))
        weights.append(_near(g, distance, a) if offset in (0, 1) else _far(g, distance, a))
    return weights


def _near(g: ProgramBuilder, x: Value, a: float) -> Value:
    return g.add(g.mul(g.mul(g.sub(g.mul(x, a + 2), a + 3), x), x), 1.0)


def _far(g: ProgramBuilder, x: Value, a: float) -> Value:
    return g.sub(g.mul(g.add(g.mul(g.sub(g.mul(x, a), 5 * a), x), 8 * a), x), 4 * a)


def _excluded(g: ProgramBuilder, taps: Sequence[Tap], size: Dim) -> list[Tap]:
    weights = [_inside(g, tap.index, size, tap.weight) for tap in taps if tap.weight is not None]
    total = weights[0]
    for weight in weights[1:]:
        total = g.add(total, weight)
    return [Tap(tap.index, g.div(weight, total)) for tap, weight in zip(taps, weights, strict=True)]


def _inside(g: ProgramBuilder, index: Value, size: Dim, weight: Value) -> Value:
    inside = g.call("aten.eq.Tensor", index, clamped(g, index, size))
    return g.where(inside, weight, g.scalar(0.0, weight.dtype))


def antialiased(
    g: ProgramBuilder, x: Value, resized: ResizedAxis, kind: str, a: float, exclude_outside: bool
) -> tuple[Value, Value]:
    """The old elements, and their weights, [places, count], that a filter ``kind`` (linear, cubic) takes which is widened by as
    much as the axis shrinks.

    What it weighs beyond the ends goes to the ends, or is left out.
    """
    dtype = x.dtype
    shrink = g.minimum(resized.scale, g.scalar(1.0, dtype))
    radius = 1.0 if kind == "linear" else 2.0
    reach = g.item(g.cast(g.unary("ceil", g.div(radius, shrink)), torch.int64))
    start = g.sub(g.cast(g.unary("floor", x), torch.int64), g.size_value(reach))
    count = to_dim(2 * reach + 2)
    index = g.add(g.unsqueeze(start, 1), g.unsqueeze(g.arange(0, count), 0))
    distance = g.unary("abs", g.mul(g.sub(g.cast(index, dtype), g.unsqueeze(x, 1)), shrink))
    if kind == "linear":
        weights = g.maximum(g.sub(1.0, distance), 0.0)
    else:
        inner = g.call("aten.le.Tensor", distance, g.scalar(1.0, dtype))
        outer = g.call("aten.lt.Tensor", distance, g.scalar(2.0, dtype))
        weights = g.where(inner, _near(g, distance, a), g.where(outer, _far(g, distance, a), g.scalar(0.0, dtype)))
    if exclude_outside:
        weights = _inside(g, index, resized.size, weights)
    weights = g.div(weights, g.sum(weights, [1], True))
    return clamped(g, index, resized.size), weights


def few_taps(g: ProgramBuilder, resized: ResizedAxis, index: Value, weights: Value) -> list[Tap]:
    """A tap for each of the elements that `antialiased` finds; none where it is not known that they are few of the axis."""
    count, size = index.shape[1], resized.size
    if not isinstance(count, int) or count > _MOST_TAPS or (isinstance(size, int) and size < _DENSE * count):
        return []
    columns = [[g.reshape(g.slice(one, 1, i, i + 1), [one.shape[0]]) for one in (index, weights)] for i in range(count)]
    return [Tap(*column) for column in columns]


def dense_matrix(g: ProgramBuilder, resized: ResizedAxis, index: Value, weights: Value) -> Value:
    """The matrix [places, size] of these weights."""
    zeros = g.full([resized.places, resized.size], 0.0, weights.dtype)
    matrix: Value = g.call("aten.scatter_add.default", zeros, 1, index, weights)
    return matrix
