"""Casts between layouts that bufferization takes for granted, made sound.

Where a value of one layout meets a place of another, one-shot-bufferize casts if MLIR says that the cast *may* hold: a
row-major ``memref<2x?xf32>`` has a dynamic stride, and so ``strided<[6, 1]>`` is taken to fit it, at every size. It
fits only where the size is 6; at others the elements would be read from the wrong places.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from onnx2torch_mlir.engine.compiler.walks import functions, nested


def copy_where_layouts_differ(module: ir.Module) -> None:
    """Replace every ``memref.cast`` from a strided to a row-major layout with dynamic sizes by a copy."""
    for function in functions(module):
        for operation in list(nested(function)):
            if operation.name == "memref.cast" and _may_differ(operation.operands[0].type, operation.results[0].type):
                _copy(operation)


def _may_differ(source: ir.Type, target: ir.Type) -> bool:
    if not (isinstance(source, ir.MemRefType) and isinstance(target, ir.MemRefType)):
        return False
    if source.rank == 0 or not _is_strided(source) or _is_strided(target):
        return False
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    strides, _ = target.get_strides_and_offset()
    return any(stride == dynamic for stride in strides)


def _is_strided(type_: ir.MemRefType) -> bool:
    return isinstance(type_.layout, ir.StridedLayoutAttr)


def _copy(cast: ir.Operation) -> None:
    source, type_ = cast.operands[0], ir.MemRefType(cast.results[0].type)
    with ir.InsertionPoint(cast), cast.location:
        sizes = []
        for axis in range(type_.rank):
            if type_.is_dynamic_dim(axis):
                index = arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), axis)).result
                sizes.append(memref.DimOp(source, index).result)
        buffer = memref.AllocOp(type_, sizes, []).result
        memref.CopyOp(source, buffer)
    cast.results[0].replace_all_uses_with(buffer)
    cast.erase()
