"""Contractions of 16-bit floats get operands of float32, the type of their sums, so that they are contractions as any other.

Their nests widen both factors of each product. An operand is widened before instead: a weight when the program is loaded
(derivation.py), another by a nest of its own, which fusion makes part of what computes the operand. Products of few
rows without a weight are bound by memory and stay as they are.
"""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from onnx2torch_mlir.engine.compiler.borders import value_around
from onnx2torch_mlir.engine.compiler.contraction_match import is_sum_of_products
from onnx2torch_mlir.engine.compiler.dim_orders import loops_of
from onnx2torch_mlir.engine.compiler.extents import Equal, loop_lengths
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, map_attributes
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps, iterators
from onnx2torch_mlir.engine.compiler.pointwise_nests import each_element
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, made_by, nested

_FEW_ROWS = 4
_MOVES = ("tensor.collapse_shape", "tensor.expand_shape", "tensor.cast", "tensor.extract_slice", "tensor.pad", "linalg.generic")


def widen(module: ir.Module, inputs: int) -> None:
    """Rewrite the contractions in @main (on tensors) whose bodies widen what they multiply.

    ``inputs`` of the arguments are inputs, the others are weights.
    """
    (main,) = functions(module)
    weights = set(list(main.regions[0].blocks[0].arguments)[inputs:])
    known: dict[ir.Value, ir.Value] = {}
    for operation in nested(main):
        if operation.name != "linalg.generic" or len(operation.operands) != 3 or not _widens(operation):
            continue
        if any(_source(value) in weights for value in list(operation.operands)[:2]) or _is_large(operation):
            _rewrite(operation, known)


def _source(value: ir.Value) -> ir.Value:
    """What is only moved, on the way to ``value``."""
    while (made := made_by(value)) is not None and made.name in _MOVES:
        if made.name == "linalg.generic" and (len(made.operands) != 2 or len(list(made.regions[0].blocks[0].operations)) > 1):
            return value
        value = made.operands[0]
    return value


def _widens(generic: ir.Operation) -> bool:
    """Whether the body is a sum of float32 products of numbers that it widens, at least one of them."""
    names = [operation.operation.name for operation in generic.regions[0].blocks[0].operations]
    return "arith.extf" in names and len(generic.results) == 1 and is_sum_of_products(generic, widened=True)


def _is_large(generic: ir.Operation) -> bool:
    """Whether both sides have more than a few rows, or not all is known."""
    maps = indexing_maps(generic)
    operands = [(value, list(map_.results)) for value, map_ in zip(generic.operands, maps, strict=True)]
    lengths = loop_lengths(operands, maps[0].n_dims, Equal())
    sides = [{dim for loops in loops_of(map_) for dim in loops} for map_ in maps[:2]]
    for one, other in (sides, sides[::-1]):
        rows = [lengths[dim] for dim, summed in enumerate(iterators(generic)) if not summed and dim in one - other]
        known = [length for length in rows if isinstance(length, int)]
        if len(known) == len(rows) and math.prod(known) < _FEW_ROWS:
            return False
    return True


def _rewrite(generic: ir.Operation, known: dict[ir.Value, ir.Value]) -> None:
    maps = indexing_maps(generic)
    with ir.InsertionPoint(generic), generic.location:
        inputs = [_widened(value, known) for value in list(generic.operands)[:2]]
        made = GenericOp(
            [generic.results[0].type],
            inputs,
            [generic.operands[2]],
            map_attributes(maps),
            generic.attributes["iterator_types"],
        )
        wide = made.regions[0].blocks.append(*[ir.F32Type.get()] * 3)
        with ir.InsertionPoint(wide):
            x, y, total = wide.arguments
            YieldOp([arith.AddFOp(total, arith.MulFOp(x, y).result).result])
    generic.results[0].replace_all_uses_with(made.results[0])
    generic.erase()


def _widened(value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """A tensor of float32 with the numbers of ``value``; padding is done afterwards."""
    type_ = ir.RankedTensorType(value.type)
    if isinstance(type_.element_type, ir.F32Type):
        return value
    if value not in known:
        pad = made_by(value, "tensor.pad")
        around = None if pad is None else value_around(pad)
        number = None if around is None else constant_of(around)
        if pad is not None and number is not None:
            source = _widened(pad.operands[0], known)
            with ir.InsertionPoint(pad), pad.location:
                known[value] = _padded(pad, source, number)
        else:
            with _after(value), ir.Location.unknown() if isinstance(value.owner, ir.Block) else value.owner.location:
                known[value] = each_element(value, ir.F32Type.get(), lambda x: arith.ExtFOp(ir.F32Type.get(), x).result)
    return known[value]


def _after(value: ir.Value) -> ir.InsertionPoint:
    """The first place where a value may be used."""
    if isinstance(value.owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(value.owner)


def _padded(pad: ir.Operation, source: ir.Value, number: float) -> ir.Value:
    """What ``pad`` does, of float32."""
    f32 = ir.F32Type.get()
    shape = ir.RankedTensorType(pad.results[0].type).shape
    around = arith.ConstantOp(f32, ir.FloatAttr.get(f32, number)).result
    attributes = {name: pad.attributes[name] for name in ("static_low", "static_high", "operandSegmentSizes")}
    operands = [source, *list(pad.operands)[1:]]
    made = ir.Operation.create("tensor.pad", [ir.RankedTensorType.get(shape, f32)], operands, attributes, regions=1)
    block = made.regions[0].blocks.append(*[ir.IndexType.get()] * len(shape))
    with ir.InsertionPoint(block):
        tensor.YieldOp(around)
    return made.results[0]
