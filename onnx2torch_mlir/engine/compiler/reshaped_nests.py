"""Pointwise nests whose result is reshaped: the inputs are reshaped instead, so that the nest meets its user."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, linalg, tensor

from onnx2torch_mlir.engine.compiler.dim_orders import reassociation
from onnx2torch_mlir.engine.compiler.loop_order import iterators, substitute
from onnx2torch_mlir.engine.compiler.walks import made_by, nested


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
    groups = [list(group) for group in reassociation(expansion)]
    maps = [ir.AffineMapAttr(attribute).value for attribute in ir.ArrayAttr(nest.attributes["indexing_maps"])]
    written = [expression.position for expression in maps[-1].results]
    if not groups or len(groups) != len(written):
        return None
    rank = ir.RankedTensorType(result.type).rank
    sizes = _sizes(expansion)
    loops = {loop: groups[axis] for axis, loop in enumerate(written)}
    if not all(_fits(value, map_, loops, sizes) for value, map_ in zip(list(nest.operands)[:-1], maps, strict=False)):
        return None
    with ir.InsertionPoint(expansion), nest.location:
        inputs = [_expanded(value, map_, loops, sizes) for value, map_ in zip(list(nest.operands)[:-1], maps, strict=False)]
        dynamic = [size for size in sizes if isinstance(size, ir.Value)]
        empty = ir.Operation.create("tensor.empty", [result.type], dynamic).results[0]
        dims = [ir.AffineExpr.get_dim(axis) for axis in range(rank)]
        new = [_map(map_, loops, dims) for map_ in maps[:-1]] + [ir.AffineMap.get_identity(rank)]
        parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
        made = linalg.GenericOp(
            [result.type],
            inputs,
            [empty],
            ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in new]),
            ir.ArrayAttr.get([parallel] * rank),
        )
        nest.regions[0].blocks[0].append_to(made.regions[0])
    result.replace_all_uses_with(made.results[0])
    expansion.erase()
    nest.erase()
    operation: ir.Operation = made.operation
    return operation


def _is_plain(nest: ir.Operation) -> bool:
    """Whether a nest is pointwise with one result, whose loops are axes of each operand, and its body asks for no place."""
    if nest.name != "linalg.generic" or any(iterators(nest)) or len(nest.results) != 1:
        return False
    running = list(nest.regions[0].blocks[0].arguments)[-1]
    if list(running.uses) or any(operation.name == "linalg.index" for operation in nested(nest)):
        return False
    *maps, written = (ir.AffineMapAttr(attribute).value for attribute in ir.ArrayAttr(nest.attributes["indexing_maps"]))
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
        if isinstance(expression, ir.AffineDimExpr)
    )


def _size(value: ir.Value, axis: int) -> int | ir.Value:
    """The size of a tensor along an axis."""
    type_ = ir.RankedTensorType(value.type)
    if not type_.is_dynamic_dim(axis):
        return int(type_.shape[axis])
    place = arith.ConstantOp(ir.IndexType.get(), axis).result
    size: ir.Value = tensor.DimOp(value, place).result
    return size


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
    """An input with each axis that a loop moves along as the axes of that loop's group."""
    type_ = ir.RankedTensorType(value.type)
    groups: list[list[int]] = []
    shape: list[int | ir.Value] = []
    for axis, expression in enumerate(map_.results):
        moved = isinstance(expression, ir.AffineDimExpr)
        here = [sizes[place] for place in loops[expression.position]] if moved else [_size(value, axis)]
        groups.append(list(range(len(shape), len(shape) + len(here))))
        shape += here
    if len(shape) == type_.rank:
        return value
    dynamic = ir.ShapedType.get_dynamic_size()
    static = [dynamic if isinstance(size, ir.Value) else size for size in shape]
    number = ir.IntegerType.get_signless(64)
    attributes = {
        "reassociation": ir.ArrayAttr.get([ir.ArrayAttr.get([ir.IntegerAttr.get(number, i) for i in g]) for g in groups]),
        "static_output_shape": ir.DenseI64ArrayAttr.get(static),
    }
    target = ir.RankedTensorType.get(static, type_.element_type)
    operands = [value, *(size for size in shape if isinstance(size, ir.Value))]
    return ir.Operation.create("tensor.expand_shape", [target], operands, attributes).results[0]
