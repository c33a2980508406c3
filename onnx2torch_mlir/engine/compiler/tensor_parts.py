"""Parts of tensors: taken out of them, and put into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from onnx2torch_mlir.engine.compiler.extents import index

Extent: TypeAlias = "int | ir.Value"
"""A size or an offset: a number, or a value of type index."""


def value_of(extent: Extent) -> ir.Value:
    """The extent as a value of type index, at the insertion point."""
    return index(extent) if isinstance(extent, int) else extent


def type_of(shape: Sequence[Extent], element: ir.Type) -> ir.RankedTensorType:
    """The type of a tensor of these sizes: open where a size is a value."""
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([dynamic if isinstance(size, ir.Value) else size for size in shape], element)


def empty_of(type_: ir.Type, shape: Sequence[Extent]) -> ir.Value:
    """A tensor of this type and these sizes that holds nothing yet (``tensor.empty``), at the insertion point."""
    return ir.Operation.create("tensor.empty", [type_], [size for size in shape if isinstance(size, ir.Value)]).results[0]


def added(one: Extent, other: Extent) -> Extent:
    """Their sum: a number, if both are."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return arith.AddIOp(value_of(one), value_of(other)).result


def dim_of(whole: ir.Value, axis: int) -> Extent:
    """The size of a tensor along an axis."""
    type_ = ir.RankedTensorType(whole.type)
    return tensor.DimOp(whole, index(axis)).result if type_.is_dynamic_dim(axis) else int(type_.get_dim_size(axis))


@dataclass(frozen=True)
class Part:
    """Where a part of a tensor begins along some axes, and how long it is there; it is all of it along the others."""

    spans: Mapping[int, tuple[Extent, Extent]]

    def of(self, whole: ir.Value) -> ir.Value:
        """The part (``tensor.extract_slice``); ``whole`` itself, if that is all."""
        return whole if self._is_all(whole) else self._slice("tensor.extract_slice", whole)

    def put(self, part: ir.Value, whole: ir.Value) -> ir.Value:
        """``whole`` with ``part`` there (``tensor.insert_slice``)."""
        return part if self._is_all(whole) else self._slice("tensor.insert_slice", whole, part)

    def _is_all(self, whole: ir.Value) -> bool:
        sizes = list(ir.RankedTensorType(whole.type).shape)
        return all(isinstance(size, int) and size == sizes[axis] for axis, (_, size) in self.spans.items())

    def _slice(self, name: str, whole: ir.Value, part: ir.Value | None = None) -> ir.Value:
        type_ = ir.RankedTensorType(whole.type)
        spans = [self.spans[axis] if axis in self.spans else (0, dim_of(whole, axis)) for axis in range(type_.rank)]
        groups = [[offset for offset, _ in spans], [size for _, size in spans]]
        dynamic = ir.ShapedType.get_dynamic_size()
        static = [[extent if isinstance(extent, int) else dynamic for extent in group] for group in groups]
        given = [[extent for extent in group if not isinstance(extent, int)] for group in groups]
        operands = [*([] if part is None else [part]), whole]
        result = ir.RankedTensorType.get(static[1], type_.element_type) if part is None else type_
        attributes = {
            "static_offsets": ir.DenseI64ArrayAttr.get(static[0]),
            "static_sizes": ir.DenseI64ArrayAttr.get(static[1]),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * type_.rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([*[1] * len(operands), *map(len, given), 0]),
        }
        made: ir.Value = ir.Operation.create(name, [result], [*operands, *given[0], *given[1]], attributes).results[0]
        return made
