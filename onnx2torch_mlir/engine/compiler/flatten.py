"""Memrefs across function boundaries as what varies of them: a pointer, the dynamic sizes, the dynamic strides.

MLIR's own convention passes every size and stride of every memref, known or not; with hundreds of weights that is most
of the code there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, builtin, llvm, memref

from onnx2torch_mlir.engine.compiler.walks import i64, pointer, word, word_of

Known: TypeAlias = int | Any  # ir.Value
"""A number, or a value of type i64."""


def without_offset(type_: ir.MemRefType) -> ir.MemRefType:
    """The type of a view whose pointer already is its first element."""
    strides, offset = type_.get_strides_and_offset()
    if offset == 0:
        return type_
    return ir.MemRefType.get(type_.shape, type_.element_type, ir.StridedLayoutAttr.get(0, strides), type_.memory_space)


def parts(value: ir.Value, type_: ir.MemRefType) -> list[ir.Value]:
    """A pointer to a memref's first element (!llvm.ptr), then the sizes and strides (i64) left open by ``type_``."""
    _, offset = ir.MemRefType(value.type).get_strides_and_offset()
    address = word_of(memref.ExtractAlignedPointerAsIndexOp(value).result)
    metadata = None
    if offset != 0 or dynamic_strides(type_):
        metadata = memref.ExtractStridedMetadataOp(value).results
    if offset != 0 and metadata is not None:
        size = arith.ConstantOp(word(), i64(element_bytes(type_.element_type))).result
        address = arith.AddIOp(address, arith.MulIOp(word_of(metadata[1]), size).result).result
    found = [llvm.IntToPtrOp(pointer(), address).result]
    found += [value_of(size_word(value, axis)) for axis in range(type_.rank) if type_.is_dynamic_dim(axis)]
    if metadata is not None:
        found += [word_of(metadata[2 + type_.rank + axis]) for axis in dynamic_strides(type_)]
    return found


def assemble(type_: ir.MemRefType, values: Sequence[ir.Value]) -> ir.Value:
    """A memref of ``type_`` (without offset) from its `parts`."""
    sizes, strides = sizes_and_strides(type_, values)
    arrays = f", array<{type_.rank} x i64>, array<{type_.rank} x i64>" if type_.rank else ""
    struct = ir.Type.parse(f"!llvm.struct<(ptr, ptr, i64{arrays})>")
    result = llvm.PoisonOp(struct).result
    fields: list[tuple[Known, list[int]]] = [(values[0], [0]), (values[0], [1]), (0, [2])]
    fields += [(size, [3, axis]) for axis, size in enumerate(sizes)]
    fields += [(stride, [4, axis]) for axis, stride in enumerate(strides)]
    for field, position in fields:
        result = llvm.InsertValueOp(result, value_of(field), ir.DenseI64ArrayAttr.get(position)).result
    cast: ir.Value = builtin.UnrealizedConversionCastOp([type_], [result]).results[0]
    return cast


def sizes_and_strides(type_: ir.MemRefType, values: Sequence[ir.Value]) -> tuple[list[Known], list[Known]]:
    """Along each axis, of a memref of ``type_`` with these `parts`."""
    rest = list(values[1:])
    sizes: list[Known] = [
        rest.pop(0) if type_.is_dynamic_dim(axis) else type_.shape[axis] for axis in range(type_.rank)
    ]
    strides: list[Known] = list(type_.get_strides_and_offset()[0])
    if isinstance(type_.layout, ir.StridedLayoutAttr):
        for axis in dynamic_strides(type_):
            strides[axis] = rest.pop(0)
    else:
        step: Known = 1
        for axis in reversed(range(type_.rank)):
            strides[axis] = step
            step = times(step, sizes[axis])
    return sizes, strides


def size_word(value: ir.Value, axis: int) -> Known:
    """The size of a memref along an axis."""
    type_ = ir.MemRefType(value.type)
    if not type_.is_dynamic_dim(axis):
        return int(type_.shape[axis])
    index = arith.ConstantOp(ir.IndexType.get(), ir.IntegerAttr.get(ir.IndexType.get(), axis)).result
    return word_of(memref.DimOp(value, index).result)


def element_bytes(type_: ir.Type) -> int:
    """How far apart two elements are in memory."""
    if isinstance(type_, ir.ComplexType):
        return 2 * element_bytes(ir.ComplexType(type_).element_type)
    if isinstance(type_, ir.IntegerType):
        width = int(ir.IntegerType(type_).width + 7) // 8
        return 1 << (width - 1).bit_length()
    if isinstance(type_, ir.FloatType):
        return int(ir.FloatType(type_).width + 7) // 8
    return 8


def dynamic_strides(type_: ir.MemRefType) -> list[int]:
    """The axes whose strides a type leaves open."""
    if not isinstance(type_.layout, ir.StridedLayoutAttr):
        return []  # Row-major: the strides follow from the sizes.
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    return [axis for axis, stride in enumerate(type_.get_strides_and_offset()[0]) if stride == dynamic]


def value_of(known: Known) -> ir.Value:
    """A value of type i64, at the insertion point."""
    return arith.ConstantOp(word(), i64(known)).result if isinstance(known, int) else known


def times(one: Known, other: Known) -> Known:
    """The product, a number where both are."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    if isinstance(one, int) and one == 1:
        return other
    product: ir.Value = arith.MulIOp(value_of(one), value_of(other)).result
    return product
