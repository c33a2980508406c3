"""Normalizations: by given statistics, or by those of the data along some axes, or from an axis on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse


def compute_dtype(*values: Value) -> torch.dtype:
    """The widest dtype of ``values``, at least float32."""
    result = torch.float32
    for value in values:
        result = torch.promote_types(result, value.dtype)
    return result


def per_channel(g: ProgramBuilder, parameter: Value, x: Value) -> Value:
    """[C] shaped to broadcast against ``x`` [N, C, …]."""
    return g.reshape(parameter, [parameter.shape[0], *[1] * (x.rank - 2)])


def scale_and_shift(g: ProgramBuilder, x: Value, parameters: Sequence[Value], eps: float) -> Value:
    """(x - mean) / sqrt(var + eps) * scale + shift as one product and one sum of ``x``.

    ``parameters`` are scale, shift, mean and var; they broadcast to ``x``.
    """
    scale, shift, mean, var = parameters
    factor = g.div(scale, g.unary("sqrt", g.add(var, eps)))
    return g.add(g.mul(x, factor), g.sub(shift, g.mul(mean, factor)))


def standardized(g: ProgramBuilder, x: Value, sizes: Sequence[Dim], eps: float) -> tuple[Value, Value, Value]:
    """``x`` less its mean, by its standard deviation; the mean; 1 / deviation: over its last axes, of ``sizes``."""
    return g.call("aten.native_layer_norm.default", x, list(sizes), None, None, eps)


def first_axis(axis: int, rank: int) -> int:
    """The first normalized axis.

    Raises:
        Refusal: O2M-C005 where it is out of range.
    """
    if not -rank <= axis < rank:
        raise refuse("O2M-C005", f"axis {axis} is out of range for rank {rank}", case="axis")
    return axis % rank


def stash_dtype(x: Value, stash_type: int) -> torch.dtype:
    """The dtype of the statistics: float32 (stash_type=1), or the data's own.

    Raises:
        Refusal: O2M-C003 for another stash_type.
    """
    if stash_type not in (0, 1, 10, 11, 16):
        raise refuse("O2M-C003", f"stash_type={stash_type} is not a floating type", case=f"stash_type={stash_type}")
    table = {1: torch.float32, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16}
    return table.get(stash_type, x.dtype)


def by_groups(g: ProgramBuilder, x: Value, groups: int, eps: float) -> Value:
    """``x`` [N, C, …] standardized within each of ``groups`` equal groups of channels, as [N, groups, elements]."""
    channels = x.shape[1]
    if isinstance(channels, int) and channels % groups:
        raise refuse("O2M-C006", f"{channels} channels do not divide into {groups} groups", case="num_groups")
    inner = D.floor_div(D.product(x.shape[1:]), groups)
    return standardized(g, g.reshape(x, [x.shape[0], groups, inner]), [inner], eps)[0]


def layer_normalization(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    bias: Value | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Value, Value, Value]:
    """Over all axes from ``axis`` on; the output, the mean and 1 / standard deviation.

    Scale and bias broadcast to ``x``; those of exactly the normalized sizes go into ``native_layer_norm``.
    """
    first = first_axis(axis, x.rank)
    stash = stash_dtype(x, stash_type)
    dtype = torch.promote_types(compute_dtype(x), stash)
    sizes = list(x.shape[first:])
    parameters = [None if item is None else g.cast(item, dtype) for item in (scale, bias)]
    inside = all(item is None or _same_sizes(item, sizes) for item in parameters)
    weight, shift = parameters if inside else (None, None)
    primitive = "aten.native_layer_norm.default"
    result, mean, inverse = g.call(primitive, g.cast(x, dtype), sizes, weight, shift, epsilon)
    if not inside:
        factor, addend = parameters
        assert factor is not None
        result = g.mul(result, factor)
        result = result if addend is None else g.add(result, addend)
    return g.cast(result, x.dtype), g.cast(mean, stash), g.cast(inverse, stash)


def _same_sizes(parameter: Value, sizes: list[Dim]) -> bool:
    return parameter.rank == len(sizes) and all(
        D.known_equal(a, b) for a, b in zip(parameter.shape, sizes, strict=True)
    )


def rms_normalization(
    g: ProgramBuilder, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """``x`` by the root of its mean square over all axes from ``axis`` on, times ``scale``, in the scale's dtype."""
    return simplified_layer_normalization(g, x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)[0]


def simplified_layer_normalization(
    g: ProgramBuilder, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Value, Value]:
    """`rms_normalization`, and 1 / root of the mean square.

    Source: onnxruntime's SimplifiedLayerNormalization.
    """
    first = first_axis(axis, x.rank)
    stash = stash_dtype(x, stash_type)
    data = g.cast(x, torch.promote_types(compute_dtype(x), stash))
    normal, inverse = by_root_mean_square(g, data, list(range(first, x.rank)), epsilon)
    return g.cast(g.mul(normal, g.cast(scale, data.dtype)), scale.dtype), g.cast(inverse, stash)


def by_root_mean_square(g: ProgramBuilder, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value]:
    """``x`` by the root of its mean square over ``axes``, and 1 / root, with those axes kept."""
    inverse = g.unary("rsqrt", g.add(g.mean(g.mul(x, x), axes, True), eps))
    return g.mul(x, inverse), inverse


def mean_variance_normalization(g: ProgramBuilder, x: Value, *, axes: list[int]) -> Value:
    """``x`` less its mean over ``axes``, by its standard deviation there.

    Source: ONNX MeanVarianceNormalization, whose function body is written for float32 alone.
    """
    data = g.cast(x, compute_dtype(x))
    where = sorted({first_axis(axis, x.rank) for axis in axes})
    centred, deviation = _centred(g, data, where)
    return g.cast(g.div(centred, g.add(deviation, 1e-9)), x.dtype)


def mean_variance_normalization_of_channels(
    g: ProgramBuilder, x: Value, *, across_channels: int = 0, normalize_variance: int = 1
) -> Value:
    """``x`` [N, C, H, W, …] less its mean over N, H and W, and over C if ``across_channels``, by its deviation there.

    Source: onnxruntime's MeanVarianceNormalization of before ONNX had one; axes that ``x`` does not have are left out.
    """
    data = g.cast(x, compute_dtype(x))
    axes = (0, 1, 2, 3) if across_channels else (0, 2, 3)
    centred, deviation = _centred(g, data, [axis for axis in axes if axis < x.rank])
    return g.cast(g.div(centred, deviation) if normalize_variance else centred, x.dtype)


def _centred(g: ProgramBuilder, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    centred = g.sub(x, g.mean(x, axes, True))
    return centred, g.unary("sqrt", g.mean(g.mul(centred, centred), axes, True))
