"""Windows along one dim of an image that is padded: which of their taps are in the image, and which in the padding."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.borders import value_around
from onnx2torch_mlir.engine.compiler.walks import constant_of, made_by


@dataclass(frozen=True)
class WindowLine:
    """Windows along a dim of a known size: how many, of so many taps, at these steps; ``low`` before it is padding."""

    size: int
    count: int
    taps: int
    stride: int
    dilation: int
    low: int

    def position(self, place: int, tap: int) -> int:
        """Where a tap of a window is; outside 0 to ``size`` in the padding."""
        return place * self.stride + tap * self.dilation - self.low

    def inside(self, tap: int) -> range:
        """The windows of which this tap is in the image."""
        before = -(-(self.low - tap * self.dilation) // self.stride)
        behind = -(-(self.size + self.low - tap * self.dilation) // self.stride)
        return range(min(max(before, 0), self.count), min(max(behind, 0), self.count))

    def borders(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """Ranges of windows that have the same taps outside the padding, and these."""
        inside = [tuple(tap for tap in range(self.taps) if place in self.inside(tap)) for place in range(self.count)]
        found, start = list[tuple[int, int, tuple[int, ...]]](), 0
        for taps, places in itertools.groupby(inside):
            end = start + len(list(places))
            found.append((start, end, taps))
            start = end
        return found


def without_padding(value: ir.Value, around: float, axes: Collection[int]) -> tuple[ir.Value, list[int], list[int]]:
    """What ``value`` pads with a number, by known widths along these ``axes`` alone; and how much before and behind it along
    each dim."""
    pad = made_by(value, "tensor.pad")
    if pad is not None and len(pad.operands) == 1:
        padding = value_around(pad)
        low, high = (list(ir.DenseI64ArrayAttr(pad.attributes[name])) for name in ("static_low", "static_high"))
        others = [axis for axis in range(len(low)) if axis not in axes]
        # Less than nothing is cut off.
        plain = all(width >= 0 for width in (*low, *high)) and not any(low[axis] or high[axis] for axis in others)
        if padding is not None and constant_of(padding) == around and plain:
            return pad.operands[0], low, high
    none = [0] * ir.RankedTensorType(value.type).rank
    return value, none, none
