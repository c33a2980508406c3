"""Long sums and extremes of which there are a few go by parts: the results of each, then those of the parts.

Threads share loops over results (parallel_loops.py), of which an instance norm has one for each of 32 channels that lie side by
side: a vector or two, however many pixels there are. Sums of parts are results, too; and an addition waits for the one before
of its part alone. What the parts are does not depend on the number of threads, nor do the results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import loops_of
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, fill, iterator_types, map_attributes
from onnx2torch_mlir.engine.compiler.loop_order import accumulations, indexing_maps, iterators, substitute
from onnx2torch_mlir.engine.compiler.reshapes import expanded
from onnx2torch_mlir.engine.compiler.tensor_parts import Part
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, named
from onnx2torch_mlir.engine.compiler.window_sums import is_sum_along_axes

_LEAST = 1 << 18
"""Numbers that are read where parts pay: some tens of microseconds."""
_LEAST_OF_PART = 1 << 14
_PARTS = range(4, 65)
_RESULTS = 8
"""So many, besides those along the last axis of what is read, are enough for threads to share."""
_ADDITIONS = ("arith.addf", "arith.addi")
_EXTREMES = ("arith.maximumf", "arith.minimumf", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui")


def split(module: ir.Module) -> None:
    """Rewrite the nests of @main (linalg on tensors) that are such sums or extremes."""
    (main,) = functions(module)
    # All are found before any is changed, for an operation's hash changes with its operands.
    for found in [found for nest in named(main, "linalg.generic") if (found := _match(nest)) is not None]:
        _rewrite(found)


@dataclass(frozen=True)
class _Found:
    """A nest, what combines two of its results, the number that these begin with, the input that moves along what is added up,
    and into how many parts of equal lengths one of its axes falls, but for less than a part at the end."""

    nest: ir.Operation
    combining: str
    beginning: ir.Value
    input: int
    axis: int
    parts: int


def _match(nest: ir.Operation) -> _Found | None:
    if not is_sum_along_axes(nest) or not all(map(_is_static, nest.operands)):
        return None
    combining = [operation.name for operation in accumulations(nest)]
    if len(combining) != 1:
        return None
    beginning = nest.operands[len(nest.operands) - 1].owner.operation.operands[0]
    # Each part begins with what the whole does.
    if combining[0] not in _EXTREMES and (combining[0] not in _ADDITIONS or constant_of(beginning) != 0):
        return None
    reductions = {dim for dim, reduces in enumerate(iterators(nest)) if reduces}
    summed = [[bool(loops & reductions) for loops in loops_of(map_)] for map_ in indexing_maps(nest)]
    # A product of two that move along the sum is a contraction.
    moving = [position for position, axes in enumerate(summed) if any(axes)]
    if len(moving) != 1 or summed[moving[0]].count(True) != len(reductions):
        return None
    cut = _cut(list(ir.RankedTensorType(nest.operands[moving[0]].type).shape), summed[moving[0]])
    return None if cut is None else _Found(nest, combining[0], beginning, moving[0], *cut)


def _is_static(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and ir.RankedTensorType(value.type).has_static_shape


def _cut(shape: list[int], summed: list[bool]) -> tuple[int, int] | None:
    """Which axis of what is read falls into how many parts, where that pays: one that is added up, best without a rest."""
    results = math.prod(size for size, sums in zip(shape[:-1], summed[:-1], strict=True) if not sums)
    if math.prod(shape) < _LEAST or results >= _RESULTS:
        return None
    most = min(math.prod(shape) // _LEAST_OF_PART, _PARTS[-1])
    axes = [axis for axis, sums in enumerate(summed) if sums]
    for axis in axes:
        for parts in range(most, _PARTS[0] - 1, -1):
            if shape[axis] % parts == 0:
                return axis, parts
    longest = max(axes, key=lambda axis: shape[axis])
    # So that the rest is no longer than a part.
    parts = min(most, math.isqrt(shape[longest]))
    return (longest, parts) if parts >= _PARTS[0] else None


def _rewrite(found: _Found) -> None:
    """The loop over the parts comes before the others; then comes what is left of the axis."""
    nest, parts = found.nest, found.parts
    *inputs, out = nest.operands
    *maps, written = indexing_maps(nest)
    result, summed = ir.RankedTensorType(nest.results[0].type), iterators(nest)
    source = inputs[found.input]
    length = ir.RankedTensorType(source.type).shape[found.axis]
    rest = length % parts
    with ir.InsertionPoint(nest), nest.location:
        first, *moved = [ir.AffineExpr.get_dim(dim) for dim in range(len(summed) + 1)]
        places = [[substitute(e, moved) for e in map_.results] for map_ in maps]
        places[found.input].insert(found.axis, first)
        inputs[found.input] = _in_parts(Part({found.axis: (0, length - rest)}).of(source), found.axis, parts)
        of_parts = ir.RankedTensorType.get([parts, *result.shape], result.element_type)
        made = GenericOp(
            [of_parts],
            inputs,
            [fill(found.beginning, ir.Operation.create("tensor.empty", [of_parts]).results[0])],
            _maps(len(summed) + 1, [*places, [first, *(substitute(e, moved) for e in written.results)]]),
            iterator_types([False, *summed]),
        )
        total = _combined(found.combining, made.results[0], out)
        if rest:
            left = Part({found.axis: (length - rest, rest)}).of(source)
            last = nest.clone().operation
            last.operands[found.input], last.operands[len(inputs)] = left, total
            total = last.results[0]
    nest.regions[0].blocks[0].append_to(made.regions[0])
    nest.results[0].replace_all_uses_with(total)
    nest.erase()


def _in_parts(value: ir.Value, axis: int, parts: int) -> ir.Value:
    """The value, with so many parts of an axis as an axis before it."""
    shape = list(ir.RankedTensorType(value.type).shape)
    groups = [[place + (place > axis)] if place != axis else [axis, axis + 1] for place in range(len(shape))]
    return expanded(value, groups, [*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]])


def _combined(combining: str, parts: ir.Value, out: ir.Value) -> ir.Value:
    """The results of all parts, which lie along the first axis, combined; what they begin with is in ``out``."""
    type_ = ir.RankedTensorType(out.type)
    axes = [ir.AffineExpr.get_dim(axis) for axis in range(type_.rank + 1)]
    whole = GenericOp(
        [type_],
        [parts],
        [out],
        _maps(len(axes), [[axes[-1], *axes[:-1]], axes[:-1]]),
        iterator_types([*[False] * type_.rank, True]),
    )
    with ir.InsertionPoint(whole.regions[0].blocks.append(type_.element_type, type_.element_type)):
        one, running = whole.regions[0].blocks[0].arguments
        YieldOp([ir.Operation.create(combining, [type_.element_type], [running, one]).results[0]])
    result: ir.Value = whole.results[0]
    return result


def _maps(dims: int, places: list[list[ir.AffineExpr]]) -> ir.ArrayAttr:
    return map_attributes(ir.AffineMap.get(dims, 0, results) for results in places)
