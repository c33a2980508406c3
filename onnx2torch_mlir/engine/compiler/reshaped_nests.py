"""Nests whose result is reshaped: the inputs are reshaped instead, so that the nest meets its user.

Pointwise nests, and contractions with batches of which batches or rows are expanded (batch and heads, which many exporters
multiply as one dim; the steps of heads that share their keys).
"""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import loops_of, reassociation
from onnx2torch_mlir.engine.compiler.extents import size_from, size_of
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, fill, iterator_types, map_attributes
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps, iterators, substitute
from onnx2torch_mlir.engine.compiler.reshapes import expanded
from onnx2torch_mlir.engine.compiler.tensor_parts import dim_of, empty_of, type_of
from onnx2torch_mlir.engine.compiler.walks import functions, made_by, named
from onnx2torch_mlir.engine.compiler.window_sums import is_sum_along_axes


def expand_inputs(expansion: ir.Operation) -> ir.Operation | None:
    """Let the nest before a ``tensor.expand_shape`` make the expanded result, if nobody else reads it and only nests follow.

    The new nest, or None. Every loop of the nest becomes the loops of its group of axes; inputs that it moves along are
    expanded, which costs nothing.
    """
    source, result = expansion.operands[0], expansion.results[0]
    nest = made_by(source)
    if nest is None or not _is_plain(nest) or len(list(source.uses)) != 1:
        return None
    if nest.block != expansion.block or any(use.owner.operation.name != "linalg.generic" for use in result.uses):
        return None
    maps = indexing_maps(nest)
    groups = [list(group) for group in reassociation(expansion)]
    written = [expression.position for expression in maps[-1].results]
    if not groups or len(groups) != len(written):
        return None
    return _rebuilt(nest, expansion, dict(zip(written, groups, strict=True)))


def expand_batches(module: ir.Module) -> None:
    """Let contractions in @main whose batches or rows are expanded afterwards have a loop for each of these dims."""
    (main,) = functions(module)
    for expansion in named(main, "tensor.expand_shape"):
        _expand_batches(expansion)


def _expand_batches(expansion: ir.Operation) -> None:
    source = expansion.operands[0]
    nest = made_by(source, "linalg.generic")
    if nest is None or len(list(source.uses)) != 1 or nest.block != expansion.block or not is_sum_along_axes(nest):
        return
    *maps, written = indexing_maps(nest)
    groups, sizes = [list(group) for group in reassociation(expansion)], _sizes(expansion)
    wide = [axis for axis, group in enumerate(groups) if sum(sizes[place] != 1 for place in group) > 1]
    moved = {written.results[axis].position for axis in wide}
    inputs = list(nest.operands)[:-1]
    # A long line of columns (the pixels of an image) is worth more than lines of them.
    if not wide or wide == [len(groups) - 1]:
        return
    if not all(_is_collapsed(value, map_, moved) for value, map_ in zip(inputs, maps, strict=True)):
        return
    alike = frozenset.intersection(*(frozenset().union(*loops_of(map_)) for map_ in maps))
    if not alike & {expression.position for expression in written.results}:
        return
    loops = {written.results[axis].position: group for axis, group in enumerate(groups)}
    summed = [dim for dim, reduces in enumerate(iterators(nest)) if reduces]
    _rebuilt(nest, expansion, loops | {dim: [len(sizes) + number] for number, dim in enumerate(summed)})


def _rebuilt(nest: ir.Operation, expansion: ir.Operation, loops: dict[int, list[int]]) -> ir.Operation | None:
    """The nest with its ``loops`` as others, which makes what the expansion does and takes its place.

    The new loops are the axes of the expanded result, then those that are summed up, from a fill on. None where an input
    cannot be expanded.
    """
    sizes = _sizes(expansion)
    *maps, written = indexing_maps(nest)
    inputs = list(nest.operands)[:-1]
    if not all(_fits(value, map_, loops, sizes) for value, map_ in zip(inputs, maps, strict=True)):
        return None
    result, rank = expansion.results[0], len(sizes)
    reductions = [False] * rank + [True] * (sum(map(len, loops.values())) - rank)
    with ir.InsertionPoint(expansion), nest.location:
        sources = [_expanded(value, map_, loops, sizes) for value, map_ in zip(inputs, maps, strict=True)]
        out = empty_of(result.type, sizes)
        if len(reductions) > rank:
            out = fill(nest.operands[len(inputs)].owner.operation.operands[0], out)
        dims = [ir.AffineExpr.get_dim(axis) for axis in range(len(reductions))]
        made = GenericOp(
            [result.type],
            sources,
            [out],
            map_attributes(_map(map_, loops, dims) for map_ in (*maps, written)),
            iterator_types(reductions),
        )
        nest.regions[0].blocks[0].append_to(made.regions[0])
    result.replace_all_uses_with(made.results[0])
    expansion.erase()
    nest.erase()
    operation: ir.Operation = made.operation
    return operation


def _is_collapsed(value: ir.Value, map_: ir.AffineMap, loops: set[int]) -> bool:
    """Whether an input moves along ``loops`` only by axes that were several before."""
    axes = [axis for axis, e in enumerate(map_.results) if isinstance(e, ir.AffineDimExpr) and e.position in loops]
    collapse = made_by(value, "tensor.collapse_shape")
    return not axes or (collapse is not None and all(len(reassociation(collapse)[axis]) > 1 for axis in axes))


def _is_plain(nest: ir.Operation) -> bool:
    """Whether a nest is pointwise with one result, whose loops are axes of each operand, and its body asks for no place."""
    if nest.name != "linalg.generic" or any(iterators(nest)) or len(nest.results) != 1:
        return False
    running = list(nest.regions[0].blocks[0].arguments)[-1]
    if list(running.uses) or named(nest, "linalg.index"):
        return False
    *maps, written = indexing_maps(nest)
    kinds = ir.AffineDimExpr | ir.AffineConstantExpr
    if any(not isinstance(expression, kinds) for map_ in maps for expression in map_.results):
        return False
    positions = [e.position if isinstance(e, ir.AffineDimExpr) else -1 for e in written.results]
    return sorted(positions) == list(range(written.n_dims)) and all(
        isinstance(value.type, ir.RankedTensorType) for value in nest.operands
    )


def _sizes(expansion: ir.Operation) -> list[int | ir.Value]:
    """The size of each axis of the result."""
    given = iter(list(expansion.operands)[1:])
    dynamic = ir.ShapedType.get_dynamic_size()
    static = ir.DenseI64ArrayAttr(expansion.attributes["static_output_shape"])
    return [next(given) if size == dynamic else size for size in static]


def _fits(value: ir.Value, map_: ir.AffineMap, loops: dict[int, list[int]], sizes: list[int | ir.Value]) -> bool:
    """Whether the type of an input says of each size that is expanded what the result's type does: that it is known, or not."""
    type_ = ir.RankedTensorType(value.type)
    return all(
        type_.is_dynamic_dim(axis) == any(isinstance(sizes[place], ir.Value) for place in loops[expression.position])
        for axis, expression in enumerate(map_.results)
        if isinstance(expression, ir.AffineDimExpr) and loops[expression.position][0] < len(sizes)
    )


def _map(map_: ir.AffineMap, loops: dict[int, list[int]], dims: list[ir.AffineExpr]) -> ir.AffineMap:
    """Where an expanded input is read."""
    results: list[ir.AffineExpr] = []
    for expression in map_.results:
        if isinstance(expression, ir.AffineDimExpr):
            results += [dims[axis] for axis in loops[expression.position]]
        else:
            results.append(substitute(expression, []))
    return ir.AffineMap.get(len(dims), 0, results)


def _expanded(value: ir.Value, map_: ir.AffineMap, loops: dict[int, list[int]], sizes: list[int | ir.Value]) -> ir.Value:
    """An input with each axis that a loop moves along as the axes of that loop's group; loops beyond ``sizes`` stay one."""
    type_ = ir.RankedTensorType(value.type)
    groups: list[list[int]] = []
    shape: list[int | ir.Value] = []
    for axis, expression in enumerate(map_.results):
        moved = isinstance(expression, ir.AffineDimExpr) and loops[expression.position][0] < len(sizes)
        here = [sizes[place] for place in loops[expression.position]] if moved else [dim_of(value, axis)]
        groups.append(list(range(len(shape), len(shape) + len(here))))
        shape += here
    if len(shape) == type_.rank:
        return value
    collapse = made_by(value, "tensor.collapse_shape")
    target = type_of(shape, type_.element_type)
    if collapse is not None and reassociation(collapse) == groups and collapse.operands[0].type == target:
        before = collapse.operands[0]
        open_ = [place for place, size in enumerate(shape) if isinstance(size, ir.Value)]
        other = [place for place in open_ if size_of(before, place) != size_from(shape[place])]
        # The same dims in the same groups, of each of which all but one are known to be equal: then it is what was collapsed.
        if all(sum(place in other for place in group) < 2 for group in groups):
            return before
    return expanded(value, groups, shape)
