"""Parts of tensors: taken out of them, and put into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import tensor

from onnx2torch_mlir.engine.compiler.extents import index


@dataclass(frozen=True)
class Part:
    """Where a part of a tensor begins along some axes, and how long it is there; it is all of it along the others."""

    spans: Mapping[int, tuple[int, int]]

    def of(self, whole: ir.Value) -> ir.Value:
        """The part (``tensor.extract_slice``); ``whole`` itself, if that is all."""
        type_ = ir.RankedTensorType(whole.type)
        part = ir.RankedTensorType.get(self._shape(type_, ir.ShapedType.get_dynamic_size()), type_.element_type)
        return whole if part == type_ else self._slice("tensor.extract_slice", part, [whole])

    def put(self, part: ir.Value, whole: ir.Value) -> ir.Value:
        """``whole`` with ``part`` there (``tensor.insert_slice``)."""
        return part if part.type == whole.type else self._slice("tensor.insert_slice", whole.type, [part, whole])

    def _shape(self, type_: ir.RankedTensorType, dynamic: int) -> list[int]:
        sizes = [dynamic if type_.is_dynamic_dim(axis) else type_.get_dim_size(axis) for axis in range(type_.rank)]
        return [self.spans[axis][1] if axis in self.spans else size for axis, size in enumerate(sizes)]

    def _slice(self, name: str, type_: ir.Type, operands: list[ir.Value]) -> ir.Value:
        whole = operands[-1]
        of_whole = ir.RankedTensorType(whole.type)
        dynamic = ir.ShapedType.get_dynamic_size()
        given = [
            tensor.DimOp(whole, index(axis)).result
            for axis in range(of_whole.rank)
            if of_whole.is_dynamic_dim(axis) and axis not in self.spans
        ]
        attributes = {
            "static_offsets": ir.DenseI64ArrayAttr.get([self.spans.get(axis, (0, 0))[0] for axis in range(of_whole.rank)]),
            "static_sizes": ir.DenseI64ArrayAttr.get(self._shape(of_whole, dynamic)),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * of_whole.rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([*[1] * len(operands), 0, len(given), 0]),
        }
        made: ir.Value = ir.Operation.create(name, [type_], [*operands, *given], attributes).results[0]
        return made
