"""How a turn of the innermost loop over a row touches memory and computes: one element, or vectors of neighbours.

A turn on vectors is for several of them at once, whose operations take turns, so that each need not wait for the one before.
Those of a rest, which fills no vector, are masked: lanes beyond the row are neither read nor written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.loop_order import accumulations
from onnx2torch_mlir.engine.compiler.nests import Nest
from onnx2torch_mlir.engine.compiler.scalar_code import constant
from onnx2torch_mlir.engine.compiler.walks import copied, is_memref

Values: TypeAlias = tuple[ir.Value, ...]
"""What a turn has of one thing: a number, or some vectors."""

_DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildiv", "arith.floordiv")
"""They trap at 0, which is what lanes beyond the row hold."""

_MATH = ("absf", "sqrt", "rsqrt", "floor", "ceil", "trunc", "roundeven", "copysign", "fma")
"""Functions that a vector unit computes."""

_OF_LLVM = ("llvm.intr.fmuladd", "llvm.call_intrinsic")
"""What scalar_code.py writes of LLVM's own."""

_IDENTITIES = {"arith.addf": -0.0, "arith.addi": 0, "arith.maximumf": -math.inf, "arith.minimumf": math.inf}
"""What changes no number, for each operation that may take its terms in any order."""


class Lanes(Protocol):
    """What a turn is for."""

    def load(self, array: ir.Value, indices: Sequence[ir.Value], moves: bool) -> Values:
        """The elements at ``indices``; the last of these is the turn's own place if it ``moves``."""

    def store(self, values: Values, array: ir.Value, indices: Sequence[ir.Value]) -> None:
        """Write the elements at ``indices``."""

    def same(self, value: ir.Value) -> Values:
        """A number that is the same for all elements."""

    def body(self, block: ir.Block, given: Sequence[Values | None], position: Callable[[int], ir.Value]) -> list[Values]:
        """What a nest's body yields of what its arguments are; ``position`` is the place along a loop."""

    def kept(self, after: Values, before: Values) -> Values:
        """``after`` in the lanes that count, ``before`` in the others."""


class One:
    """One element."""

    def load(self, array: ir.Value, indices: Sequence[ir.Value], moves: bool) -> Values:
        """See `Lanes`."""
        return (memref.LoadOp(array, indices).result,)

    def store(self, values: Values, array: ir.Value, indices: Sequence[ir.Value]) -> None:
        """See `Lanes`."""
        memref.StoreOp(values[0], array, indices)

    def same(self, value: ir.Value) -> Values:
        """See `Lanes`."""
        return (value,)

    def body(self, block: ir.Block, given: Sequence[Values | None], position: Callable[[int], ir.Value]) -> list[Values]:
        """See `Lanes`."""
        mapping = {argument: values[0] for argument, values in zip(block.arguments, given, strict=True) if values is not None}
        operations = [operation.operation for operation in block.operations]
        for operation in operations[:-1]:
            if operation.name == "linalg.index":
                mapping[operation.results[0]] = position(ir.IntegerAttr(operation.attributes["dim"]).value)
                continue
            copied(operation, mapping)
        return [(mapping.get(value, value),) for value in operations[-1].operands]

    def kept(self, after: Values, before: Values) -> Values:
        """See `Lanes`."""
        return after


class Vectors:
    """``count`` vectors of ``lanes`` elements, one after the other; with ``left``, an index, one of which only the first so
    many count."""

    def __init__(self, lanes: int, count: int, left: ir.Value | None = None) -> None:
        self._lanes, self._count = lanes, count
        self._mask = None
        if left is not None:
            self._mask = vector.CreateMaskOp(self._type(ir.IntegerType.get_signless(1)), [left]).result
        self._offsets = [index(lanes * number) for number in range(1, count)]

    def load(self, array: ir.Value, indices: Sequence[ir.Value], moves: bool) -> Values:
        """See `Lanes`."""
        if not moves:
            return self.same(memref.LoadOp(array, indices).result)
        type_ = self._type(ir.MemRefType(array.type).element_type)
        if self._mask is None:
            return tuple(vector.LoadOp(type_, array, place).result for place in self._places(indices))
        nothing = self._splat(constant(0, type_.element_type).value)
        return (vector.MaskedLoadOp(type_, array, indices, self._mask, nothing).result,)

    def store(self, values: Values, array: ir.Value, indices: Sequence[ir.Value]) -> None:
        """See `Lanes`."""
        if self._mask is not None:
            vector.MaskedStoreOp(array, indices, self._mask, values[0])
            return
        for value, place in zip(values, self._places(indices), strict=True):
            vector.StoreOp(value, array, place)

    def same(self, value: ir.Value) -> Values:
        """See `Lanes`."""
        return (self._splat(value),) * self._count

    def body(self, block: ir.Block, given: Sequence[Values | None], position: Callable[[int], ir.Value]) -> list[Values]:
        """See `Lanes`; the body `is_by_lanes`, so that nothing asks for its ``position``."""
        mapping = {argument: values for argument, values in zip(block.arguments, given, strict=True) if values is not None}

        def values_of(value: ir.Value) -> Values:
            if value not in mapping:
                mapping[value] = self.same(value)
            return mapping[value]

        operations = [operation.operation for operation in block.operations]
        for operation in operations[:-1]:
            if operation.name == "arith.constant":
                mapping[operation.results[0]] = self.same(operation.clone().operation.results[0])
                continue
            operands = [values_of(operand) for operand in operation.operands]
            made = [self._lifted(operation, [values[number] for values in operands]) for number in range(self._count)]
            mapping[operation.results[0]] = tuple(made)
        return [values_of(value) for value in operations[-1].operands]

    def begin(self, combining: ir.Operation) -> ir.Value:
        """A vector of running values that change nothing."""
        return self._splat(constant(_IDENTITIES[combining.name], combining.results[0].type).value)

    def kept(self, after: Values, before: Values) -> Values:
        """See `Lanes`."""
        if self._mask is None:
            return after
        return (arith.SelectOp(self._mask, after[0], before[0]).result,)

    def together(self, combining: ir.Operation, running: Values) -> ir.Value:
        """Running values as one vector."""
        first, *others = running
        for other in others:
            first = self._lifted(combining, [first, other])
        return first

    def total(self, combining: ir.Operation, running: ir.Value, initial: ir.Value) -> ir.Value:
        """The lanes of a vector, and what came before them, as one number: half of what is left is added to the other half."""
        left = self._lanes
        while left > 1:
            left //= 2
            halves = [_part(running, range(left)), _part(running, range(left, 2 * left))]
            running = _like(combining, halves)
        first = {"static_position": ir.DenseI64ArrayAttr.get([0])}
        return _like(combining, [initial, ir.Operation.create("vector.extract", [initial.type], [running], first).results[0]])

    def _type(self, element: ir.Type) -> ir.VectorType:
        return ir.VectorType.get([self._lanes], element)

    def _splat(self, value: ir.Value) -> ir.Value:
        splat: ir.Value = vector.BroadcastOp(self._type(value.type), value).result
        return splat

    def _places(self, indices: Sequence[ir.Value]) -> list[list[ir.Value]]:
        *outer, last = indices
        return [[*outer, last], *([*outer, arith.AddIOp(last, offset).result] for offset in self._offsets)]

    def _lifted(self, operation: ir.Operation, operands: list[ir.Value]) -> ir.Value:
        return _like(operation, operands, self._type(operation.results[0].type))


def _like(operation: ir.Operation, operands: list[ir.Value], type_: ir.Type | None = None) -> ir.Value:
    """What ``operation`` makes of other operands: of their type, if it is not told."""
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    return ir.Operation.create(operation.name, [type_ or operands[0].type], operands, attributes).results[0]


def _part(whole: ir.Value, lanes: range) -> ir.Value:
    type_ = ir.VectorType.get([len(lanes)], ir.VectorType(whole.type).element_type)
    return ir.Operation.create(
        "vector.shuffle", [type_], [whole, whole], {"mask": ir.DenseI64ArrayAttr.get(list(lanes))}
    ).results[0]


def is_by_lanes(nest: Nest) -> bool:
    """Whether each operation of the body does the same to vectors as to their elements."""
    block = nest.operation.regions[0].blocks[0]
    operations = [view.operation for view in block.operations][:-1]
    values = [*block.arguments, *(value for operation in operations for value in (*operation.operands, *operation.results))]
    return all(map(_is_by_lanes, operations)) and all(map(_is_element, (value.type for value in values)))


def _is_by_lanes(operation: ir.Operation) -> bool:
    dialect, _, name = operation.name.partition(".")
    if len(operation.results) != 1 or len(operation.regions) or operation.name.startswith(_DIVISIONS):
        return False
    return dialect == "arith" or (dialect == "math" and name in _MATH) or operation.name in _OF_LLVM


def _is_element(type_: ir.Type) -> bool:
    """Whether vectors of the type are computed with; bf16 is only ever converted, one by one (brain_floats.py)."""
    return isinstance(type_, ir.IntegerType | ir.F16Type | ir.F32Type | ir.F64Type)


def combining_of(nest: Nest) -> list[ir.Operation]:
    """What combines each of a nest's results with its terms; nothing where they cannot be taken in another order."""
    found = accumulations(nest.operation)
    return found if all(operation.name in _IDENTITIES for operation in found) else []


def is_dense(array: ir.Value) -> bool:
    """Whether neighbours along a buffer's last axis are neighbours in memory, and of a type that vectors hold."""
    if not is_memref(array.type):
        return False
    type_ = ir.MemRefType(array.type)
    whole_bytes = not isinstance(type_.element_type, ir.IntegerType) or type_.element_type.width % 8 == 0
    return _is_element(type_.element_type) and whole_bytes and type_.get_strides_and_offset()[0][-1:] == [1]
