"""Long sums and extremes of which there are a few go by parts: the results of each, then those of the parts.

Threads share loops over results (parallel_loops.py), of which an instance norm has one for each of 32 channels that lie side by
side: a vector or two, however many pixels there are. Sums of parts are results, too; and an addition waits for the one before
of its part alone. What the parts are does not depend on the number of threads, nor do the results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import reassociation_of
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, fill
from onnx2torch_mlir.engine.compiler.loop_order import accumulations, iterators, substitute
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, made_by, named
from onnx2torch_mlir.engine.compiler.window_sums import indexing_maps

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
    """A nest, the number that its results begin with, what combines two of them, and the loop that falls into so many parts of
    equal lengths."""

    nest: ir.Operation
    beginning: ir.Value
    combining: str
    loop: int
    parts: int


def _match(nest: ir.Operation) -> _Found | None:
    summed = iterators(nest)
    if not any(summed) or len(nest.results) != 1 or named(nest, "linalg.index"):
        return None
    combining = [operation.name for operation in accumulations(nest)]
    filled = made_by(nest.operands[len(nest.operands) - 1], "linalg.fill")
    if len(combining) != 1 or filled is None or not all(map(_is_static, nest.operands)):
        return None
    # Each part begins with what the whole does.
    if combining[0] not in _EXTREMES and (combining[0] not in _ADDITIONS or constant_of(filled.operands[0]) != 0):
        return None
    maps = indexing_maps(nest)
    *read, written = [[_loop(e) for e in map_.results] for map_ in maps]
    if None in written or any(_loop(e) is None and not _is_first(e) for map_ in maps for e in map_.results):
        return None
    reductions = {dim for dim, reduces in enumerate(summed) if reduces}
    # A product of two that move along the sum is a contraction.
    moving = [position for position, loops in enumerate(read) if reductions & set(loops)]
    if len(moving) != 1 or not reductions <= set(read[moving[0]]) or len(set(read[moving[0]])) != len(read[moving[0]]):
        return None
    loops, shape = read[moving[0]], list(ir.RankedTensorType(nest.operands[moving[0]].type).shape)
    results = math.prod(size for loop, size in zip(loops[:-1], shape[:-1], strict=True) if loop not in reductions)
    if math.prod(shape) < _LEAST or results >= _RESULTS:
        return None
    most = min(math.prod(shape) // _LEAST_OF_PART, _PARTS[-1])
    for loop, size in zip(loops, shape, strict=True):
        parts = next((count for count in range(most, _PARTS[0] - 1, -1) if size % count == 0), None)
        if loop in reductions and parts is not None:
            return _Found(nest, filled.operands[0], combining[0], loop, parts)
    return None


def _is_static(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and ir.RankedTensorType(value.type).has_static_shape


def _loop(expression: ir.AffineExpr) -> int | None:
    """The loop that an index is."""
    return expression.position if isinstance(expression, ir.AffineDimExpr) else None


def _is_first(expression: ir.AffineExpr) -> bool:
    return isinstance(expression, ir.AffineConstantExpr) and expression.value == 0


def _rewrite(found: _Found) -> None:
    """The loop over the parts comes before the others."""
    nest, parts = found.nest, found.parts
    *inputs, out = nest.operands
    *maps, written = indexing_maps(nest)
    result, summed = ir.RankedTensorType(nest.results[0].type), iterators(nest)
    with ir.InsertionPoint(nest), nest.location:
        moved = [ir.AffineExpr.get_dim(dim + 1) for dim in range(len(summed))]
        first = ir.AffineExpr.get_dim(0)
        sources, places = [], []
        for value, map_ in zip(inputs, maps, strict=True):
            axis = next((axis for axis, e in enumerate(map_.results) if _loop(e) == found.loop), None)
            results = [substitute(e, moved) for e in map_.results]
            sources.append(value if axis is None else _in_parts(value, axis, parts))
            places.append(results if axis is None else [*results[:axis], first, *results[axis:]])
        shape, element = list(result.shape), result.element_type
        of_parts = ir.RankedTensorType.get([parts, *shape], element)
        made = GenericOp(
            [of_parts],
            sources,
            [fill(found.beginning, ir.Operation.create("tensor.empty", [of_parts]).results[0])],
            _maps(len(summed) + 1, [*places, [first, *(substitute(e, moved) for e in written.results)]]),
            _kinds([False, *summed]),
        )
        nest.regions[0].blocks[0].append_to(made.regions[0])
        axes = [ir.AffineExpr.get_dim(axis) for axis in range(len(shape) + 1)]
        whole = GenericOp(
            [result],
            [made.results[0]],
            [out],
            _maps(len(axes), [[axes[-1], *axes[:-1]], axes[:-1]]),
            _kinds([*[False] * len(shape), True]),
        )
        with ir.InsertionPoint(whole.regions[0].blocks.append(element, element)):
            one, running = whole.regions[0].blocks[0].arguments
            YieldOp([ir.Operation.create(found.combining, [element], [running, one]).results[0]])
    nest.results[0].replace_all_uses_with(whole.results[0])
    nest.erase()


def _in_parts(value: ir.Value, axis: int, parts: int) -> ir.Value:
    """The value, with so many parts of an axis as an axis before it."""
    type_ = ir.RankedTensorType(value.type)
    shape = list(type_.shape)
    sizes = [*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]]
    groups = [[place + (place > axis)] if place != axis else [axis, axis + 1] for place in range(type_.rank)]
    attributes = {"reassociation": reassociation_of(groups), "static_output_shape": ir.DenseI64ArrayAttr.get(sizes)}
    target = ir.RankedTensorType.get(sizes, type_.element_type)
    return ir.Operation.create("tensor.expand_shape", [target], [value], attributes).results[0]


def _maps(dims: int, places: list[list[ir.AffineExpr]]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get(dims, 0, results)) for results in places])


def _kinds(summed: list[bool]) -> ir.ArrayAttr:
    kinds = ["reduction" if reduces else "parallel" for reduces in summed]
    return ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds])
