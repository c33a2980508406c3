"""Running sums and products along an axis."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.families import wide
from onnx2torch_mlir.families.normalization import first_axis


def cumulate(
    g: ProgramBuilder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0, core: str, start: int
) -> Value:
    """Elements combined up to and with each place; ``exclusive`` without it (then the first is ``start``), ``reverse``
    from the end. An axis that is only known at run time chooses among the results along all of them.

    Source: https://onnx.ai/onnx/operators/onnx__CumSum.html.

    Raises:
        Refusal: O2M-C005 where the axis is out of range.
    """
    known = axis.tensor

    def along(position: int) -> Value:
        return _along(g, x, position, bool(exclusive), bool(reverse), core, start)

    if known is not None and known.numel() == 1:
        return along(first_axis(int(known.item()), x.rank))
    chosen = g.binary("remainder", g.reshape(g.cast(axis, torch.int64), []), max(x.rank, 1))
    result = along(0)
    for position in range(1, x.rank):
        result = g.where(g.binary("eq", chosen, position), along(position), result)
    return result


def _along(g: ProgramBuilder, x: Value, position: int, exclusive: bool, reverse: bool, core: str, start: int) -> Value:
    data = wide.widen(g, x)
    if reverse:
        data = g.call("aten.flip.default", data, [position])
    if exclusive:
        pads = [1 if other == position else 0 for other in range(x.rank)]
        data = g.slice(g.pad(data, pads, [0] * x.rank, start), position, 0, x.shape[position])
    result = g.call(core, data, position, dtype=data.dtype)
    if reverse:
        result = g.call("aten.flip.default", result, [position])
    return wide.narrow(g, result, x.dtype)
