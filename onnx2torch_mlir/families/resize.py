"""Resize and Upsample: every axis by itself, by a few elements gathered and weighed, or by a matrix of weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.parameters import KnownFloats, Sizes
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.resize_axes import (
    ResizedAxis,
    Tap,
    antialiased,
    coordinates,
    cubic_taps,
    dense_matrix,
    few_taps,
    linear_taps,
    nearest_tap,
    outside,
)
from onnx2torch_mlir.families.runs import picked
from onnx2torch_mlir.families.sampling_regions import half_away

MODES = ("nearest", "linear", "cubic")


@dataclass(frozen=True)
class Method:
    """How new elements are made: the attributes of Resize by their ONNX names."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: bool = False
    extrapolation_value: float = 0.0
    antialias: bool = False


def resize(
    g: ProgramBuilder,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Sizes | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    """``x`` with other sizes, given as such or as factors of the old ones; all of them may be run-time values.

    Source: ONNX Resize 11 to 19. As onnxruntime, ``align_corners`` uses the whole number of elements that results (the
    operator page's "length of the resized tensor"), and integers are cut off, not rounded, in plain linear mode.

    Raises:
        Refusal: O2M-C005 where inputs and attributes contradict each other or are unknown words.
    """
    method = Method(
        "linear" if mode == "bilinear" else mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        extrapolation_value,
        bool(antialias),
    )
    chosen = [axis % x.rank for axis in axes] if axes is not None else list(range(x.rank))
    dtype = _coordinate_dtype(x.dtype)
    if scales is not None and scales.shape == (0,):
        scales = None
    if (scales is None) == (not sizes):
        raise refuse("O2M-C005", "exactly one of scales and sizes is needed", case="scales")
    if scales is not None:
        g.require_equal(scales.shape[0], len(chosen), "number of scales and of axes")
        spans = [_by_scale(g, x.shape[axis], g.select(scales, 0, i)) for i, axis in enumerate(chosen)]
    else:
        assert sizes is not None
        if len(sizes) != len(chosen):
            raise refuse("O2M-C005", f"{len(sizes)} sizes for {len(chosen)} axes", case="sizes")
        spans = _by_size(g, [x.shape[axis] for axis in chosen], sizes, keep_aspect_ratio_policy)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    if crops and (roi is None or roi.shape == (0,)):
        raise refuse("O2M-C005", "coordinate_transformation_mode=tf_crop_and_resize needs roi", case="roi")
    resized = []
    for position, axis in enumerate(chosen):
        places, scale = spans[position]
        region = None
        if crops and roi is not None:
            ends = (g.select(roi, 0, position), g.select(roi, 0, position + len(chosen)))
            region = (g.cast(ends[0], dtype), g.cast(ends[1], dtype))
        if not _unchanged(x.shape[axis], places, scale, region):
            resized.append(ResizedAxis(axis, x.shape[axis], places, g.cast(scale, dtype), region))
    return apply(g, x, resized, method)


def upsample(g: ProgramBuilder, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """``x`` enlarged by ``scales`` (one per axis); coordinates are divided by them.

    Source: ONNX Upsample 9, Resize 10; below 1, onnxruntime rounds a nearest coordinate up.
    """
    nearest = Method("linear" if mode == "bilinear" else mode, "asymmetric", "simple")
    g.require_equal(scales.shape[0], x.rank, "number of scales and of axes")
    spans = [_by_scale(g, size, g.select(scales, 0, axis)) for axis, size in enumerate(x.shape)]
    dtype = _coordinate_dtype(x.dtype)
    resized = [
        ResizedAxis(axis, x.shape[axis], places, g.cast(scale, dtype))
        for axis, (places, scale) in enumerate(spans)
        if not _unchanged(x.shape[axis], places, scale, None)
    ]
    return apply(g, x, resized, nearest)


def upsample_attribute(g: ProgramBuilder, x: Value, *, scales: KnownFloats, mode: str = "nearest") -> Value:
    """`upsample` with the scales as attribute. Source: ONNX Upsample 7."""
    return upsample(g, x, g.known(torch.tensor(scales, dtype=torch.float32)), mode=mode)


def upsample_planes(g: ProgramBuilder, x: Value, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Value:
    """`upsample` of the two last of four axes. Source: ONNX Upsample 1."""
    if x.rank != 4:
        raise refuse("O2M-C005", f"the input has rank {x.rank}, not 4", case="rank")
    return upsample_attribute(g, x, scales=[1.0, 1.0, height_scale, width_scale], mode=mode)


def _coordinate_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32


def _by_scale(g: ProgramBuilder, size: Dim, scale: Value) -> tuple[Dim, Value]:
    """The new size, rounded down, and the scale."""
    known = scale.known()
    if known is None:
        product = g.mul(scale, g.size_value(size, scale.dtype))
        return g.item(g.cast(g.unary("floor", product), torch.int64)), scale
    if known <= 0:
        raise refuse("O2M-C005", f"a scale of {known}", case="scales")
    if isinstance(size, int):
        return int(np.float32(known) * np.float32(size)), scale
    ratio = Fraction(known).limit_denominator(1024)
    if np.float32(ratio.numerator / ratio.denominator) != np.float32(known):
        ratio = Fraction(known)
    return dims.floor_div(to_dim(size * ratio.numerator), ratio.denominator), scale


def _by_size(g: ProgramBuilder, old: Sequence[Dim], new: Sequence[Dim], policy: str) -> list[tuple[Dim, Value]]:
    """New sizes and scales, made the same for all axes if ``policy`` keeps the aspect ratio."""
    dtype = torch.float32
    scales = [g.div(g.size_value(b, dtype), g.size_value(a, dtype)) for a, b in zip(old, new, strict=True)]
    if policy == "stretch":
        return list(zip(new, scales, strict=True))
    if policy not in ("not_larger", "not_smaller"):
        raise refuse("O2M-C005", f"unknown policy {policy}", case=f"keep_aspect_ratio_policy={policy}")
    common = scales[0]
    for scale in scales[1:]:
        common = g.minimum(common, scale) if policy == "not_larger" else g.maximum(common, scale)
    return [(g.item(_rounded(g, g.mul(common, g.size_value(size, dtype)))), common) for size in old]


def _rounded(g: ProgramBuilder, x: Value) -> Value:
    return g.cast(g.unary("floor", g.add(x, 0.5)), torch.int64)


def _unchanged(size: Dim, places: Dim, scale: Value, region: tuple[Value, Value] | None) -> bool:
    if dims.known_equal(size, places) is not True:
        return False
    if region is not None and (region[0].known() != 0 or region[1].known() != 1):
        return False
    known = scale.known()
    return known == 1.0 or (known is None and not isinstance(size, int))


def apply(g: ProgramBuilder, x: Value, resized: Sequence[ResizedAxis], method: Method) -> Value:
    """``x`` with the axes of ``resized`` made anew.

    Raises:
        Refusal: O2M-C005 for a mode that ONNX does not know, O2M-C003 for interpolated truth values.
    """
    if method.mode not in MODES:
        raise refuse("O2M-C005", f"unknown mode {method.mode}", case=f"mode={method.mode}")
    if method.antialias and method.mode == "nearest":
        raise refuse("O2M-C005", "antialias has no meaning in nearest mode", case="antialias=1")
    if method.mode != "nearest" and x.dtype is torch.bool:
        raise refuse("O2M-C003", f"{method.mode} interpolation of truth values", case=f"mode={method.mode}")
    places = {item.axis: coordinates(g, item, method.coordinate_transformation_mode) for item in resized}
    if method.mode == "nearest":
        result = x
        for item in sorted(resized, key=_turn):
            tap = nearest_tap(g, places[item.axis], item, method.nearest_mode)
            result = picked(g, result, item.axis, tap.index)
    else:
        result = _interpolated(g, x, resized, places, method)
    if method.coordinate_transformation_mode != "tf_crop_and_resize":
        return result
    for item in resized:
        beyond = outside(g, places[item.axis], item.size)
        beyond = g.reshape(beyond, [item.places, *[1] * (x.rank - 1 - item.axis)])
        value = method.extrapolation_value
        fill = g.scalar(value if x.dtype.is_floating_point or x.dtype.is_complex else int(value), x.dtype)
        result = g.where(beyond, fill, result)
    return result


def _turn(item: ResizedAxis) -> tuple[bool, int]:
    """When an axis is picked from: first where it becomes shorter, then the last ones, whose elements cost most one by one."""
    shrinks = isinstance(item.size, int) and isinstance(item.places, int) and item.places < item.size
    return not shrinks, item.axis if shrinks else -item.axis


def _interpolated(
    g: ProgramBuilder, x: Value, resized: Sequence[ResizedAxis], places: dict[int, Value], method: Method
) -> Value:
    integral = not (x.dtype.is_floating_point or x.dtype.is_complex)
    result = x if x.dtype.is_complex else g.cast(x, _coordinate_dtype(x.dtype))
    at_once: list[tuple[ResizedAxis, list[Tap]]] = []
    # Integers are rounded axis by axis, from the last one on, as onnxruntime does it.
    for item in reversed(resized) if integral else sorted(resized, key=_turn):
        where = places[item.axis]
        scale = item.scale.known()
        if method.antialias and not (scale is not None and scale >= 1):
            found = antialiased(g, where, item, method.mode, method.cubic_coeff_a, method.exclude_outside)
            taps = few_taps(g, item, *found)
            if taps:
                result = _by_all_taps(g, result, [(item, taps)])
            else:
                result = _by_matrix(g, result, item.axis, dense_matrix(g, item, *found))
        else:
            if method.mode == "linear":
                # An axis whose scale is 1 at run time is one that onnxruntime does not resize.
                changed = g.call("aten.ne.Tensor", item.scale, g.scalar(1.0, item.scale.dtype)) if integral else None
                taps = linear_taps(g, where, item.size, halves=changed)
            else:
                taps = cubic_taps(g, where, item.size, method.cubic_coeff_a, method.exclude_outside)
            if integral and method.mode == "linear" and not method.antialias:
                at_once.insert(0, (item, taps))
            else:
                result = _by_all_taps(g, result, [(item, taps)])
        if integral and method.antialias:
            result = _whole(g, result, x.dtype)
    if at_once:
        return g.cast(g.unary("trunc", _by_all_taps(g, result, at_once)), x.dtype)
    if integral:
        limits = torch.iinfo(x.dtype)
        result = g.call("aten.clamp.default", g.unary("round", result), limits.min, limits.max)
    return g.cast(result, x.dtype)


def _whole(g: ProgramBuilder, x: Value, dtype: torch.dtype) -> Value:
    """``x`` rounded as onnxruntime does it after each axis of an antialiased image: halves away from zero, bytes clamped."""
    x = half_away(g, x)
    limits = torch.iinfo(dtype)
    return g.call("aten.clamp.default", x, limits.min, limits.max) if limits.bits == 8 else x


def _by_matrix(g: ProgramBuilder, x: Value, axis: int, matrix: Value) -> Value:
    last = x.rank - 1
    product = g.matmul(g.transpose(x, axis, last), g.permute(g.cast(matrix, x.dtype), [1, 0]))
    return g.transpose(product, axis, last)


def _by_all_taps(g: ProgramBuilder, x: Value, axes: Sequence[tuple[ResizedAxis, Sequence[Tap]]]) -> Value:
    """The sum over all choices of one tap per axis; a weight of zero hides what it weighs where scales are unknown."""
    if not axes:
        return x
    total: Value | None = None
    for choice in itertools.product(*(taps for _, taps in axes)):
        part, weight, hides = x, None, False
        for (item, _), tap in zip(axes, choice, strict=True):
            part = g.call("aten.index_select.default", part, item.axis, tap.index)
            assert tap.weight is not None
            along = g.reshape(tap.weight, [item.places, *[1] * (x.rank - 1 - item.axis)])
            weight = along if weight is None else g.mul(weight, along)
            hides = hides or item.scale.known() is None
        assert weight is not None
        term = g.mul(part, g.cast(weight, x.dtype))
        if hides:
            term = g.where(g.binary("eq", weight, 0.0), g.scalar(0.0, x.dtype), term)
        total = term if total is None else g.add(total, term)
    assert total is not None
    return total
