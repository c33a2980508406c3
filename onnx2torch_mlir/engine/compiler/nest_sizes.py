"""What nests are given at run time as calls: sizes, strides and addresses of their operands, and what fills their results."""

from __future__ import annotations

import math
from typing import Any, Protocol, cast

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf

from onnx2torch_mlir.engine.compiler.flatten import element_bytes, parts, without_offset
from onnx2torch_mlir.engine.compiler.loop_order import Access, coefficient
from onnx2torch_mlir.engine.compiler.walks import constant_of, i64, is_memref, root_of, users, word_of


class Measured(Protocol):
    """A nest whose operands are memrefs: a match of it."""

    @property
    def generic(self) -> ir.Operation:
        """The nest."""

    @property
    def operands(self) -> list[Access]:
        """Its operands."""

    def length(self, dim: int) -> tuple[int, int]:
        """An operand and its axis whose size is the number of turns of loop ``dim``."""

    def fixed_length(self, dim: int) -> int | None:
        """The number of turns of loop ``dim``, where the types tell."""


class Sizes:
    """Sizes and strides as i64 values at the insertion point; strides in bytes."""

    def __init__(self, found: Measured) -> None:
        self.match = found
        self.known: dict[int, ir.Value] = {}
        self.metadata: dict[int, Any] = {}

    def number(self, value: int) -> ir.Value:
        """A constant."""
        if value not in self.known:
            self.known[value] = arith.ConstantOp(ir.IntegerType.get_signless(64), i64(value)).result
        return self.known[value]

    def count(self, dim: int) -> ir.Value:
        """The number of turns of loop ``dim``."""
        fixed = self.match.fixed_length(dim)
        operand, axis = self.match.length(dim)
        return self.number(fixed) if fixed is not None else word_of(self._sizes(operand)[2 + axis])

    def count_of(self, dims: list[int]) -> ir.Value:
        """The product of the counts."""
        total = self.number(1)
        for number, dim in enumerate(dims):
            total = arith.MulIOp(total, self.count(dim)).result if number else self.count(dim)
        return total

    def step(self, operand: int, dim: int, width: int | None = None) -> ir.Value:
        """How many bytes apart in an operand neighbours along ``dim`` are; ``width`` is that of its elements, if another."""
        access = self.match.operands[operand]
        rank = len(access.map.results)
        if width is None:
            width = element_bytes(ir.MemRefType(self.match.generic.operands[operand].type).element_type)
        fixed, total = 0, cast("ir.Value | None", None)
        for axis, expression in enumerate(access.map.results):
            factor = coefficient(expression, dim)
            if not factor:
                continue
            stride = access.strides[axis]
            if stride is not None:
                fixed += factor * stride
                continue
            term = word_of(self._sizes(operand)[2 + rank + axis])
            term = arith.MulIOp(term, self.number(factor)).result if factor != 1 else term
            total = term if total is None else arith.AddIOp(total, term).result
        if total is None:
            return self.number(fixed * width)
        if fixed:
            total = arith.AddIOp(total, self.number(fixed)).result
        return arith.MulIOp(total, self.number(width)).result

    def _sizes(self, operand: int) -> Any:
        if operand not in self.metadata:
            self.metadata[operand] = memref.ExtractStridedMetadataOp(self.match.generic.operands[operand]).results
        return self.metadata[operand]


def address(value: ir.Value) -> ir.Value:
    """A pointer to a memref's first element."""
    return parts(value, without_offset(ir.MemRefType(value.type)))[0]


def fill_before(generic: ir.Operation) -> ir.Operation | None:
    """What fills the result of ``generic`` with zeros right before, if anything does."""
    last = filled_before(generic)
    return last if last is not None and _is_zero(number_of_fill(last)) else None


def filled_before(generic: ir.Operation) -> ir.Operation | None:
    """What fills the result of ``generic`` with one number right before, if anything does."""
    out = generic.operands[len(generic.operands) - 1]
    last: ir.Operation | None = None
    for user in users(generic.block, root_of(out)):
        if user.is_before_in_block(generic) and (last is None or last.is_before_in_block(user)):
            last = user
    if last is None or last.name != "linalg.generic" or last.operands[-1] != out or number_of_fill(last) is None:
        return None
    return last


def number_of_fill(generic: ir.Operation) -> ir.Value | None:
    """The number that a nest fills its result with, if it does that."""
    block = generic.regions[0].blocks[0]
    operations = [operation.operation for operation in block.operations]
    if len(operations) != 1 or len(generic.operands) > 2:
        return None
    value: ir.Value = operations[0].operands[0]
    if value in list(block.arguments):
        position = list(block.arguments).index(value)
        if position == len(generic.operands) - 1:
            return None
        value = generic.operands[position]
    return None if is_memref(value.type) else value


def _is_zero(value: ir.Value | None) -> bool:
    number = None if value is None else constant_of(value)
    return number == 0 and math.copysign(1, number) > 0


def where(condition: ir.Value, generic: ir.Operation, fill: ir.Operation | None) -> ir.InsertionPoint:
    """A branch at the insertion point: ``fill`` and a copy of ``generic`` where ``condition`` does not hold.

    Returns the insertion point of what is done where it does.
    """
    branch = scf.IfOp(condition, [], has_else=True)
    with ir.InsertionPoint(branch.else_block):
        if fill is not None:
            fill.detach_from_parent()
            branch.else_block.append(fill)
        generic.clone()
        scf.YieldOp([])
    with ir.InsertionPoint(branch.then_block):
        end = scf.YieldOp([])
    return ir.InsertionPoint(end)
