"""How a turn of the innermost loop over a row touches memory and computes: one element, or vectors of neighbours.

A turn on vectors is for several of them at once, whose operations take turns, so that each need not wait for the one before.
Those of a rest, which fills no vector, are masked: lanes beyond the row are neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.scalar_code import constant
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.compiler.walks import copied, is_memref

_REGISTERS_OF_A_VECTOR = 8
"""What a body holds of one: as many vectors take turns as there are registers for."""

Values: TypeAlias = tuple[ir.Value, ...]
"""What a turn has of one thing: a number, or some vectors."""

_DIVISIONS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.ceildiv", "arith.floordiv")
"""They trap at 0, which is what lanes beyond the row hold."""

_MATH = ("absf", "sqrt", "rsqrt", "floor", "ceil", "trunc", "roundeven", "copysign", "fma")
"""Functions that a vector unit computes."""

_OTHERS = ("llvm.intr.fmuladd", "llvm.call_intrinsic", "linalg.index")
"""What scalar_code.py writes of LLVM's own, and the place in a row."""

Position: TypeAlias = Callable[[int], tuple[ir.Value, bool]]
"""The place along a loop of a nest, and whether it is the turn's own."""


class Lanes(Protocol):
    """What a turn is for; ``whole``: how many neighbours, of vectors that all count, else 0."""

    whole: int

    def load(self, array: ir.Value, indices: Sequence[ir.Value], moves: bool) -> Values:
        """The elements at ``indices``; the last of these is the turn's own place if it ``moves``."""

    def store(self, values: Values, array: ir.Value, indices: Sequence[ir.Value]) -> None:
        """Write the elements at ``indices``."""

    def same(self, value: ir.Value) -> Values:
        """A number that is the same for all elements."""

    def body(self, block: ir.Block, given: Sequence[Values | None], position: Position) -> list[Values]:
        """What a nest's body yields of what its arguments are."""

    def kept(self, after: Values, before: Values) -> Values:
        """``after`` in the lanes that count, ``before`` in the others."""


class One:
    """One element."""

    whole = 0

    def load(self, array: ir.Value, indices: Sequence[ir.Value], moves: bool) -> Values:
        """See `Lanes`."""
        return (memref.LoadOp(array, indices).result,)

    def store(self, values: Values, array: ir.Value, indices: Sequence[ir.Value]) -> None:
        """See `Lanes`."""
        memref.StoreOp(values[0], array, indices)

    def same(self, value: ir.Value) -> Values:
        """See `Lanes`."""
        return (value,)

    def body(self, block: ir.Block, given: Sequence[Values | None], position: Position) -> list[Values]:
        """See `Lanes`."""
        mapping = {argument: values[0] for argument, values in zip(block.arguments, given, strict=True) if values is not None}
        operations = [operation.operation for operation in block.operations]
        for operation in operations[:-1]:
            if operation.name == "linalg.index":
                mapping[operation.results[0]], _ = position(ir.IntegerAttr(operation.attributes["dim"]).value)
                continue
            copied(operation, mapping)
        return [(mapping.get(value, value),) for value in operations[-1].operands]

    def kept(self, after: Values, before: Values) -> Values:
        """See `Lanes`."""
        return after


def vectors_at_once(unit: VectorUnit) -> int:
    """How many vectors take turns."""
    return max(unit.registers // _REGISTERS_OF_A_VECTOR, 1)


class Vectors:
    """``count`` vectors of ``lanes`` elements, one after the other; with ``left``, an index, only the first so many of the last
    one count."""

    def __init__(self, lanes: int, count: int, left: ir.Value | None = None) -> None:
        self._lanes, self.count = lanes, count
        self.whole = 0 if left is not None else lanes * count
        self._mask = None
        if left is not None:
            self._mask = vector.CreateMaskOp(self._type(ir.IntegerType.get_signless(1)), [left]).result
        self._offsets = [index(lanes * number) for number in range(1, count)]

    @staticmethod
    def covering(lanes: int, elements: int) -> Vectors:
        """As many as so many elements fill, the last perhaps in part."""
        over = elements % lanes
        return Vectors(lanes, -(-elements // lanes), index(over) if over else None)

    def load(self, array: ir.Value, indices: Sequence[ir.Value], moves: bool) -> Values:
        """See `Lanes`."""
        if not moves:
            return self.same(memref.LoadOp(array, indices).result)
        type_ = self._type(ir.MemRefType(array.type).element_type)
        *before, last = self._places(indices)
        whole = [vector.LoadOp(type_, array, place).result for place in before]
        if self._mask is None:
            return (*whole, vector.LoadOp(type_, array, last).result)
        nothing = self._splat(constant(0, type_.element_type).value)
        return (*whole, vector.MaskedLoadOp(type_, array, last, self._mask, nothing).result)

    def store(self, values: Values, array: ir.Value, indices: Sequence[ir.Value]) -> None:
        """See `Lanes`."""
        *before, (place, value) = zip(self._places(indices), values, strict=True)
        for there, whole in before:
            vector.StoreOp(whole, array, there)
        if self._mask is None:
            vector.StoreOp(value, array, place)
        else:
            vector.MaskedStoreOp(array, place, self._mask, value)

    def same(self, value: ir.Value) -> Values:
        """See `Lanes`."""
        return (self._splat(value),) * self.count

    def body(
        self,
        block: ir.Block,
        given: Sequence[Values | None],
        position: Position,
        outside: Mapping[ir.Value, ir.Value] = MappingProxyType({}),
    ) -> list[Values]:
        """See `Lanes`; the body `is_by_lanes`. ``outside``: what stands for values that are not of the block."""
        mapping = {argument: values for argument, values in zip(block.arguments, given, strict=True) if values is not None}

        def values_of(value: ir.Value) -> Values:
            if value not in mapping:
                mapping[value] = self.same(outside.get(value, value))
            return mapping[value]

        operations = [operation.operation for operation in block.operations]
        for operation in operations[:-1]:
            if operation.name == "arith.constant":
                mapping[operation.results[0]] = self.same(operation.clone().operation.results[0])
                continue
            if operation.name == "linalg.index":
                place, moves = position(ir.IntegerAttr(operation.attributes["dim"]).value)
                mapping[operation.results[0]] = self._counted(place) if moves else self.same(place)
                continue
            operands = [values_of(operand) for operand in operation.operands]
            made = [lifted(operation, [values[number] for values in operands]) for number in range(self.count)]
            mapping[operation.results[0]] = tuple(made)
        return [values_of(value) for value in operations[-1].operands]

    def kept(self, after: Values, before: Values) -> Values:
        """See `Lanes`."""
        if self._mask is None:
            return after
        return (*after[:-1], arith.SelectOp(self._mask, after[-1], before[-1]).result)

    def _counted(self, first: ir.Value) -> Values:
        """The numbers from ``first`` on."""
        type_ = self._type(first.type)
        steps = [ir.IntegerAttr.get(first.type, lane) for lane in range(self._lanes)]
        lanes = arith.ConstantOp(type_, ir.DenseElementsAttr.get(steps, type_)).result
        begun = [first, *(arith.AddIOp(first, offset).result for offset in self._offsets)]
        return tuple(arith.AddIOp(self._splat(place), lanes).result for place in begun)

    def _type(self, element: ir.Type) -> ir.VectorType:
        return ir.VectorType.get([self._lanes], element)

    def _splat(self, value: ir.Value) -> ir.Value:
        splat: ir.Value = vector.BroadcastOp(self._type(value.type), value).result
        return splat

    def _places(self, indices: Sequence[ir.Value]) -> list[list[ir.Value]]:
        *outer, last = indices
        return [[*outer, last], *([*outer, arith.AddIOp(last, offset).result] for offset in self._offsets)]


def lifted(operation: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """What an operation on numbers makes of other numbers, or of vectors of them."""
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    element, given = operation.results[0].type, operands[0].type
    type_ = ir.VectorType.get(ir.VectorType(given).shape, element) if isinstance(given, ir.VectorType) else element
    return ir.Operation.create(operation.name, [type_], operands, attributes).results[0]


def part_of(whole: ir.Value, lanes: range) -> ir.Value:
    """Some lanes of a vector."""
    type_ = ir.VectorType.get([len(lanes)], ir.VectorType(whole.type).element_type)
    return ir.Operation.create(
        "vector.shuffle", [type_], [whole, whole], {"mask": ir.DenseI64ArrayAttr.get(list(lanes))}
    ).results[0]


def is_by_lanes(generic: ir.Operation) -> bool:
    """Whether each operation of a nest's body does the same to vectors as to their elements."""
    block = generic.regions[0].blocks[0]
    operations = [view.operation for view in block.operations][:-1]
    values = [*block.arguments, *(value for operation in operations for value in (*operation.operands, *operation.results))]
    types = (value.type for value in values)
    return all(map(_is_by_lanes, operations)) and all(_is_element(type_) or type_ == ir.IndexType.get() for type_ in types)


def _is_by_lanes(operation: ir.Operation) -> bool:
    dialect, _, name = operation.name.partition(".")
    if len(operation.results) != 1 or len(operation.regions) or operation.name.startswith(_DIVISIONS):
        return False
    return dialect == "arith" or (dialect == "math" and name in _MATH) or operation.name in _OTHERS


def _is_element(type_: ir.Type) -> bool:
    """Whether vectors of the type are computed with; bf16 is only ever converted, one by one (brain_floats.py)."""
    return isinstance(type_, ir.IntegerType | ir.F16Type | ir.F32Type | ir.F64Type)


def is_dense(array: ir.Value) -> bool:
    """Whether neighbours along a buffer's last axis are neighbours in memory, and of a type that vectors hold."""
    if not is_memref(array.type):
        return False
    type_ = ir.MemRefType(array.type)
    whole_bytes = not isinstance(type_.element_type, ir.IntegerType) or type_.element_type.width % 8 == 0
    return _is_element(type_.element_type) and whole_bytes and type_.get_strides_and_offset()[0][-1:] == [1]
