"""How a contraction's right operand is packed before the first call, where it is a weight (layout.py)."""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import coded_columns
from onnx2torch_mlir.engine.compiler.arguments import Weights
from onnx2torch_mlir.engine.compiler.contraction_match import Contraction
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import Packing


def packing_of(found: Contraction, weights: Weights, unit: VectorUnit) -> Packing | None:
    """How the right operand is packed once for a ``unit``, if it is a weight of which everything is known."""
    value, access = found.value(found.right), found.operands[found.right]
    weight = weights.number_of(value)
    if weight is None or None in access.strides:
        return None
    offset = ir.MemRefType(value.type).get_strides_and_offset()[1]
    if offset == ir.ShapedType.get_dynamic_stride_or_offset():
        return None

    def pair(dim: int) -> tuple[int, int] | None:
        count, step = found.fixed_length(dim), access.step(dim)
        return None if count is None or step is None else (count, step)

    batches, segments = [pair(dim) for dim in found.batches], [pair(dim) for dim in found.segments]
    column = pair(found.column) if found.column is not None else (1, 1)
    if column is None or None in batches or None in segments:
        return None
    known = [[pair for pair in pairs if pair is not None] for pairs in (batches, segments)]
    codes = coded_columns.can_be_read(unit, weights.codes.get(weight, "")) and len(found.merged()) == 1
    return Packing(weight, offset, unit.columns, known[0], column, known[1], codes=codes)
