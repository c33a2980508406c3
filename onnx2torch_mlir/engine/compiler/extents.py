"""Which loops have the same length, whatever it is at run time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from onnx2torch_mlir.engine.compiler.walks import constant_of, made_by

Length: TypeAlias = "int | tuple[Any, ...]"
"""A number; ("value", a value of type index); or ("size", a memref or tensor, its axis)."""


def size_of(value: ir.Value, axis: int) -> Length:
    """The size of a memref or tensor along an axis, traced to where it comes from."""
    type_ = ir.ShapedType(value.type)
    if not type_.is_dynamic_dim(axis):
        return int(type_.shape[axis])
    operation = made_by(value)
    if operation is not None:
        varying = sum(type_.is_dynamic_dim(before) for before in range(axis))
        if operation.name in ("memref.alloc", "tensor.empty"):
            return size_from(operation.operands[varying])
        if operation.name in ("memref.expand_shape", "tensor.expand_shape"):
            return size_from(operation.operands[1 + varying])
        if operation.name in ("linalg.generic", "linalg.fill"):
            results = list(operation.results)
            return size_of(operation.operands[len(operation.operands) - len(results) + results.index(value)], axis)
        if operation.name == "memref.cast":
            return size_of(operation.operands[0], axis)
        if operation.name in ("memref.subview", "memref.reinterpret_cast"):
            sizes = list(ir.DenseI64ArrayAttr(operation.attributes["static_sizes"]))
            offsets = int(ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"])[1])
            if len(sizes) == type_.rank:
                return size_from(operation.operands[1 + offsets + varying])
    return ("size", value, axis)


def loop_lengths(
    operands: Iterable[tuple[ir.Value, Sequence[ir.AffineExpr]]], count: int, equal: Equal
) -> list[Length | None]:
    """How many turns each of so many loops has, by the axes along which it moves ``operands`` (values and their maps' results).

    None for a loop that moves along no axis by itself. What is equal is entered into ``equal``.
    """
    found: list[Length | None] = [None] * count
    for value, results in operands:
        for axis, result in enumerate(results):
            if not isinstance(result, ir.AffineDimExpr):
                continue
            size, before = size_of(value, axis), found[result.position]
            if before is None:
                found[result.position] = size
            else:
                equal.join(before, size)
    return found


def size_from(value: ir.Value) -> Length:
    """The length that a value of type index is, traced to where it comes from."""
    dim = made_by(value, "memref.dim", "tensor.dim")
    axis = None if dim is None else constant_of(dim.operands[1])
    if dim is not None and axis is not None:
        return size_of(dim.operands[0], int(axis))
    return ("value", value)


def emitted(length: Length) -> ir.Value:
    """The length as a value of type index, at the insertion point."""
    if isinstance(length, int):
        return index(length)
    if length[0] == "value":
        return length[1]
    return memref.DimOp(length[1], index(length[2])).result


def index(number: int) -> ir.Value:
    """A constant of type index."""
    value: ir.Value = arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), number)).result
    return value


class Equal:
    """Classes of lengths that are equal because loops run over all of them at once."""

    def __init__(self) -> None:
        self._parent: dict[Length, Length] = {}

    def find(self, length: Length) -> Length:
        """What stands for the class of ``length``: its number, if it has one."""
        while length in self._parent:
            length = self._parent[length]
        return length

    def join(self, one: Length, other: Length) -> None:
        """Both are equal."""
        first, second = self.find(one), self.find(other)
        if first == second:
            return
        if isinstance(first, int):
            first, second = second, first
        if not isinstance(first, int):
            self._parent[first] = second
