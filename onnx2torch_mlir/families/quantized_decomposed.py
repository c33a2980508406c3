"""Quantization by ``torch.ops.quantized_decomposed``, as far as its operators give ONNX's numbers.

They dequantize as ONNX does. To quantize, PyTorch multiplies by a reciprocal where ONNX divides: what comes here is divided
already, and quantized with a scale of 1. Per group PyTorch rounds after it added the zero point: that is not used.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.narrow import NARROW
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.families.narrow import numbers

INTEGERS = frozenset({torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32})


def _limits(dtype: torch.dtype, element: str) -> tuple[int, int]:
    limits = torch.iinfo(dtype)
    return NARROW[element].range if element else (limits.min, limits.max)


def _is_one(parameter: Value) -> bool:
    return all(size == 1 for size in parameter.shape)


def known_number(parameter: Value | None) -> float | int | None:
    """The one number that is known to be in a parameter; 0 for a zero point that is absent."""
    if parameter is None:
        return 0
    if not _is_one(parameter):
        return None
    tensor = parameter.tagged("").tensor if parameter.is_known else None
    return None if tensor is None else tensor.reshape([]).item()


MOST_ZEROS = 1 << 16
"""Zero points of more elements than this are not read."""


def is_zero(zero_point: Value) -> bool:
    """Whether a zero point is known to be 0 everywhere, as those of weights mostly are: integers then stay as they are."""
    if not zero_point.is_known or D.product(zero_point.shape) > MOST_ZEROS:
        return False
    tensor = zero_point.tagged("").tensor
    return tensor is not None and not bool(tensor.to(torch.int32).any())


def quantize(
    g: ProgramBuilder, quotient: Value, zero_point: Value | None, axis: int, dtype: torch.dtype, element: str
) -> Value | None:
    """``quotient`` (float32), rounded half to even, plus ``zero_point``, in ``dtype``; None where there is no operator."""
    if quotient.dtype is not torch.float32 or dtype not in INTEGERS or dtype.itemsize > 2:
        return None
    if element and NARROW[element].is_float:
        return None
    low, high = _limits(dtype, element)
    number = known_number(zero_point)
    name = "quantized_decomposed.quantize_per_"
    if number is not None:
        result = g.call(f"{name}tensor.default", quotient, 1.0, int(number), low, high, dtype)
    elif zero_point is not None and _is_one(zero_point):
        one, offset = g.scalar(1.0, torch.float32), zero_point.tagged("")
        result = g.call(f"{name}tensor.tensor", quotient, one, offset, low, high, dtype)
    elif zero_point is not None and zero_point.rank == 1 and -quotient.rank <= axis < quotient.rank:
        ones = g.full([zero_point.shape[0]], 1.0, torch.float32)
        offsets = g.cast(zero_point.tagged(""), torch.int32)
        result = g.call(f"{name}channel.default", quotient, ones, offsets, axis % quotient.rank, low, high, dtype)
    else:
        return None
    tagged: Value = result.tagged(element)
    return tagged


def dequantize(
    g: ProgramBuilder, x: Value, scale: Value, zero_point: Value | None, axis: int, block_size: int
) -> Value | None:
    """(x - zero_point) * scale in float32; None where there is no operator."""
    if x.dtype not in INTEGERS or scale.dtype.itemsize > 4 or scale.dtype.itemsize < 2:
        return None
    if x.element and NARROW[x.element].is_float:
        return None
    if zero_point is not None and zero_point.dtype.is_floating_point:
        return None
    limits = _limits(x.dtype, x.element)
    scale, x = g.cast(scale, torch.float32), numbers(g, x)
    if _is_one(scale) and (zero_point is None or _is_one(zero_point)) and not block_size:
        return _per_tensor(g, x, scale, zero_point, limits)
    if x.dtype is torch.int32 or (zero_point is not None and zero_point.shape != scale.shape):
        return None
    if x.dtype is torch.uint16:  # PyTorch does not subtract these
        x = g.cast(x, torch.int32)
    zero_point = None if zero_point is None or is_zero(zero_point) else g.cast(zero_point.tagged(""), torch.int32)
    if not -x.rank <= axis < x.rank:
        return None
    axis %= x.rank
    if scale.rank == 1 and not block_size:
        name = "quantized_decomposed.dequantize_per_channel.default"
        result: Value = g.call(name, x, scale, zero_point, axis, *limits, x.dtype)
        return result
    if block_size > 1 and scale.rank == x.rank and D.known_equal(x.shape[axis], scale.shape[axis] * block_size):
        return _per_group(g, x, scale, zero_point, axis, block_size, limits)
    return None


def _per_tensor(
    g: ProgramBuilder, x: Value, scale: Value, zero_point: Value | None, limits: tuple[int, int]
) -> Value | None:
    factor, offset = known_number(scale), known_number(zero_point)
    if x.dtype is torch.int32 and offset != 0:  # PyTorch subtracts in float32
        return None
    name = "quantized_decomposed.dequantize_per_tensor"
    if factor is not None and offset is not None:
        result: Value = g.call(f"{name}.default", x, float(factor), int(offset), *limits, x.dtype)
    else:
        zero = g.scalar(0, torch.int32) if zero_point is None else zero_point.tagged("")
        result = g.call(f"{name}.tensor", x, scale, zero, *limits, x.dtype)
    return result


def _per_group(
    g: ProgramBuilder,
    x: Value,
    scale: Value,
    zero_point: Value | None,
    axis: int,
    block_size: int,
    limits: tuple[int, int],
) -> Value:
    """Blocks along ``axis``, which becomes the last one of a matrix."""
    order = [other for other in range(x.rank) if other != axis] + [axis]
    back = [order.index(other) for other in range(x.rank)]

    def rows(value: Value) -> Value:
        moved = g.permute(value, order)
        return g.reshape(moved, [D.product(moved.shape[:-1]), moved.shape[-1]])

    offsets = None if zero_point is None else rows(zero_point)
    name = "quantized_decomposed.dequantize_per_channel_group.default"
    flat = g.call(name, rows(x), rows(scale), offsets, *limits, x.dtype, block_size, torch.float32)
    return g.permute(g.reshape(flat, [x.shape[other] for other in order]), back)
