"""RandomNormal, RandomUniform, their Like forms, Bernoulli, Multinomial and Dropout."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.cast import cast_to
from onnx2torch_mlir.families.dtypes import describe, torch_dtype
from onnx2torch_mlir.families.random import chance, normal, stream_key, uniform


def random_normal(
    g: ProgramBuilder,
    *,
    shape: list[int],
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Value:
    """Numbers of a normal distribution. Source: ONNX RandomNormal."""
    return _normal(g, tuple(shape), torch_dtype(dtype), mean, scale, seed)


def random_normal_like(
    g: ProgramBuilder,
    data: Value,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Value:
    """The same in the shape of ``data``, and in its dtype unless another is given. Source: ONNX RandomNormalLike."""
    return _normal(g, data.shape, _like(data, dtype), mean, scale, seed)


def random_uniform(
    g: ProgramBuilder,
    *,
    shape: list[int],
    dtype: int = 1,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> Value:
    """Numbers evenly distributed from ``low`` to ``high``. Source: ONNX RandomUniform."""
    return _uniform(g, tuple(shape), torch_dtype(dtype), low, high, seed)


def random_uniform_like(
    g: ProgramBuilder,
    data: Value,
    *,
    dtype: int | None = None,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> Value:
    """The same in the shape of ``data``, and in its dtype unless another is given. Source: ONNX RandomUniformLike."""
    return _uniform(g, data.shape, _like(data, dtype), low, high, seed)


def _like(data: Value, dtype: int | None) -> torch.dtype:
    result = data.dtype if dtype is None else torch_dtype(dtype)
    if not result.is_floating_point:
        raise refuse("O2M-C005", f"random numbers of type {describe(result)}: only floats are", case="dtype")
    return result


def _normal(
    g: ProgramBuilder, shape: tuple[Dim, ...], dtype: torch.dtype, mean: float, scale: float, seed: float | None
) -> Value:
    wide = _wide(dtype)
    drawn = normal(g, shape, wide, stream_key(g, seed))
    return g.cast(g.add(g.mul(drawn, scale), mean), dtype)


def _uniform(
    g: ProgramBuilder, shape: tuple[Dim, ...], dtype: torch.dtype, low: float, high: float, seed: float | None
) -> Value:
    drawn = g.cast(uniform(g, shape, dtype, stream_key(g, seed)), _wide(dtype))
    return g.cast(g.add(g.mul(drawn, high - low), low), dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32


def bernoulli(g: ProgramBuilder, data: Value, *, dtype: int | None = None, seed: float | None = None) -> Value:
    """1 with the probability that ``data`` says, else 0. Source: ONNX Bernoulli."""
    drawn = chance(g, data.shape, data.dtype, stream_key(g, seed))
    hit = g.binary("lt", drawn, g.cast(data, drawn.dtype))
    return g.cast(hit, data.dtype if dtype is None else torch_dtype(dtype))


def multinomial(
    g: ProgramBuilder, data: Value, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Value:
    """``sample_size`` outcomes for each row of ``data`` [batch, classes], which holds logarithms of weights.

    The sums of the weights up to each class are compared with one uniform number for each sample, in f64.

    Source: ONNX Multinomial.

    Raises:
        Refusal: O2M-C006 for an operand that is no matrix.
    """
    if data.rank != 2:
        raise refuse("O2M-C006", f"Multinomial takes a matrix, not rank {data.rank}", case=f"rank={data.rank}")
    batch, classes = data.shape
    sums = g.call("aten.cumsum.default", g.softmax(g.cast(data, torch.float64), 1), 1)
    total = g.slice(sums, 1, classes - 1, classes)
    drawn = uniform(g, [batch, sample_size], torch.float64, stream_key(g, seed))
    bound = g.mul(drawn, total)
    passed = g.binary("le", g.unsqueeze(sums, 1), g.unsqueeze(bound, 2))
    return g.cast(g.sum(g.cast(passed, torch.int64), [2]), torch_dtype(dtype))


def dropout(
    g: ProgramBuilder,
    data: Value,
    ratio: Value | None = None,
    training_mode: Value | None = None,
    *,
    seed: int | None = None,
) -> tuple[Value, Value]:
    """``data`` with zeros at random places and the rest scaled up, and where it was kept; in inference, as it is.

    Both the ratio and the mode may come at run time. Source: ONNX Dropout.
    """
    training = g.scalar(False, torch.bool) if training_mode is None else g.reshape(training_mode, [])
    portion = g.scalar(0.5, torch.float32) if ratio is None else g.reshape(ratio, [])
    if training.known() is False or portion.known() == 0.0:
        return data, g.full(data.shape, True, torch.bool)
    wide = _wide(data.dtype)
    portion = g.cast(portion, wide)
    drawn = chance(g, data.shape, wide, stream_key(g, seed))
    kept = g.binary("ge", drawn, portion)
    scale = g.div(g.scalar(1.0, wide), g.sub(g.scalar(1.0, wide), portion))
    if training.known() is not True:
        kept = g.binary("logical_or", kept, g.unary("logical_not", training))
        scale = g.where(training, scale, 1.0)
    result = g.where(kept, g.mul(g.cast(data, wide), scale), 0.0)
    return cast_to(g, result, data.dtype), kept


def dropout_attribute(
    g: ProgramBuilder, data: Value, *, ratio: float = 0.5, is_test: int = 0, opset: int
) -> tuple[Value, Value]:
    """Dropout before opset 12: training until opset 6 unless ``is_test``, since opset 7 always inference.

    The mask is of the data's dtype until opset 9, then bool. Source: ONNX Dropout.
    """
    training = opset < 7 and not is_test
    mode = g.scalar(training, torch.bool)
    output, mask = dropout(g, data, g.scalar(ratio, torch.float32), mode)
    return output, mask if opset >= 10 else g.cast(mask, data.dtype)
