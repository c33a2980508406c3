"""A number by which one side of a contraction is multiplied moves to the other side, where that is no larger.

As in attention that exporters write with the root of the scale on either side: keys that are scaled would be computed anew in
each step of a decoder, where plain ones are read in place. onnxruntime's MatMulScaleFusion does the same. Roundings differ from
those of the program as they do with another order of the sum; factors by which numbers may leave the range stay where they are.
"""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.contraction_match import is_sum_of_products
from onnx2torch_mlir.engine.compiler.dim_orders import loops_of
from onnx2torch_mlir.engine.compiler.fusion import only_moves
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps, iterators
from onnx2torch_mlir.engine.compiler.order_propagation import RESHAPES
from onnx2torch_mlir.engine.compiler.pointwise_nests import each_element
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, made_by, named

_LARGEST = 2.0**10
"""Of a factor that moves, or of its inverse."""


def move(module: ir.Module) -> None:
    """Move the factors of what lies along the columns of the result, in @main (on tensors)."""
    (main,) = functions(module)
    for contraction in [each for each in named(main, "linalg.generic") if _is_product(each)]:
        _move(contraction)


def _move(contraction: ir.Operation) -> None:
    *sides, written = indexing_maps(contraction)
    if not written.results:
        return
    columns = loops_of(written)[-1]
    along = [bool(columns & frozenset().union(*loops_of(map_))) for map_ in sides]
    if sum(along) != 1:
        return
    position = along.index(True)
    value, other = contraction.operands[position], contraction.operands[1 - position]
    if _is_known_larger(other, value):
        return
    while (scaling := _scaling(value)) is not None:
        nest, factor = scaling
        nest.results[0].replace_all_uses_with(nest.operands[0])
        nest.erase()
        _scale(contraction, 1 - position, factor)
        value = contraction.operands[position]


def _is_product(generic: ir.Operation) -> bool:
    """Whether float32 products of two operands are summed up."""
    return (
        len(generic.operands) == 3
        and is_sum_of_products(generic)
        and any(iterators(generic))
        and all(isinstance(value.type, ir.RankedTensorType) for value in generic.operands)
        and all(isinstance(ir.RankedTensorType(value.type).element_type, ir.F32Type) for value in generic.operands)
    )


def _is_known_larger(one: ir.Value, other: ir.Value) -> bool:
    types = [ir.RankedTensorType(value.type) for value in (one, other)]
    return all(type_.has_static_shape for type_ in types) and math.prod(types[0].shape) > math.prod(types[1].shape)


def _scaling(value: ir.Value) -> tuple[ir.Operation, float] | None:
    """The nest that multiplies all of ``value`` by a number, before it is only moved for its one user; and the number."""
    while (made := made_by(value)) is not None and len(list(value.uses)) == 1:
        if made.name in RESHAPES:
            value = made.operands[0]
            continue
        factor = _factor(made) if made.name == "linalg.generic" else None
        if factor is not None:
            return made, factor
        if not only_moves(made):
            return None
        value = made.operands[0]
    return None


def _factor(nest: ir.Operation) -> float | None:
    """The number by which a nest multiplies each element of its first operand where it lies."""
    maps = indexing_maps(nest)
    block = nest.regions[0].blocks[0]
    operations = [operation.operation for operation in block.operations]
    if len(nest.results) != 1 or any(iterators(nest)):
        return None
    if [operation.name for operation in operations] != ["arith.mulf", "linalg.yield"] or maps[0] != maps[-1]:
        return None
    if nest.operands[0].type != nest.results[0].type or block.arguments[0] not in list(operations[0].operands):
        return None
    (term,) = [value for value in operations[0].operands if value != block.arguments[0]] or [None]
    number = None if term is None else _number(nest, term)
    return number if number is not None and 1 / _LARGEST <= abs(number) <= _LARGEST else None


def _number(nest: ir.Operation, term: ir.Value) -> float | None:
    """What ``term`` of a nest's body always is."""
    arguments = list(nest.regions[0].blocks[0].arguments)
    if term in arguments[:-1]:
        fill = made_by(nest.operands[arguments.index(term)], "linalg.fill")
        term = fill.operands[0] if fill is not None else nest.operands[arguments.index(term)]
    number = constant_of(term)
    return None if number is None else float(number)


def _scale(contraction: ir.Operation, position: int, factor: float) -> None:
    """Multiply an operand by a number, before it is reshaped."""
    user, number, value = contraction, position, contraction.operands[position]
    while (reshape := made_by(value, *RESHAPES)) is not None and len(list(value.uses)) == 1:
        user, number, value = reshape, 0, reshape.operands[0]
    f32 = ir.F32Type.get()
    with ir.InsertionPoint(user), user.location:
        constant = arith.ConstantOp(f32, ir.FloatAttr.get(f32, factor)).result
        user.operands[number] = each_element(value, f32, lambda x: arith.MulFOp(x, constant).result)
