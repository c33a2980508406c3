"""BatchNormalization and its kin: what each ONNX operator normalizes by and over."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
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
    dtype = compute_dtype(x, scale, mean)
    data = _with_channels(g, g.cast(x, dtype))
    parameters = [per_channel(g, g.cast(item, dtype), data) for item in (scale, bias, mean, var)]
    running: tuple[Value | None, ...] = (None, None)
    if training_mode:
        parameters[2:], carried = _batch_statistics(g, data, parameters[2:], momentum)
        running = tuple(
            g.cast(g.reshape(item, given.shape), given.dtype) for item, given in zip(carried, (mean, var), strict=True)
        )
    elif any(wanted[1:]):
        raise refuse("O2M-C003", "running statistics are only computed in training", case="training_mode=0")
    result = scale_and_shift(g, data, parameters, epsilon)
    return g.cast(g.reshape(result, x.shape), x.dtype), *running


def _batch_statistics(
    g: ProgramBuilder, x: Value, running: list[Value], momentum: float
) -> tuple[list[Value], list[Value]]:
    """Mean and variance of each channel over the batch, [1, C, 1 …], and the running ones [C, 1 …] carried on."""
    axes = [axis for axis in range(x.rank) if axis != 1]
    mean = g.mean(x, axes, True)
    centered = g.sub(x, mean)
    statistics = [mean, g.mean(g.mul(centered, centered), axes, True)]
    carried = [
        g.add(g.mul(old, momentum), g.mul(g.reshape(new, old.shape), 1 - momentum))
        for old, new in zip(running, statistics, strict=True)
    ]
    return statistics, carried


def _with_channels(g: ProgramBuilder, x: Value) -> Value:
    return g.unsqueeze(x, 1) if x.rank == 1 else x


def batch_normalization_inference(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    spatial: int = 1,
    wanted: tuple[bool, ...],
) -> Value:
    """Before opset 14: inference is meant where only the first output is used.

    With spatial=0 (before opset 9) the parameters have the shape of one element of the batch.

    Raises:
        Refusal: O2M-C003 where an output of training is asked for.
    """
    if any(wanted[1:]):
        raise refuse("O2M-C003", "training outputs of BatchNormalization before opset 14", case="outputs")
    if spatial:
        (result, *_) = batch_normalization(g, x, scale, bias, mean, var, epsilon=epsilon, wanted=wanted)
        assert result is not None
        return result
    dtype = compute_dtype(x)
    parameters = [g.cast(item, dtype) for item in (scale, bias, mean, var)]
    return g.cast(scale_and_shift(g, g.cast(x, dtype), parameters, epsilon), x.dtype)


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
    first = first_axis(axis, x.rank)
    data = g.cast(x, torch.promote_types(compute_dtype(x), stash_dtype(x, stash_type)))
    square = g.mean(g.mul(data, data), list(range(first, x.rank)), True)
    normal = g.mul(data, g.unary("rsqrt", g.add(square, epsilon)))
    return g.cast(g.mul(normal, g.cast(scale, data.dtype)), scale.dtype)


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
