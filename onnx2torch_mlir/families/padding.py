"""Pad: constant, reflect, edge and wrap; negative pads crop."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.indexing import axes_in, elements, spread
from onnx2torch_mlir.families.runs import picked


def pad_attribute(
    g: ProgramBuilder,
    data: Value,
    *,
    pads: list[int] | None = None,
    paddings: list[int] | None = None,
    mode: str = "constant",
    value: float = 0.0,
) -> Value:
    """Pads and value as attributes (opset 1 to 10; version 1 calls them ``paddings``). Source: ONNX Pad-1, Pad-2."""
    given = pads if pads is not None else paddings
    if given is None:
        raise refuse("O2M-C005", "attribute pads is missing", case="pads")
    return padded(g, data, given, mode, g.scalar(value, data.dtype))


def pad(
    g: ProgramBuilder,
    data: Value,
    pads: Value,
    constant_value: Value | None = None,
    axes: Value | None = None,
    *,
    mode: str = "constant",
) -> Value:
    """Pads, value and axes as inputs. Source: ONNX Pad."""
    if axes is None:
        sizes = elements(g, pads, "pads")
    elif (named := axes.tensor) is not None:
        chosen = axes_in(named.reshape(-1).tolist(), data.rank)
        given = elements(g, pads, "pads")
        if len(given) != 2 * len(chosen):
            raise refuse("O2M-C006", f"{len(given)} pads are given for {len(chosen)} axes", case="pads")
        sizes = [0] * (2 * data.rank)
        for index, axis in enumerate(chosen):
            sizes[axis], sizes[axis + data.rank] = given[index], given[index + len(chosen)]
    else:
        count = axes.shape[0]
        if not isinstance(count, int):
            raise refuse("O2M-C004", "the number of padded axes is only known at run time", case="axes")
        halves = (g.slice(pads, 0, 0, count), g.slice(pads, 0, count, 2 * count))
        sizes = [item for half in halves for item in elements(g, spread(g, half, axes, data.rank, 0), "pads")]
    return padded(g, data, sizes, mode, constant_value)


def padded(g: ProgramBuilder, data: Value, pads: Sequence[Dim], mode: str, value: Value | None) -> Value:
    """``data`` with ``pads`` (all axes' low ones, then all high ones) filled as ``mode`` says.

    Raises:
        Refusal: O2M-C006 where the number of pads is wrong, O2M-C005 for an unknown mode.
    """
    if len(pads) != 2 * data.rank:
        raise refuse("O2M-C006", f"{len(pads)} pads are given for {data.rank} axes", case="pads")
    low, high = list(pads[: data.rank]), list(pads[data.rank :])
    if mode == "constant":
        return _constant(g, data, low, high, value)
    if mode not in _POSITIONS:
        raise refuse("O2M-C005", f"there is no mode {mode}", case=f"mode={mode}")
    cropped = g.pad(data, [D.minimum(item, 0) for item in low], [D.minimum(item, 0) for item in high])
    for axis in range(data.rank):
        before, after = D.maximum(low[axis], 0), D.maximum(high[axis], 0)
        if before == 0 and after == 0:
            continue
        size = cropped.shape[axis]
        steps = g.arange(to_dim(-before), to_dim(size + after))
        index = _POSITIONS[mode](g, steps, g.size_value(size))
        cropped = picked(g, cropped, axis, index)
    return cropped


def _constant(g: ProgramBuilder, data: Value, low: Sequence[Dim], high: Sequence[Dim], value: Value | None) -> Value:
    known = None if value is None else value.tensor
    if value is None or known is not None:
        return g.pad(data, low, high, 0 if known is None else known.reshape(-1)[0].item())
    inside = g.pad(g.full(data.shape, True, torch.bool), low, high, 0)
    return g.where(inside, g.pad(data, low, high), g.reshape(value, []))


def _reflected(g: ProgramBuilder, steps: Value, size: Value) -> Value:
    last = g.sub(size, 1)
    offset = g.binary("remainder", steps, g.maximum(g.mul(last, 2), 1))
    return g.where(g.binary("gt", offset, last), g.sub(g.mul(last, 2), offset), offset)


def _nearest(g: ProgramBuilder, steps: Value, size: Value) -> Value:
    return g.minimum(g.maximum(steps, 0), g.sub(size, 1))


def _around(g: ProgramBuilder, steps: Value, size: Value) -> Value:
    return g.binary("remainder", steps, size)


_POSITIONS = {"reflect": _reflected, "edge": _nearest, "wrap": _around}
