"""Linear quantization: scales and zero points per tensor, along an axis, or by blocks of one."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.cast import cast_to
from onnx2torch_mlir.families.dtypes import describe, is_integer


def spread(g: ProgramBuilder, parameter: Value, x: Value, axis: int, block_size: int = 0) -> Value:
    """A scale or zero point shaped to broadcast against ``x``.

    One element is for the whole tensor, rank 1 lies along ``axis``, the rank of ``x`` is by blocks of ``block_size``
    along ``axis``. Source: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html.

    Raises:
        Refusal: O2M-C005 where the axis is out of range, O2M-C006 for another rank.
    """
    if parameter.rank == 0:
        return parameter
    if all(size == 1 for size in parameter.shape) and not block_size:
        return g.reshape(parameter, [])
    if not -x.rank <= axis < x.rank:
        raise refuse("O2M-C005", f"axis {axis} is out of range for rank {x.rank}", case="axis")
    axis %= x.rank
    if parameter.rank == x.rank and block_size:
        return _by_blocks(g, parameter, x, axis, block_size)
    if parameter.rank == 1 and not block_size:
        return g.reshape(parameter, [parameter.shape[0] if other == axis else 1 for other in range(x.rank)])
    reason = f"a scale of rank {parameter.rank} for data of rank {x.rank} with block_size={block_size}"
    raise refuse("O2M-C006", reason, case="scale")


def _by_blocks(g: ProgramBuilder, parameter: Value, x: Value, axis: int, block_size: int) -> Value:
    shape = list(parameter.shape)
    repeated = g.expand(g.unsqueeze(parameter, axis + 1), [*shape[: axis + 1], block_size, *shape[axis + 1 :]])
    whole = D.to_dim(shape[axis] * block_size)
    flat = g.reshape(repeated, [*shape[:axis], whole, *shape[axis + 1 :]])
    g.require_equal(D.ceil_div(x.shape[axis], block_size), shape[axis], "number of blocks of a scale")
    return g.slice(flat, axis, 0, x.shape[axis])


def _in_float32(g: ProgramBuilder, x: Value) -> Value:
    return g.cast(x, torch.float64 if x.dtype is torch.float64 else torch.float32)


def dequantized(g: ProgramBuilder, x: Value, scale: Value, zero_point: Value | None) -> Value:
    """(x - zero_point) * scale in float32; parameters broadcast to ``x``."""
    if zero_point is None:
        return g.mul(_in_float32(g, x), _in_float32(g, scale))
    if x.dtype is torch.int32:
        centered = _in_float32(g, g.sub(x, zero_point))
    else:
        centered = g.sub(_in_float32(g, x), _in_float32(g, zero_point))
    return g.mul(centered, _in_float32(g, scale))


def saturated(
    g: ProgramBuilder, x: Value, zero_point: Value | None, dtype: torch.dtype, *, saturate: bool = True
) -> Value:
    """``x`` (float32), rounded half to even, plus ``zero_point``, within the range of ``dtype``.

    Raises:
        Refusal: O2M-C003 for a dtype that numbers are not quantized to.
    """
    if not is_integer(dtype):
        if dtype.itemsize != 1:
            raise refuse("O2M-C003", f"quantization to {describe(dtype)}", case=describe(dtype))
        shifted = x if zero_point is None else g.add(x, _in_float32(g, zero_point))
        return cast_to(g, shifted, dtype, saturate=saturate)
    limits = torch.iinfo(dtype)
    if dtype.itemsize > 2:
        raise refuse("O2M-C003", f"quantization to {describe(dtype)}", case=describe(dtype))
    rounded = g.unary("round", x)
    if zero_point is not None:
        rounded = g.add(rounded, _in_float32(g, zero_point))
    return g.cast(g.call("aten.clamp.default", rounded, float(limits.min), float(limits.max)), dtype)
