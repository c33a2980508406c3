"""Tensors under other shapes: axes taken apart, and neighbouring axes as one."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import Groups, reassociation_of
from onnx2torch_mlir.engine.compiler.tensor_parts import Extent, type_of


def expanded(value: ir.Value, groups: Groups, shape: Sequence[Extent]) -> ir.Value:
    """The tensor with axes of these sizes (``tensor.expand_shape``), of which each group is one of its axes."""
    target = type_of(shape, ir.RankedTensorType(value.type).element_type)
    sizes = ir.DenseI64ArrayAttr.get(target.shape)
    attributes = {"reassociation": reassociation_of(groups), "static_output_shape": sizes}
    operands = [value, *(size for size in shape if isinstance(size, ir.Value))]
    made: ir.Value = ir.Operation.create("tensor.expand_shape", [target], operands, attributes).results[0]
    return made


def collapsed(value: ir.Value, groups: Groups) -> ir.Value:
    """The tensor with each group of its axes as one (``tensor.collapse_shape``)."""
    type_ = ir.RankedTensorType(value.type)
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = []
    for group in groups:
        size = 1
        for axis in group:
            size = dynamic if size == dynamic or type_.is_dynamic_dim(axis) else size * type_.get_dim_size(axis)
        sizes.append(size)
    target = ir.RankedTensorType.get(sizes, type_.element_type)
    attributes = {"reassociation": reassociation_of(groups)}
    made: ir.Value = ir.Operation.create("tensor.collapse_shape", [target], [value], attributes).results[0]
    return made
