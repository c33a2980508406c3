"""Windows that slide over spatial axes: kernel, strides, dilations, padding; resolved once for convolutions and pools.

Source: the Conv, MaxPool and AveragePool operator pages; where they leave a case open (``ceil_mode`` with padding,
``auto_pad`` with dilations), onnxruntime's ``pool_attributes.h`` and ``conv_attributes.h``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypedDict, Unpack

import torch

from onnx2torch_mlir.core import dims
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


class WindowAttributes(TypedDict, total=False):
    """What every convolution and pool may state."""

    auto_pad: str
    dilations: Sequence[int] | None
    strides: Sequence[int] | None


class ConvAttributes(WindowAttributes, total=False):
    """What convolutions may state, transposed ones too."""

    group: int
    kernel_shape: Sequence[int] | None


class PaddedConvAttributes(ConvAttributes, total=False):
    """The attributes of Conv."""

    pads: Sequence[int] | None


class PaddedAttributes(WindowAttributes, total=False):
    """What pools may state beside their kernel."""

    ceil_mode: int
    pads: Sequence[int] | None


class _Kernel(TypedDict):
    kernel_shape: Sequence[int]


class PoolAttributes(_Kernel, PaddedAttributes):
    """The attributes of MaxPool and AveragePool that say where their windows lie."""


@dataclass(frozen=True)
class Window:
    """One window per spatial axis.

    ``low`` and ``high`` are the cells that an axis needs before and after it, so that windows rounded down are exactly
    ONNX's; negative numbers crop. ``declared_high`` is the padding that the model declares: cells beyond it, which only
    ``ceil_mode`` asks for, are in no average.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    declared_high: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    @property
    def extents(self) -> tuple[int, ...]:
        """Cells from the first to the last element of a window."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def padded(self) -> bool:
        """Whether any padding (or cropping) may be needed."""
        return any(pad != 0 for pad in (*self.low, *self.high))

    def leaving_out(self, axes: Collection[int]) -> Window:
        """The window that does nothing along ``axes``."""

        def without(values: tuple[Dim, ...], neutral: int) -> tuple[Dim, ...]:
            return tuple(neutral if axis in axes else value for axis, value in enumerate(values))

        steps = (tuple(int(n) for n in without(each, 1)) for each in (self.kernel, self.strides, self.dilations))
        return Window(*steps, *(without(each, 0) for each in (self.low, self.high, self.declared_high)))

    @property
    def symmetric(self) -> tuple[int, ...] | None:
        """The padding as PyTorch's operators take it: static, the same on both sides, none cropped; else None."""
        pads = tuple(low for low, high in zip(self.low, self.high, strict=True) if isinstance(low, int) and low == high)
        return pads if len(pads) == self.rank and min(pads, default=0) >= 0 else None


def resolve(
    sizes: Sequence[Dim],
    kernel_shape: Sequence[Dim],
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    same_by_extent: bool = True,
) -> Window:
    """The window over spatial ``sizes``.

    ``same_by_extent`` tells whether SAME padding is computed for the dilated window (convolutions) or for the kernel as
    it is (pools, as in onnxruntime).

    Raises:
        Refusal: O2M-C005 where attributes contradict each other, O2M-C004 where the kernel's size is unknown.
    """
    rank = len(sizes)
    kernel = static_kernel(kernel_shape)
    strides = tuple(strides or [1] * rank)
    dilations = tuple(dilations or [1] * rank)
    pads = list(pads or [0] * (2 * rank))
    for name, items, count in (
        ("kernel_shape", kernel, rank),
        ("strides", strides, rank),
        ("dilations", dilations, rank),
        ("pads", pads, 2 * rank),
    ):
        if len(items) != count:
            raise refuse("O2M-C005", f"{name} has {len(items)} entries, {rank} spatial axes need {count}", case=name)
    for name, items in (("kernel_shape", kernel), ("strides", strides), ("dilations", dilations)):
        if any(item < 1 for item in items):
            raise refuse("O2M-C005", f"{name}={list(items)} has an entry below 1", case=name)
    check_auto_pad(auto_pad)
    spans: list[tuple[Dim, Dim, Dim]] = []
    for axis, size in enumerate(sizes):
        extent = dilations[axis] * (kernel[axis] - 1) + 1
        if auto_pad.startswith("SAME"):
            basis = extent if same_by_extent else kernel[axis]
            spans.append(_same(size, basis, extent, strides[axis], auto_pad == "SAME_UPPER"))
            continue
        low, high = (0, 0) if auto_pad == "VALID" else (pads[axis], pads[rank + axis])
        needed = _ceiled(size, low, high, extent, strides[axis]) if ceil_mode else high
        spans.append((low, needed, high))
    lows, highs, declared = (tuple(span[side] for span in spans) for side in range(3))
    return Window(kernel, strides, dilations, lows, highs, declared)


def pool_window(x: Value, **pool: Unpack[PoolAttributes]) -> Window:
    """The window of a pool over ``x`` [N, C, *spatial].

    Raises:
        Refusal: as `check_spatial` and `resolve`.
    """
    check_spatial(x)
    return _without_excess(resolve(x.shape[2:], **pool, same_by_extent=False), x.shape[2:])


def _without_excess(window: Window, sizes: Sequence[Dim]) -> Window:
    """The window without cells that only ``ceil_mode`` reaches, along axes on which there is one window alone.

    Networks state a kernel of more than a thousand cells where they mean all of a small image.
    """
    kernel, high = list(window.kernel), list(window.high)
    for axis, size in enumerate(sizes):
        inside = to_dim(window.low[axis] + size + window.declared_high[axis])
        alone = to_dim(window.low[axis] + size + high[axis]) == kernel[axis]
        if isinstance(inside, int) and alone and window.dilations[axis] == 1 and 0 < inside < kernel[axis]:
            kernel[axis], high[axis] = inside, window.declared_high[axis]
    return replace(window, kernel=tuple(kernel), high=tuple(high))


def static_kernel(kernel_shape: Sequence[Dim]) -> tuple[int, ...]:
    """The kernel's sizes as numbers.

    Raises:
        Refusal: O2M-C004 where one of them is symbolic.
    """
    if not all(isinstance(size, int) for size in kernel_shape):
        raise refuse("O2M-C004", "the kernel's spatial sizes are only known at run time", case="kernel_shape")
    return tuple(int(size) for size in kernel_shape)


def check_auto_pad(auto_pad: str) -> None:
    """Refuse a word that ONNX does not know."""
    if auto_pad not in AUTO_PADS:
        raise refuse("O2M-C005", f"auto_pad is one of {', '.join(AUTO_PADS)}", case=f"auto_pad={auto_pad}")


def _same(size: Dim, basis: int, extent: int, stride: int, upper: bool) -> tuple[Dim, Dim, Dim]:
    places = dims.ceil_div(size, stride)
    total = to_dim((places - 1) * stride + basis - size)
    inside = total if basis >= stride else dims.maximum(0, total)
    low = dims.floor_div(inside, 2) if upper else dims.ceil_div(inside, 2)
    if basis != extent:
        high = to_dim(inside - low)
        return low, high, high
    return low, to_dim(total - low), to_dim(inside - low)


def _ceiled(size: Dim, low: int, high: int, extent: int, stride: int) -> Dim:
    rounded_up = to_dim(dims.ceil_div(to_dim(size + low + high - extent), stride) + 1)
    inside = to_dim(dims.floor_div(to_dim(size + low - 1), stride) + 1)
    places = dims.minimum(rounded_up, inside)
    return to_dim((places - 1) * stride + extent - size - low)


def pad_spatial(g: ProgramBuilder, x: Value, window: Window, fill: float | int) -> Value:
    """``x`` of shape [N, C, *spatial] with the window's padding made explicit."""
    outer = [0] * (x.rank - window.rank)
    return g.pad(x, [*outer, *window.low], [*outer, *window.high], fill)


def counts(g: ProgramBuilder, window: Window, axis: int, size: Dim, places: Dim, include_pad: bool) -> Value:
    """How many elements of each of ``places`` windows along ``axis`` an average counts: int64 of shape [places].

    They are those inside the input, or inside the input and its declared padding.
    """
    low, step = window.low[axis], window.dilations[axis]
    first = -low if include_pad else 0
    end = to_dim(size + window.declared_high[axis]) if include_pad else size
    start = g.sub(g.mul(g.arange(0, places), window.strides[axis]), g.size_value(low))
    stop = g.add(start, window.kernel[axis] * step)

    def steps(distance: Value) -> Value:
        return g.floor_div(g.add(distance, step - 1), step)

    inside = steps(g.sub(g.minimum(stop, g.size_value(to_dim(end))), start))
    outside = steps(g.maximum(g.sub(g.size_value(to_dim(first)), start), 0))
    return g.sub(inside, outside)


def slide(g: ProgramBuilder, x: Value, window: Window, combine: str) -> Value:
    """Every window of a padded ``x`` folded by pointwise ``combine``, axis by axis; any rank and dilation."""
    for axis in range(window.rank):
        x = slide_along(g, x, window, axis, combine)
    return x


def slide_along(g: ProgramBuilder, x: Value, window: Window, axis: int, combine: str) -> Value:
    """The same along one spatial axis."""
    return reduce(lambda a, b: g.binary(combine, a, b), places(g, x, window, axis))


def places(g: ProgramBuilder, x: Value, window: Window, axis: int) -> list[Value]:
    """For each place in the window along a spatial axis of a padded ``x``, what all windows have there."""
    where, stride = x.rank - window.rank + axis, window.strides[axis]
    size = x.shape[where]
    span = to_dim(dims.floor_div(to_dim(size - window.extents[axis]), stride) * stride + 1)
    starts = [position * window.dilations[axis] for position in range(window.kernel[axis])]
    return [g.slice(x, where, start, to_dim(start + span), stride) for start in starts]


def check_spatial(x: Value) -> None:
    """Refuse an input without spatial axes."""
    if x.rank < 3:
        raise refuse("O2M-C005", f"the input has rank {x.rank}; [N, C, spatial axes ...] is needed", case="rank")


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which windows of ``dtype`` are summed: half precisions in float32, as compilers and kernels do."""
    return torch.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype
