"""Convolutions read and write their channels last, and what is between them lies so too.

The dims of a value keep their meaning; what changes is the order in which they lie in memory (`dim_orders`). An operation is
not rewritten for that: its loops stay, and its indexing maps read the operands where they lie now. A value is moved only where
two orders meet: at the edges of a network, or where dims are merged that are not neighbours in memory. What moved elements in
the model, and moves none now, disappears.
"""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import collapsed, expanded, ones_of, plain, reassociation
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps
from onnx2torch_mlir.engine.compiler.order_propagation import Orders, orders_around_convolutions
from onnx2torch_mlir.engine.compiler.placement import Placement, permuted_type
from onnx2torch_mlir.engine.compiler.reordering import reorder, structure_of
from onnx2torch_mlir.engine.compiler.walks import functions, nested


def carry(module: ir.Module) -> None:
    """Choose the order of every value of @main (linalg on tensors) and have the operations read and write it."""
    (main,) = functions(module)
    operations = nested(main)
    found = orders_around_convolutions(operations)
    if not found:
        return
    orders = _settled(operations, found)
    # Where there are few convolutions most operations meet none of these values.
    near = {use.owner.operation for value in orders for use in value.uses} | {value.owner.operation for value in orders}
    structures = ((operation, structure_of(operation)) for operation in operations)
    # Before the types change, for an operation's hash changes with them.
    touched = [(one, structure) for one, structure in structures if one in near or structure.convolution is not None]
    for value, order in orders.items():
        value.set_type(permuted_type(value.type, order))
    placement = Placement(orders)
    for operation, structure in touched:
        reorder(operation, placement, structure)
    for operation in operations:
        if _moves_nothing(operation):
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()


def _settled(operations: list[ir.Operation], orders: Orders) -> Orders:
    """The orders that are not the plain ones; the result of an expansion that cannot give its own lies as its operand does."""
    settled = dict(orders)
    for operation in operations:
        if operation.name == "tensor.expand_shape" and operation.results[0] in settled:
            result, source, groups = operation.results[0], operation.operands[0], reassociation(operation)
            of_source = expanded(settled.get(source, plain(ir.RankedTensorType(source.type).rank)), groups)
            coarse = next(
                coarse
                for order in (settled[result], of_source)
                if (coarse := collapsed(order, groups, ones_of(result.type))) is not None
            )
            settled[result] = expanded(coarse, groups)
    return {value: order for value, order in settled.items() if order != plain(len(order))}


def _moves_nothing(operation: ir.Operation) -> bool:
    """Whether the result is the only input, element by element."""
    if operation.name != "linalg.generic" or len(operation.operands) != 2 or len(operation.results) != 1:
        return False
    maps = indexing_maps(operation)
    block = operation.regions[0].blocks[0]
    yielded = list(list(block.operations)[-1].operation.operands)
    same = operation.operands[0].type == operation.results[0].type and maps[0] == maps[1]
    return same and maps[0].is_permutation and yielded == [block.arguments[0]]
