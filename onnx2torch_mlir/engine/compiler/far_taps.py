"""Convolutions of which many taps are in the padding (dilated ones of small images) are summed up tap by tap, without these.

With a dilation of 24, an image of 32 by 32 meets the outer taps of 3 by 3 with eight of its rows or columns: a quarter of the
products is all there is to do. Each tap is a convolution with a window of one pixel, of the part of the image that it meets,
added to the part of the result that it belongs to. How large an image is need not be known: with few taps in the padding that
takes a twentieth longer at most than all at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.loop_order import coefficient, indexing_maps, iterators, origin
from onnx2torch_mlir.engine.compiler.tensor_parts import Extent, Part, added, dim_of, value_of
from onnx2torch_mlir.engine.compiler.walks import functions, named
from onnx2torch_mlir.engine.compiler.window_lines import WindowLine, without_padding
from onnx2torch_mlir.engine.compiler.window_sums import convolution, is_sum_of_products

_MOST_DONE, _MOST_DONE_DILATED = 0.75, 0.9
"""The part of all products that is not of padding, where taps are neighbours (which other ways are for, too) and where not."""
_FAR = 4
"""Steps from tap to tap, in an image of which nobody knows how large it is."""
_FEW_TERMS = 64
"""Of a tap: with fewer, to add to the result again and again costs as much as it saves."""
_FEW_WINDOWS = 64


@dataclass(frozen=True)
class _OpenLine:
    """Windows along a dim of any size, as many as it has places, that lie one step apart."""

    taps: int
    dilation: int
    low: int

    def begin(self, tap: int) -> int:
        """Where the tap of the first window is; before 0 in the padding."""
        return tap * self.dilation - self.low


@dataclass(frozen=True)
class _Axis:
    """Windows along a dim: its axis in the input, the weight and the result."""

    line: WindowLine | _OpenLine
    read: int
    weight: int
    written: int

    def spans(self, tap: int, image: ir.Value) -> tuple[tuple[Extent, Extent], tuple[Extent, Extent]] | None:
        """Where the part of the image begins that a tap meets, and how long it is, and the same of the result; None for all."""
        if isinstance(self.line, WindowLine):
            here = self.line.inside(tap)
            begin = self.line.position(here.start, tap)
            return (begin, (len(here) - 1) * self.line.stride + 1), (here.start, len(here))
        begin = self.line.begin(tap)
        if not begin:
            return None
        rest = added(dim_of(image, self.read), -abs(begin))
        length = arith.MaxSIOp(value_of(rest), value_of(0)).result
        return (max(begin, 0), length), (max(-begin, 0), length)


@dataclass(frozen=True)
class _Found:
    """A convolution, the number of the operand that it reads through windows, and that without its padding."""

    generic: ir.Operation
    input: int
    image: ir.Value
    axes: list[_Axis]


def skip(module: ir.Module) -> None:
    """Rewrite such convolutions of @main (linalg on tensors)."""
    (main,) = functions(module)
    for generic in named(main, "linalg.generic"):
        found = _match(generic) if is_sum_of_products(generic) else None
        if found is not None and _pays(found):
            _rewrite(found)


def _match(generic: ir.Operation) -> _Found | None:
    wanted = convolution(generic)
    if wanted is None:
        return None
    maps, reduced = indexing_maps(generic), iterators(generic)
    read, weight, written = maps[wanted.input], maps[1 - wanted.input], maps[2]
    factors = [{loop: coefficient(e, loop) for loop in range(len(reduced))} for e in read.results]
    moving = [{loop: factor for loop, factor in of.items() if factor != 0} for of in factors]
    spatial = [axis for axis, of in enumerate(moving) if len(of) > 1]
    image, low, high = without_padding(generic.operands[wanted.input], 0.0, spatial)
    if image == generic.operands[wanted.input]:
        return None
    axes = []
    for axis in spatial:
        places = [loop for loop in moving[axis] if not reduced[loop]]
        taps = [loop for loop in moving[axis] if reduced[loop]]
        if len(places) != 1 or len(taps) != 1 or origin(read.results[axis]):
            return None
        at = [_axis_of(map_, loop) for map_, loop in ((weight, taps[0]), (written, places[0]))]
        if at[0] is None or at[1] is None:
            return None
        sizes = _size(image, axis), _size(generic.results[0], at[1])
        length = _size(generic.operands[1 - wanted.input], at[0])
        line = _line(sizes, length, moving[axis][places[0]], moving[axis][taps[0]], (low[axis], high[axis]))
        if line is None:
            return None
        axes.append(_Axis(line, axis, at[0], at[1]))
    return _Found(generic, wanted.input, image, axes)


def _line(
    sizes: tuple[int | None, int | None],
    taps: int | None,
    stride: int | None,
    dilation: int | None,
    padding: tuple[int, int],
) -> WindowLine | _OpenLine | None:
    """Windows along a dim of ``sizes`` of the image and the result; None where they are not of the two kinds."""
    if taps is None or min(stride or 0, dilation or 0) < 1:
        return None
    size, count = sizes
    if size is not None and count is not None:
        return WindowLine(size, count, taps, stride or 0, dilation or 0, padding[0])
    as_long = stride == 1 and sum(padding) == (taps - 1) * (dilation or 0)
    return _OpenLine(taps, dilation or 0, padding[0]) if size is None and count is None and as_long else None


def _axis_of(map_: ir.AffineMap, loop: int) -> int | None:
    """The axis along which ``loop`` alone goes, step by step."""
    found = [axis for axis, e in enumerate(map_.results) if isinstance(e, ir.AffineDimExpr) and e.position == loop]
    return found[0] if len(found) == 1 else None


def _size(value: ir.Value, axis: int) -> int | None:
    type_ = ir.RankedTensorType(value.type)
    return None if type_.is_dynamic_dim(axis) else int(type_.get_dim_size(axis))


def _pays(found: _Found) -> bool:
    lines = [axis.line for axis in found.axes]
    known = [line for line in lines if isinstance(line, WindowLine)]
    windows, taps = math.prod(line.count for line in known), math.prod(line.taps for line in known)
    weight = ir.RankedTensorType(found.generic.operands[1 - found.input].type)
    # Sums of integers are looked for as they come from quantized models.
    is_float = isinstance(weight.element_type, ir.FloatType)
    if (len(known) == len(lines) and windows < _FEW_WINDOWS) or not weight.has_static_shape or not is_float:
        return False
    read = indexing_maps(found.generic)[found.input]
    summed = [loop for loop, reduced in enumerate(iterators(found.generic)) if reduced]
    of_channels = [axis for axis, e in enumerate(read.results) if isinstance(e, ir.AffineDimExpr) and e.position in summed]
    terms = [_size(found.image, axis) for axis in of_channels]
    if math.prod(term or 0 for term in terms) < _FEW_TERMS:
        return False
    if any(isinstance(line, _OpenLine) and line.taps > 1 and line.dilation >= _FAR for line in lines):
        return True
    dilated = any(line.taps > 1 and line.dilation > 1 for line in lines)
    done = math.prod(sum(len(line.inside(tap)) for tap in range(line.taps)) for line in known)
    return done <= (_MOST_DONE_DILATED if dilated else _MOST_DONE) * windows * taps


def _rewrite(found: _Found) -> None:
    generic, axes = found.generic, found.axes
    with ir.InsertionPoint(generic), generic.location:
        total = generic.operands[2]
        every = itertools.product(*(range(axis.line.taps) for axis in axes))
        # What all results have begins: it is written where the others are added.
        for taps in sorted((taps for taps in every if _places(axes, taps)), key=lambda taps: _order(axes, taps)):
            total = _add(found, total, taps)
        generic.results[0].replace_all_uses_with(total)
    generic.erase()


def _places(axes: Sequence[_Axis], taps: Sequence[int]) -> int:
    """How many windows there are, along the dims of known sizes, of which these taps are in the image."""
    known = [(axis.line, tap) for axis, tap in zip(axes, taps, strict=True)]
    return math.prod(len(line.inside(tap)) for line, tap in known if isinstance(line, WindowLine))


def _order(axes: Sequence[_Axis], taps: Sequence[int]) -> tuple[int, int]:
    """How far from their windows taps are along dims of any size; then how few windows have them."""
    lines = [(axis.line, tap) for axis, tap in zip(axes, taps, strict=True)]
    far = sum(abs(line.begin(tap)) for line, tap in lines if isinstance(line, _OpenLine))
    return far, -_places(axes, taps)


def _add(found: _Found, total: ir.Value, taps: Sequence[int]) -> ir.Value:
    """``total`` with one tap's products added where they belong."""
    generic, axes = found.generic, found.axes
    spans = [(axis, axis.spans(tap, found.image)) for axis, tap in zip(axes, taps, strict=True)]
    parts = [(axis, span) for axis, span in spans if span is not None]
    operands = [
        Part({axis.read: span[0] for axis, span in parts}).of(found.image),
        Part({axis.weight: (tap, 1) for axis, tap in zip(axes, taps, strict=True)}).of(generic.operands[1 - found.input]),
    ]
    if found.input == 1:
        operands.reverse()
    part = Part({axis.written: span[1] for axis, span in parts})
    sums = part.of(total)
    made = generic.clone().operation
    for position, value in enumerate([*operands, sums]):
        made.operands[position] = value
    made.results[0].set_type(sums.type)
    return part.put(made.results[0], total)
