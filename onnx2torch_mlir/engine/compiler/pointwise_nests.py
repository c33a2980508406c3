"""Nests that compute each element of a tensor from the same element of another."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import tensor

from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, iterator_types, map_attributes


def each_element(value: ir.Value, element: ir.Type, body: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """A tensor of as many numbers of type ``element``, which ``body`` makes of those of ``value``; at the insertion point."""
    type_ = ir.RankedTensorType(value.type)
    made_type = ir.RankedTensorType.get(type_.shape, element)
    sizes = [tensor.DimOp(value, index(axis)).result for axis in range(type_.rank) if type_.is_dynamic_dim(axis)]
    same = ir.AffineMap.get_identity(type_.rank)
    out = ir.Operation.create("tensor.empty", [made_type], sizes).results[0]
    made = GenericOp([made_type], [value], [out], map_attributes([same, same]), iterator_types([False] * type_.rank))
    block = made.regions[0].blocks.append(type_.element_type, element)
    with ir.InsertionPoint(block):
        YieldOp([body(block.arguments[0])])
    result: ir.Value = made.results[0]
    return result
