"""Sums: those along axes, those of products, and those among these whose input is read through windows: convolutions."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import Loops, Order, loops_of
from onnx2torch_mlir.engine.compiler.loop_order import accumulations, coefficient, indexing_maps, iterators
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import made_by, named

_PRODUCTS = ("arith.mulf", "arith.muli", "complex.mul")
_SUMS = ("arith.addf", "arith.addi", "complex.add")
_LONG = 128
"""Places of a line from which on its columns are nearly all whole vectors."""
_MOST_PAIRS, _STRIDED_PAIRS = 1024, 256
"""Of a channel and a filter that reads it, for one tap, where windows walk along lines: with more, what is read is better
packed for tiles of more filters. With a stride each vector that is read is picked from two."""
_FEW_CHANNELS, _ENOUGH = 8, 32
"""The second: channels, if there are as many filters, from which on contractions are at their best (winograd.py)."""
_FEW_TAPS, _MANY_TAPS = 8, 64
"""Of a window along a line, each of which reads it again; the second for so few channels that they fill half a vector."""
MOST_APART = 2
"""Of neighbouring results: what they read then is picked from two vectors."""
_FULL, _AS_FULL = 0.6, 0.85
"""What part of the vectors along a line is to be used at least, and how much of that part which filters would use: not for few
channels, whose sums are too short for contractions."""
_STRIDED = 6
"""To pack a number of a strided line takes as long as to turn so many results."""


class Convolution(NamedTuple):
    """How a convolution lies in memory with its channels last: which operand is the input, its order, and the result's."""

    input: int
    input_order: Order
    result_order: Order


def is_sum_of_products(generic: ir.Operation) -> bool:
    """Whether products of elements of two operands are added up."""
    if generic.name != "linalg.generic" or not any(iterators(generic)) or input_count(generic) != 2:
        return False
    sums = accumulations(generic)
    if len(sums) != 1 or sums[0].name not in _SUMS:
        return False
    block = generic.regions[0].blocks[0]
    if not all(list(argument.uses) for argument in list(block.arguments)[:2]):
        return False
    return any(operation.operation.name in _PRODUCTS for operation in block.operations)


def is_sum_along_axes(nest: ir.Operation) -> bool:
    """Whether a nest adds up, or takes the extremes of, what it makes of inputs whose axes are loops, from a number on."""
    summed = iterators(nest)
    if not any(summed) or len(nest.results) != 1 or named(nest, "linalg.index"):
        return False
    if made_by(nest.operands[len(nest.operands) - 1], "linalg.fill") is None:
        return False
    *maps, last = indexing_maps(nest)
    kinds = ir.AffineDimExpr | ir.AffineConstantExpr
    plain = all(isinstance(expression, kinds) for map_ in maps for expression in map_.results)
    written = [e.position if isinstance(e, ir.AffineDimExpr) else -1 for e in last.results]
    return plain and sorted(written) == [dim for dim, reduces in enumerate(summed) if not reduces]


def convolution(generic: ir.Operation) -> Convolution | None:
    """The convolution that a sum of products is, channels last; None if no operand is read through windows.

    A dim that is read by an expression of several loops is spatial. The others are named by who else has their loop: the
    weight and the result (groups), the weight alone (channels), the result alone (batch).
    """
    loops = [loops_of(map_) for map_ in indexing_maps(generic)]
    windowed = [any(len(here) > 1 for here in operand) for operand in loops[:2]]
    if sum(windowed) != 1:
        return None
    position = windowed.index(True)
    read, weight, written = loops[position], loops[1 - position], loops[2]
    if any(len(here) > 1 for operand in (weight, written) for here in operand):
        return None
    in_read, in_weight, in_written = (frozenset().union(*operand) for operand in (read, weight, written))
    places = {loop for here in read if len(here) > 1 for loop in here - in_weight}

    def role(here: frozenset[int]) -> int:
        if len(here) > 1 or here & places:
            return 1
        if not here & in_weight:
            return 0
        return 2 if here <= in_read & in_written else 3

    def order(operand: Loops) -> Order:
        roles = [role(here) for here in operand]
        return tuple(sorted(range(len(roles)), key=lambda dim: (roles[dim], dim)))

    return Convolution(position, order(read), order(written))


def has_single_pixels(generic: ir.Operation) -> bool:
    """Whether the windows of a `convolution` are of one pixel: a product of matrices, or one for each group of channels.

    Of floats: bytes are turned in no time, and only weights are fours of them on the right side (integer_tile.py).
    """
    wanted = convolution(generic)
    of_integers = isinstance(ir.RankedTensorType(generic.operands[2].type).element_type, ir.IntegerType)
    if wanted is None or of_integers:
        return False
    maps = indexing_maps(generic)
    weight = ir.RankedTensorType(generic.operands[1 - wanted.input].type)
    windows = frozenset().union(*_windows(maps[wanted.input]))
    inside = [axis for axis, here in enumerate(loops_of(maps[1 - wanted.input])) if here & windows]
    return not any(weight.is_dynamic_dim(axis) or weight.get_dim_size(axis) != 1 for axis in inside)


def has_long_lines(generic: ir.Operation) -> bool:
    """Whether the sums of a `convolution` are so short, and its lines so long, that it costs less to pack its input along these
    than to turn its result, channels last, back; of float32, and where no channels are grouped."""
    wanted = convolution(generic)
    type_ = ir.RankedTensorType(generic.operands[2].type)
    if wanted is None or _has_groups(generic, wanted) or not isinstance(type_.element_type, ir.F32Type):
        return False
    maps = indexing_maps(generic)
    along, read = list(maps[2].results)[-1], list(maps[wanted.input].results)[-1]
    shape = ir.RankedTensorType(generic.operands[1 - wanted.input].type).shape
    if not isinstance(along, ir.AffineDimExpr) or any(size < 0 for size in shape):
        return False
    length, step = type_.shape[-1], coefficient(read, along.position)
    # One that nobody knows is likely to be long where there is one axis, of sound say.
    is_long = length >= _LONG or (length < 0 and len(_windows(maps[wanted.input])) == 1)
    outside = frozenset().union(*loops_of(maps[2]))
    summed = [size for size, here in zip(shape, loops_of(maps[1 - wanted.input]), strict=True) if not here & outside]
    filters = math.prod(shape) // max(math.prod(summed), 1)
    return bool(step) and is_long and math.prod(summed) * (1 if step == 1 else _STRIDED) <= filters


def most_pairs(step: int | None) -> int:
    """Of how many channels and filters that read them a window along lines pays, whose places are so far apart."""
    return _MOST_PAIRS if step == 1 else _STRIDED_PAIRS


def is_along_lines(generic: ir.Operation) -> bool:
    """Whether a `convolution` of float32 has few channels and filters, and its windows reach several lines of an image, which
    fill vectors: it is done as its input lies, a vector along a line (windows.py)."""
    wanted = convolution(generic)
    type_ = ir.RankedTensorType(generic.operands[2].type)
    if wanted is None or not isinstance(type_.element_type, ir.F32Type):
        return False
    maps = indexing_maps(generic)
    along, read = list(maps[2].results)[-1], list(maps[wanted.input].results)
    weight = ir.RankedTensorType(generic.operands[1 - wanted.input].type)
    length, lanes = type_.shape[-1], of_host().lanes
    step = coefficient(read[-1], along.position) if isinstance(along, ir.AffineDimExpr) else None
    if step not in range(1, MOST_APART + 1):
        return False
    filled = length / (lanes * -(-length // lanes)) if length > 0 else 0
    if filled < _FULL:
        return False
    windows, outside = _windows(maps[wanted.input]), frozenset().union(*loops_of(maps[2]))
    inputs = frozenset().union(*loops_of(maps[wanted.input]))
    of_weight = list(zip(weight.shape, loops_of(maps[1 - wanted.input]), strict=True))
    channels = math.prod(size for size, here in of_weight if not here & (outside | frozenset().union(*windows)))
    filters = math.prod(size for size, here in of_weight if here & outside - inputs)
    lines = [size for size, here in of_weight if len(windows) > 1 and here & windows[-2]]
    shared = max(lines, default=1) > 1 and type_.shape[-2] != 1
    few = all(size > 0 for size in weight.shape) and channels * filters <= most_pairs(step)
    as_full = channels <= _FEW_CHANNELS or filled >= _AS_FULL * filters / (lanes * -(-filters // lanes))
    pays = min(channels, filters) < _ENOUGH and as_full
    return wanted.input == 0 and shared and few and pays


def has_few_taps(generic: ir.Operation) -> bool:
    """Whether a depthwise `convolution` of float32 along a single axis has so few taps, or channels, that loops over its lines,
    each tap for a whole line, take no longer than to turn it, channels last, and back."""
    wanted = convolution(generic)
    type_ = ir.RankedTensorType(generic.operands[2].type)
    if wanted is None or wanted.input != 0 or not isinstance(type_.element_type, ir.F32Type):
        return False
    maps = indexing_maps(generic)
    windows, outside = _windows(maps[0]), frozenset().union(*loops_of(maps[2]))
    both = frozenset().union(*loops_of(maps[0])) & outside
    weight = list(zip(ir.RankedTensorType(generic.operands[1].type).shape, loops_of(maps[1]), strict=True))
    along = frozenset().union(*windows)
    taps = [size for size, here in weight if here & along]
    channels = math.prod(size for size, here in weight if here & both - along)
    others = [size for size, here in weight if not here & (both | along)]
    most = _FEW_TAPS if 2 * channels > of_host().lanes else _MANY_TAPS
    return len(windows) == 1 and math.prod(others) == 1 and all(0 < size <= most for size in taps)


def _has_groups(generic: ir.Operation, wanted: Convolution) -> bool:
    """Whether some loop goes along the input, the weight and the result."""
    read, written, weight = (
        frozenset().union(*loops_of(indexing_maps(generic)[operand])) for operand in (wanted.input, 2, 1 - wanted.input)
    )
    return bool(read & written & weight)


def _windows(map_: ir.AffineMap) -> Loops:
    """The loops of each axis that is read through windows."""
    return [here for here in loops_of(map_) if len(here) > 1]


def input_count(generic: ir.Operation) -> int:
    """How many operands a ``linalg.generic`` only reads."""
    return int(next(iter(generic.attributes["operandSegmentSizes"])))
