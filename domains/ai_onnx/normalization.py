"""BatchNormalization and its kin: what each ONNX operator normalizes by and over."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.normalization import (
    by_groups,
    compute_dtype,
    first_axis,
    per_channel,
    scale_and_shift,
    standardized,
    stash_dtype,
)
from onnx2torch_mlir.families.reduction import reduce_axes


def batch_normalization(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    wanted: tuple[bool, ...],
) -> tuple[Value | None, ...]:
    """By the given statistics, per channel; in training by those of the batch, with the running ones carried on.

    ``x`` is [N, C, …], the parameters [C]. Source: https://onnx.ai/onnx/operators/onnx__BatchNormalization.html.

    Raises:
        Refusal: O2M-C003 where the running statistics are asked for in inference.
    """
    if training_mode:
        x_mean, x_var, *running = _batch_statistics(g, x, scale, (mean, var), momentum, spatial=True)
        return _normalized(g, x, (scale, bias, x_mean, x_var), epsilon, spatial=True), *running
    if any(wanted[1:]):
        raise refuse("O2M-C003", "running statistics are only computed in training", case="training_mode=0")
    return _normalized(g, x, (scale, bias, mean, var), epsilon, spatial=True), None, None


def batch_normalization_by_outputs(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    is_test: int = 0,
    wanted: tuple[bool, ...],
    written: frozenset[str],
) -> tuple[Value | None, ...]:
    """Before opset 14: training where more than the first output is used, or where is_test=0 is written down.

    The further outputs are the running mean and variance, then those of the batch. With spatial=0 (before opset 9) the
    parameters have the shape of one element of the batch and the statistics are taken over the batch alone.

    Source: https://onnx.ai/onnx/operators/text_diff_BatchNormalization_9_14.html.

    Raises:
        Refusal: O2M-C003 where an output of training is asked for with is_test=1.
    """
    if is_test and any(wanted[1:]):
        raise refuse("O2M-C003", "running statistics are only computed in training", case="is_test=1")
    if not any(wanted[1:]) and (is_test or "is_test" not in written):
        return _normalized(g, x, (scale, bias, mean, var), epsilon, bool(spatial)), *[None] * 4
    x_mean, x_var, *running = _batch_statistics(g, x, scale, (mean, var), momentum, bool(spatial))
    saved = [g.cast(item, mean.dtype) for item in (x_mean, x_var)]
    return _normalized(g, x, (scale, bias, x_mean, x_var), epsilon, bool(spatial)), *running, *saved


def _normalized(g: ProgramBuilder, x: Value, parameters: Sequence[Value], epsilon: float, spatial: bool) -> Value:
    """``x`` by ``parameters`` (scale, bias, mean, var) of each channel or, unless ``spatial``, of each place."""
    dtype = compute_dtype(x, *parameters)
    data = _with_channels(g, g.cast(x, dtype))
    wide = [_broadcasting(g, g.cast(item, dtype), data, spatial) for item in parameters]
    return g.cast(g.reshape(scale_and_shift(g, data, wide, epsilon), x.shape), x.dtype)


def _broadcasting(g: ProgramBuilder, parameter: Value, x: Value, spatial: bool) -> Value:
    if spatial:
        return per_channel(g, parameter, x)
    if parameter.rank != x.rank - 1:
        reason = f"spatial=0 takes parameters of the shape of one element, of rank {x.rank - 1}, not {parameter.rank}"
        raise refuse("O2M-C006", reason, case="spatial=0")
    return g.unsqueeze(parameter, 0)


def _batch_statistics(
    g: ProgramBuilder, x: Value, scale: Value, running: Sequence[Value], momentum: float, spatial: bool
) -> list[Value]:
    """Mean and (population) variance over the batch, in the dtype of the computation; the running ones carried on."""
    data = _with_channels(g, g.cast(x, compute_dtype(x, scale, *running)))
    axes = [axis for axis in range(data.rank) if axis != 1] if spatial else [0]
    mean = g.mean(data, axes, True)
    centered = g.sub(data, mean)
    statistics = [g.reshape(item, running[0].shape) for item in (mean, g.mean(g.mul(centered, centered), axes, True))]
    carried = [
        g.cast(g.add(g.mul(g.cast(old, new.dtype), momentum), g.mul(new, 1 - momentum)), old.dtype)
        for old, new in zip(running, statistics, strict=True)
    ]
    return [*statistics, *carried]


def _with_channels(g: ProgramBuilder, x: Value) -> Value:
    return g.unsqueeze(x, 1) if x.rank == 1 else x


def instance_normalization(g: ProgramBuilder, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Value:
    """Each channel of each element of the batch by its own statistics; ``x`` is [N, C, …].

    Raises:
        Refusal: O2M-C006 for rank below 3.
    """
    if x.rank < 3:
        raise refuse("O2M-C006", f"instance normalization of rank {x.rank}")
    data = g.cast(x, compute_dtype(x))
    inner = D.product(data.shape[2:])
    normal = standardized(g, g.reshape(data, [*data.shape[:2], inner]), [inner], epsilon)[0]
    return _per_channel_affine(g, g.reshape(normal, x.shape), scale, bias, x.dtype)


def _per_channel_affine(g: ProgramBuilder, normal: Value, scale: Value, bias: Value, dtype: torch.dtype) -> Value:
    factor, shift = (per_channel(g, g.cast(item, normal.dtype), normal) for item in (scale, bias))
    return g.cast(g.add(g.mul(normal, factor), shift), dtype)


def group_normalization(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    bias: Value,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    """Groups of channels by their own statistics, then scale and bias per channel (opset 21)."""
    data = g.cast(x, torch.promote_types(compute_dtype(x), stash_dtype(x, stash_type)))
    normal = g.reshape(by_groups(g, data, num_groups, epsilon), x.shape)
    return _per_channel_affine(g, normal, scale, bias, x.dtype)


def group_normalization_by_group(
    g: ProgramBuilder, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int
) -> Value:
    """The same with scale and bias per group (opset 18)."""
    data = g.cast(x, compute_dtype(x))
    normal = by_groups(g, data, num_groups, epsilon)
    factor, shift = (g.reshape(g.cast(item, data.dtype), [num_groups, 1]) for item in (scale, bias))
    return g.cast(g.reshape(g.add(g.mul(normal, factor), shift), x.shape), x.dtype)


def lp_normalization(g: ProgramBuilder, x: Value, *, axis: int = -1, p: int = 2) -> Value:
    """``x`` by its sum of absolute values (p=1) or Euclidean length (p=2) along ``axis``; zeros stay zeros.

    Raises:
        Refusal: O2M-C005 for another p.
    """
    if p not in (1, 2):
        raise refuse("O2M-C005", f"p={p}, not 1 or 2", case="p")
    data = g.cast(x, compute_dtype(x))
    norm = reduce_axes(g, data, [first_axis(axis, x.rank)], True, f"l{p}")
    norm = g.where(g.binary("eq", norm, 0.0), 1.0, norm)
    return g.cast(g.div(data, norm), x.dtype)


def lrn(
    g: ProgramBuilder, x: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Value:
    """Local response: ``x`` by a power of the squares summed over ``size`` neighbouring channels.

    Source: https://onnx.ai/onnx/operators/onnx__LRN.html.

    Raises:
        Refusal: O2M-C005 for a size below 1.
    """
    if size < 1:
        raise refuse("O2M-C005", f"size={size}", case="size")
    data = g.cast(x, compute_dtype(x))
    low, channels = (size - 1) // 2, x.shape[1]
    before, after = ([amount if axis == 1 else 0 for axis in range(x.rank)] for amount in (low, size - 1 - low))
    squares = g.pad(g.mul(data, data), before, after)
    total = g.slice(squares, 1, 0, channels)
    for offset in range(1, size):
        total = g.add(total, g.slice(squares, 1, offset, D.to_dim(channels + offset)))
    base = g.add(g.mul(total, alpha / size), bias)
    return g.cast(g.div(data, g.binary("pow", base, beta)), x.dtype)
