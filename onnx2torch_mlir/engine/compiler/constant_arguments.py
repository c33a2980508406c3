"""Constants by which loop nests that are otherwise the same differ, such as the scales of a quantized model's layers.

They become arguments of the nests' functions (kernels.py, tail_calls.py), so that one function serves all; what is the same in
all of them stays a constant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.loop_order import iterators
from onnx2torch_mlir.engine.compiler.walks import functions, made_by, nested, symbol

GIVEN = "o2m.given"
"""Marks a constant that functions do not have of their own."""

_Slot = tuple[ir.Operation, int]


def give(module: ir.Module) -> None:
    """Mark those constants of pointwise nests in @main; each nest has its own of them."""
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    alike: dict[object, list[ir.Operation]] = defaultdict(list)
    for operation in nested(main):
        if operation.name == "linalg.generic" and not any(iterators(operation)):
            key = _likeness(operation)
            if key is not None:
                alike[key].append(operation)
    for nests in alike.values():
        if len(nests) > 1:
            _give(nests)


def _give(nests: list[ir.Operation]) -> None:
    for slots in zip(*map(_slots, nests), strict=True):
        values = [operation.operands[position].owner.attributes["value"] for operation, position in slots]
        if all(value == values[0] for value in values):
            continue
        for nest, (operation, position), value in zip(nests, slots, values, strict=True):
            with ir.InsertionPoint(nest), nest.location:
                given = arith.ConstantOp(operation.operands[position].type, value)
            given.operation.attributes[GIVEN] = ir.UnitAttr.get()
            operation.operands[position] = given.result


def _slots(nest: ir.Operation) -> Iterator[_Slot]:
    """Where a nest's body uses constants: operations and positions of operands."""
    for operation in nest.regions[0].blocks[0].operations:
        for position, value in enumerate(operation.operands):
            if _is_number(value):
                yield operation.operation, position


def _is_number(value: ir.Value) -> bool:
    is_plain = isinstance(value.type, ir.F32Type) or (isinstance(value.type, ir.IntegerType) and value.type.width >= 8)
    return is_plain and made_by(value, "arith.constant") is not None


def _likeness(nest: ir.Operation) -> object | None:
    """What two nests have in common that differ in constants only; None for bodies with regions."""
    (block,) = nest.regions[0].blocks
    numbers: dict[ir.Value, object] = {value: number for number, value in enumerate(block.arguments)}
    body: list[object] = []
    for view in block.operations:
        operation = view.operation
        if len(operation.regions):
            return None
        used = tuple(_use(value, numbers) for value in operation.operands)
        attributes = tuple((name, operation.attributes[name]) for name in operation.attributes)
        results = tuple(value.type for value in operation.results)
        body.append((operation.name, used, attributes, results))
        numbers |= {value: (len(body), place) for place, value in enumerate(operation.results)}
    types = tuple(value.type for value in nest.operands)
    return nest.attributes["indexing_maps"], types, tuple(body)


def _use(value: ir.Value, numbers: dict[ir.Value, object]) -> object:
    if value in numbers:
        return numbers[value]
    if _is_number(value):
        return value.type
    made = made_by(value, "arith.constant")
    return value.type, None if made is None else made.attributes["value"]
