"""Normalizations: by given statistics, or by those of the data along some axes."""

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
