"""Softmax, its logarithm and its hard form, along one axis or (before opset 13) over all axes from one on."""

from __future__ import annotations

from collections.abc import Callable

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

Along = Callable[[ProgramBuilder, Value, int], Value]


def _hardmax(g: ProgramBuilder, x: Value, axis: int) -> Value:
    size = x.shape[axis]
    if size == 0:
        return x
    place = g.call("aten.argmax.default", x, axis, True)
    places = g.reshape(g.arange(0, size), [size if other == axis else 1 for other in range(x.rank)])
    return g.cast(g.binary("eq", places, place), x.dtype)


_KINDS: dict[str, Along] = {
    "softmax": lambda g, x, axis: g.softmax(x, axis),
    "log_softmax": lambda g, x, axis: g.call("aten._log_softmax.default", x, axis, False),
    "hardmax": _hardmax,
}


def along(g: ProgramBuilder, x: Value, axis: int, kind: str) -> Value:
    """``kind`` along ``axis``; narrow floats are computed in float32."""
    wide = g.cast(x, torch.float32) if x.dtype.itemsize < 4 and kind != "hardmax" else x
    return g.cast(_KINDS[kind](g, wide, axis), x.dtype)


def softmax(g: ProgramBuilder, x: Value, *, axis: int = -1, kind: str) -> Value:
    """Along one axis (opset 13).

    Raises:
        Refusal: O2M-C005 where the axis is out of range.
    """
    if x.rank == 0 and axis in (-1, 0):
        return g.reshape(along(g, g.reshape(x, [1]), 0, kind), [])
    if not -x.rank <= axis < x.rank:
        raise refuse("O2M-C005", f"axis {axis} is out of range for rank {x.rank}", case="axis")
    return along(g, x, axis % x.rank, kind)


def flattened(g: ProgramBuilder, x: Value, *, axis: int = 1, kind: str) -> Value:
    """Over all axes from ``axis`` on, taken as one (before opset 13).

    Source: https://onnx.ai/onnx/operators/onnx__Softmax.html#softmax-11.

    Raises:
        Refusal: O2M-C005 where the axis is out of range.
    """
    if not -x.rank <= axis <= x.rank:
        raise refuse("O2M-C005", f"axis {axis} is out of range for rank {x.rank}", case="axis")
    axis = axis + x.rank if axis < 0 else axis
    long = [position for position in range(axis, x.rank) if x.shape[position] != 1]
    if len(long) == 1:
        return along(g, x, long[0], kind)
    matrix = g.reshape(x, [D.product(x.shape[:axis]), D.product(x.shape[axis:])])
    return g.reshape(along(g, matrix, 1, kind), x.shape)
