"""Operations rewritten to read and write values where these lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.dim_orders import (
    Order,
    arranged,
    collapsed,
    expanded,
    loops_of,
    order_along,
    plain,
    ranks_of_loops,
    reassociation,
    reassociation_of,
)
from onnx2torch_mlir.engine.compiler.linalg_ops import map_attributes
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps
from onnx2torch_mlir.engine.compiler.order_propagation import (
    RESHAPES,
    SLICES,
    kept_dims,
    order_of_slice,
    order_of_whole,
)
from onnx2torch_mlir.engine.compiler.placement import Placement
from onnx2torch_mlir.engine.compiler.walks import constant_of
from onnx2torch_mlir.engine.compiler.window_sums import Convolution, convolution, input_count, is_sum_of_products


class Structure(NamedTuple):
    """What an operation is, found while its types are still as its dims are named."""

    is_product: bool = False
    convolution: Convolution | None = None
    kept: list[int] | None = None


def structure_of(operation: ir.Operation) -> Structure:
    """What ``operation`` is, for `reorder`."""
    if is_sum_of_products(operation):
        return Structure(True, convolution(operation))
    return Structure(kept=kept_dims(operation) if operation.name in SLICES else None)


def reorder(operation: ir.Operation, placement: Placement, structure: Structure) -> None:
    """Rewrite one operation; the types of its results are those of their memory already.

    What is not known here takes its operands as their dims are named.
    """
    if operation.name == "linalg.generic":
        _generic(operation, placement, structure)
    elif operation.name == "tensor.pad":
        _pad(operation, placement)
    elif operation.name == "tensor.cast":
        operation.operands[0] = placement.lying(operation.operands[0], placement.order(operation.results[0]))
    elif operation.name in SLICES:
        _slice(operation, placement, structure.kept)
    elif operation.name in RESHAPES:
        _reshape(operation, placement)
    elif operation.name == "tensor.extract":
        _extract(operation, placement)
    elif operation.name == "tensor.dim" and _dim(operation, placement):
        pass
    else:
        for position, value in enumerate(operation.operands):
            if placement.is_reordered(value):
                operation.operands[position] = placement.lying(value, plain(ir.RankedTensorType(value.type).rank))


def _generic(generic: ir.Operation, placement: Placement, structure: Structure) -> None:
    inputs = input_count(generic)
    operands = list(generic.operands)
    maps = indexing_maps(generic)
    orders: list[Order] = []
    for position, value in enumerate(operands):
        if not isinstance(value.type, ir.RankedTensorType):
            orders.append(plain(len(maps[position].results)))
            continue
        if position >= inputs:
            order = placement.order(generic.results[position - inputs])
        elif structure.is_product:
            found = structure.convolution
            order = plain(len(maps[position].results))
            if found is not None and found.input == position:
                order = found.input_order
        else:
            order = _worth_moving(generic, position, placement)
        if position < inputs:
            generic.operands[position], order = placement.close(value, order)
        else:
            generic.operands[position] = placement.lying(value, order)
        orders.append(order)
    arrangements = [
        ir.AffineMap.get(map_.n_dims, 0, arranged(list(map_.results), order)) for map_, order in zip(maps, orders, strict=True)
    ]
    generic.attributes["indexing_maps"] = map_attributes(arrangements)


def _worth_moving(generic: ir.Operation, position: int, placement: Placement) -> Order:
    """The order in which an operand is read: as it lies, unless it has as many elements as the result and lies in another."""
    value, maps = generic.operands[position], indexing_maps(generic)
    here = placement.order(value)
    result, written = generic.results[0], maps[input_count(generic)]
    if not placement.is_reordered(result):
        return here
    ranks = ranks_of_loops(loops_of(written), placement.order(result))
    loops = loops_of(maps[position])
    along = order_along(loops, ranks)
    full = set(ranks) <= set().union(*loops)
    return here if along is None or not full else along


def _pad(pad: ir.Operation, placement: Placement) -> None:
    order = placement.order(pad.results[0])
    pad.operands[0] = placement.lying(pad.operands[0], order)
    _permute(pad, order, 1, ("static_low", "static_high"))


def _slice(operation: ir.Operation, placement: Placement, kept: list[int] | None) -> None:
    inserts = operation.name == "tensor.insert_slice"
    lists = ("static_offsets", "static_sizes", "static_strides")
    if inserts:
        whole = placement.order(operation.results[0])
        small = plain(ir.RankedTensorType(operation.operands[0].type).rank) if kept is None else order_of_slice(whole, kept)
        operation.operands[0] = placement.lying(operation.operands[0], small)
        operation.operands[1] = placement.lying(operation.operands[1], whole)
        _permute(operation, whole, 2, lists)
        return
    result, source = operation.results[0], operation.operands[0]
    wanted, whole = placement.order(result), placement.order(source)
    if kept is None or order_of_slice(whole, kept) != wanted:
        rank = ir.RankedTensorType(source.type).rank
        whole = plain(rank) if kept is None else order_of_whole(wanted, kept, rank)
    operation.operands[0] = placement.lying(source, whole)
    _permute(operation, whole, 1, lists)


def _reshape(operation: ir.Operation, placement: Placement) -> None:
    """A reshape between orders in which the dims of each group are neighbours (see `channels_last`)."""
    groups = reassociation(operation)
    source, order = operation.operands[0], placement.order(operation.results[0])
    if not groups:
        operation.operands[0] = placement.lying(source, plain(ir.RankedTensorType(source.type).rank))
        return
    expands = operation.name == "tensor.expand_shape"
    coarse = collapsed(order, groups, placement.ones(operation.results[0])) if expands else order
    if coarse is None:
        raise ValueError("an expansion has a result in an order that it cannot give")
    operation.operands[0] = placement.lying(source, coarse if expands else expanded(coarse, groups))
    starts = iter(range(sum(len(group) for group in groups)))
    operation.attributes["reassociation"] = reassociation_of([[next(starts) for _ in groups[group]] for group in coarse])
    if expands:
        _permute(operation, order, 1, ("static_output_shape",))


def _extract(extract: ir.Operation, placement: Placement) -> None:
    source, *positions = extract.operands
    for place, position in enumerate(arranged(positions, placement.order(source))):
        extract.operands[1 + place] = position


def _dim(dim: ir.Operation, placement: Placement) -> bool:
    """Ask for the size where it is now; whether the dim is known."""
    source, index = dim.operands
    number = constant_of(index)
    if number is None:
        return False
    if placement.is_reordered(source):
        with ir.InsertionPoint(dim), dim.location:
            dim.operands[1] = arith.ConstantOp(index.type, placement.order(source).index(number)).result
    return True


def _permute(operation: ir.Operation, order: Order, first: int, names: Sequence[str]) -> None:
    """Put lists of sizes, of which the dynamic ones are operands from ``first`` on, in ``order``."""
    dynamic = ir.ShapedType.get_dynamic_size()
    for name in names:
        static = list(ir.DenseI64ArrayAttr(operation.attributes[name]))
        given = iter(list(operation.operands)[first : first + static.count(dynamic)])
        values = [next(given) if size == dynamic else None for size in static]
        operation.attributes[name] = ir.DenseI64ArrayAttr.get(arranged(static, order))
        for place, value in enumerate(value for value in arranged(values, order) if value is not None):
            operation.operands[first + place] = value
        first += static.count(dynamic)
