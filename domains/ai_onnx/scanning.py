"""Running sums and products along an axis."""

from __future__ import annotations

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.parameters import KnownInt
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.families import wide
from onnx2torch_mlir.families.normalization import first_axis


def cumulate(
    g: ProgramBuilder, x: Value, axis: KnownInt, *, exclusive: int = 0, reverse: int = 0, core: str, start: int
) -> Value:
    """Elements combined up to and with each place; ``exclusive`` without it (then the first is ``start``), ``reverse``
    from the end.

    Source: https://onnx.ai/onnx/operators/onnx__CumSum.html.

    Raises:
        Refusal: O2M-C004 where the axis is only known at run time, O2M-C005 where it is out of range.
    """
    position = first_axis(axis, x.rank)
    dtype = x.dtype
    data = wide.widen(g, x)
    if reverse:
        data = g.call("aten.flip.default", data, [position])
    if exclusive:
        size = x.shape[position]
        pads = [1 if other == position else 0 for other in range(x.rank)]
        data = g.slice(g.pad(data, pads, [0] * x.rank, start), position, 0, D.to_dim(size))
    result = g.call(core, data, position, dtype=data.dtype)
    if reverse:
        result = g.call("aten.flip.default", result, [position])
    return wide.narrow(g, result, dtype)
