"""Convolutions of which many taps are in the padding (dilated ones of small images) are summed up tap by tap, without these.

With a dilation of 24, an image of 32 by 32 meets the outer taps of 3 by 3 with eight of its rows or columns: a quarter of the
products is all there is to do. Each tap is a convolution with a window of one pixel, of the part of the image that it meets,
added to the part of the result that it belongs to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.loop_order import coefficient, iterators, origin
from onnx2torch_mlir.engine.compiler.tensor_parts import Part
from onnx2torch_mlir.engine.compiler.walks import functions, named
from onnx2torch_mlir.engine.compiler.window_lines import WindowLine, without_padding
from onnx2torch_mlir.engine.compiler.window_sums import convolution, indexing_maps, is_sum_of_products

_MOST_DONE = 0.75
"""The part of all products that is not of padding."""
_FEW_TERMS = 64
"""Of a tap: with fewer, to add to the result again and again costs as much as it saves."""
_FEW_WINDOWS = 64


@dataclass(frozen=True)
class _Axis:
    """Windows along a dim: its axis in the input, the weight and the result."""

    line: WindowLine
    read: int
    weight: int
    written: int


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
    image, low = without_padding(generic.operands[wanted.input], 0.0, spatial)
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
        sizes = [
            _size(value, where)
            for value, where in ((image, axis), (generic.results[0], at[1]), (generic.operands[1 - wanted.input], at[0]))
        ]
        stride, dilation = moving[axis][places[0]], moving[axis][taps[0]]
        if None in (*sizes, stride, dilation) or min(stride or 0, dilation or 0) < 1:
            return None
        line = WindowLine(sizes[0] or 0, sizes[1] or 0, sizes[2] or 0, stride or 0, dilation or 0, low[axis])
        axes.append(_Axis(line, axis, at[0], at[1]))
    return _Found(generic, wanted.input, image, axes)


def _axis_of(map_: ir.AffineMap, loop: int) -> int | None:
    """The axis along which ``loop`` alone goes, step by step."""
    found = [axis for axis, e in enumerate(map_.results) if isinstance(e, ir.AffineDimExpr) and e.position == loop]
    return found[0] if len(found) == 1 else None


def _size(value: ir.Value, axis: int) -> int | None:
    type_ = ir.RankedTensorType(value.type)
    return None if type_.is_dynamic_dim(axis) else int(type_.get_dim_size(axis))


def _pays(found: _Found) -> bool:
    lines = [axis.line for axis in found.axes]
    windows, taps = math.prod(line.count for line in lines), math.prod(line.taps for line in lines)
    weight = ir.RankedTensorType(found.generic.operands[1 - found.input].type)
    # Sums of integers are looked for as they come from quantized models.
    is_float = isinstance(weight.element_type, ir.FloatType)
    if windows < _FEW_WINDOWS or not weight.has_static_shape or not is_float:
        return False
    read = indexing_maps(found.generic)[found.input]
    summed = [loop for loop, reduced in enumerate(iterators(found.generic)) if reduced]
    of_channels = [axis for axis, e in enumerate(read.results) if isinstance(e, ir.AffineDimExpr) and e.position in summed]
    terms = [_size(found.image, axis) for axis in of_channels]
    if math.prod(term or 0 for term in terms) < _FEW_TERMS:
        return False
    done = math.prod(sum(len(line.inside(tap)) for tap in range(line.taps)) for line in lines)
    return done <= _MOST_DONE * windows * taps


def _rewrite(found: _Found) -> None:
    generic, axes = found.generic, found.axes
    with ir.InsertionPoint(generic), generic.location:
        total = generic.operands[2]
        taps = [taps for taps in itertools.product(*(range(axis.line.taps) for axis in axes)) if all(_places(axes, taps))]
        # What all results have begins: it is written where the others are added.
        for tap in sorted(taps, key=lambda tap: -math.prod(len(places) for places in _places(axes, tap))):
            total = _add(found, total, tap)
        generic.results[0].replace_all_uses_with(total)
    generic.erase()


def _places(axes: Sequence[_Axis], taps: Sequence[int]) -> list[range]:
    return [axis.line.inside(tap) for axis, tap in zip(axes, taps, strict=True)]


def _add(found: _Found, total: ir.Value, taps: Sequence[int]) -> ir.Value:
    """``total`` with one tap's products added where they belong."""
    generic, axes, places = found.generic, found.axes, _places(found.axes, taps)
    lines = list(zip(axes, taps, places, strict=True))
    image = {
        axis.read: (axis.line.position(here[0], tap), (len(here) - 1) * axis.line.stride + 1) for axis, tap, here in lines
    }
    operands = [
        Part(image).of(found.image),
        Part({axis.weight: (tap, 1) for axis, tap, _ in lines}).of(generic.operands[1 - found.input]),
    ]
    if found.input == 1:
        operands.reverse()
    part = Part({axis.written: (here[0], len(here)) for axis, _, here in lines})
    sums = part.of(total)
    made = generic.clone().operation
    for position, value in enumerate([*operands, sums]):
        made.operands[position] = value
    made.results[0].set_type(sums.type)
    return part.put(made.results[0], total)
