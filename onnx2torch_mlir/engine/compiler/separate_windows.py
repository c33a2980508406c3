"""Windows of two dims, of which extremes or sums are taken, go by one dim after the other: rows first, then columns.

A window of 3 by 3 takes 3 + 3 steps for 9, and whole rows are combined with each other as vectors, whatever the stride. That is
so where the columns lie side by side in memory; channels that do so are vectors as they are (windows.py). A step reads all its
rows, or columns, at once, so that its result is written once; what is padded around is left out, rows by having rows of
results of their own at the border, and columns by being filled in between the steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, fill, iterator_types, map_attributes
from onnx2torch_mlir.engine.compiler.loop_order import coefficient, indexing_maps, iterators, origin
from onnx2torch_mlir.engine.compiler.tensor_parts import Part
from onnx2torch_mlir.engine.compiler.walks import constant_of, copied, functions, made_by, named
from onnx2torch_mlir.engine.compiler.window_lines import WindowLine, without_padding
from onnx2torch_mlir.engine.compiler.window_sums import input_count

_BEGINNINGS = {"arith.maximumf": -math.inf, "arith.minimumf": math.inf, "arith.addf": 0.0}
"""What a running value has to begin with, so that steps may begin with their first term instead."""
_MOST_TAPS = 16
"""Of a window along a dim: each is an operand."""
_MOST_BORDERS = 16
"""Kinds of rows of results, by which rows of their windows there are."""


@dataclass(frozen=True)
class _Found:
    """A nest over windows, what its windows reach into (without its padding), and what padding and beginnings are."""

    generic: ir.Operation
    combining: str
    image: ir.Value
    beginning: ir.Value
    rows: WindowLine
    columns: WindowLine


def separate(module: ir.Module) -> None:
    """Rewrite the nests of @main (linalg on tensors) over such windows."""
    (main,) = functions(module)
    for generic in named(main, "linalg.generic"):
        found = _match(generic)
        if found is not None:
            _rewrite(found)


def _match(generic: ir.Operation) -> _Found | None:
    summed = iterators(generic)
    if summed.count(True) != 2 or input_count(generic) != 2 or len(generic.operands) != 3:
        return None
    combining = _combining(generic)
    if combining is None:
        return None
    fill = made_by(generic.operands[2], "linalg.fill")
    if fill is None or constant_of(fill.operands[0]) != _BEGINNINGS[combining]:
        return None
    rank = len(summed) - 2
    read, _, written = indexing_maps(generic)
    plain = ir.AffineMap.get(len(summed), 0, [ir.AffineDimExpr.get(dim) for dim in range(rank)])
    if written != plain or len(read.results) != rank or any(summed[:rank]):
        return None
    image, low, _ = without_padding(generic.operands[0], _BEGINNINGS[combining], (rank - 2, rank - 1))
    type_, windows = ir.RankedTensorType(image.type), ir.RankedTensorType(generic.operands[1].type)
    result = ir.RankedTensorType(generic.results[0].type)
    if windows.rank != 2 or list(type_.shape)[: rank - 2] != list(result.shape)[: rank - 2]:
        return None
    lines = []
    for axis in range(rank):
        factors = {dim: coefficient(read.results[axis], dim) for dim in range(len(summed))}
        if None in factors.values() or origin(read.results[axis]):
            return None
        moving = {dim: factor for dim, factor in factors.items() if factor}
        if axis < rank - 2:
            if moving != {axis: 1}:
                return None
            continue
        tap = axis + 2
        if set(moving) != {axis, tap} or any(t.is_dynamic_dim(axis) for t in (type_, result)):
            return None
        taps = windows.get_dim_size(tap - rank)
        stride, dilation = moving[axis] or 0, moving[tap] or 0
        lines.append(WindowLine(type_.get_dim_size(axis), result.get_dim_size(axis), taps, stride, dilation, low[axis]))
    rows, columns = lines
    if rows.taps * columns.taps <= rows.taps + columns.taps or max(rows.taps, columns.taps) > _MOST_TAPS:
        return None
    if min(rows.count, columns.count, rows.size, columns.size) < 1 or len(rows.borders()) > _MOST_BORDERS:
        return None
    return _Found(generic, combining, image, fill.operands[0], rows, columns)


def _combining(generic: ir.Operation) -> str | None:
    """The operation that combines the elements of a window with a running value, if that is all that is done."""
    block = generic.regions[0].blocks[0]
    operations = [view.operation for view in block.operations]
    if len(operations) != 2 or operations[0].name not in _BEGINNINGS:
        return None
    element, _, running = block.arguments
    both = list(operations[0].operands)
    whole = {*both} == {element, running} and list(operations[1].operands) == list(operations[0].results)
    return operations[0].name if whole else None


def _rewrite(found: _Found) -> None:
    generic, rows, columns = found.generic, found.rows, found.columns
    rank = ir.RankedTensorType(found.image.type).rank
    leading = list(range(rank - 2))
    with ir.InsertionPoint(generic), generic.location:
        element = ir.RankedTensorType(found.image.type).element_type
        shape = ir.RankedTensorType(found.image.type).shape[: rank - 2]
        index = [arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), dim)).result for dim in leading]
        open_ = ir.ShapedType.get_dynamic_size()
        given = [tensor.DimOp(found.image, index[dim]).result for dim in leading if shape[dim] == open_]
        reach = max(columns.position(columns.count - 1, columns.taps - 1) + 1, columns.size)
        width = columns.low + reach
        places = [ir.AffineDimExpr.get(dim) for dim in range(rank)]
        between = _empty([*shape, rows.count, width], element, given)
        for start, end in ((0, columns.low), (columns.low + columns.size, width)):
            if start < end:
                spot = _part(rank, (0, rows.count), (start, end - start))
                between = spot.put(fill(found.beginning, spot.of(between)), between)
        by_rows = [*places[:-2], _times(places[-2], rows.stride), places[-1]]
        for start, end, taps in rows.borders():
            spot = _part(rank, (start, end - start), (columns.low, columns.size))
            height = (end - start - 1) * rows.stride + 1
            spots = [_part(rank, (rows.position(start, tap), height), (0, columns.size)) for tap in taps]
            here = spot.of(between)
            sources = [each.of(found.image) for each in spots]
            made = _combined(found, sources, by_rows, here) if taps else fill(found.beginning, here)
            between = spot.put(made, between)
        out = _empty(list(ir.RankedTensorType(generic.results[0].type).shape), element, given)
        if columns.stride == 1 and found.combining != "arith.addf":
            # Comparisons of all at once, in rows shorter than a vector, LLVM makes of elements gathered from many rows.
            made = _reduced(found, between, out)
        else:
            by_columns = [*places[:-1], _times(places[-1], columns.stride)]
            length = (columns.count - 1) * columns.stride + 1
            spots = [_part(rank, (0, rows.count), (tap * columns.dilation, length)) for tap in range(columns.taps)]
            made = _combined(found, [each.of(between) for each in spots], by_columns, out)
        generic.results[0].replace_all_uses_with(made)
    generic.erase()


def _reduced(found: _Found, source: ir.Value, out: ir.Value) -> ir.Value:
    """Neighbouring columns of ``source`` combined, as a nest over windows of one dim: its columns are vectors (windows.py)."""
    rank = ir.RankedTensorType(out.type).rank
    places = [ir.AffineDimExpr.get(dim) for dim in range(rank + 1)]
    tap = ir.AffineExpr.get_mul(places[rank], ir.AffineConstantExpr.get(found.columns.dilation))
    read = [*places[: rank - 1], ir.AffineExpr.get_add(places[rank - 1], tap)]
    element = ir.RankedTensorType(out.type).element_type
    made = GenericOp(
        [out.type],
        [source, _empty([found.columns.taps], element, [])],
        [fill(found.beginning, out)],
        map_attributes(ir.AffineMap.get(rank + 1, 0, results) for results in (read, places[rank:], places[:rank])),
        iterator_types([*[False] * rank, True]),
    )
    block = made.regions[0].blocks.append(*[element] * 3)
    with ir.InsertionPoint(block):
        mapping = dict(zip(found.generic.regions[0].blocks[0].arguments, block.arguments, strict=True))
        combining, end = found.generic.regions[0].blocks[0].operations
        copied(combining.operation, mapping)
        copied(end.operation, mapping)
    result: ir.Value = made.results[0]
    return result


def _times(place: ir.AffineExpr, stride: int) -> ir.AffineExpr:
    return ir.AffineExpr.get_mul(place, ir.AffineConstantExpr.get(stride))


def _combined(found: _Found, sources: list[ir.Value], read: list[ir.AffineExpr], out: ir.Value) -> ir.Value:
    """The elements of ``sources`` at the same place combined."""
    rank = ir.RankedTensorType(out.type).rank
    maps = [ir.AffineMap.get(rank, 0, read)] * len(sources) + [ir.AffineMap.get_identity(rank)]
    made = GenericOp(
        [out.type],
        sources,
        [out],
        map_attributes(maps),
        iterator_types([False] * rank),
    )
    element = ir.RankedTensorType(out.type).element_type
    block = made.regions[0].blocks.append(*[element] * len(maps))
    flags = ir.Attribute.parse("#arith.fastmath<nsz>" if found.combining != "arith.addf" else "#arith.fastmath<reassoc>")
    with ir.InsertionPoint(block):
        running: ir.Value = block.arguments[0]
        for term in list(block.arguments)[1 : len(sources)]:
            attributes = {"fastmath": flags}
            running = ir.Operation.create(found.combining, [element], [term, running], attributes).results[0]
        YieldOp([running])
    result: ir.Value = made.results[0]
    return result


def _part(rank: int, rows: tuple[int, int], columns: tuple[int, int]) -> Part:
    """So many rows and columns of all images, from the first ones on."""
    return Part({rank - 2: rows, rank - 1: columns})


def _empty(shape: list[int], element: ir.Type, given: list[ir.Value]) -> ir.Value:
    made: ir.Value = ir.Operation.create("tensor.empty", [ir.RankedTensorType.get(shape, element)], given).results[0]
    return made
