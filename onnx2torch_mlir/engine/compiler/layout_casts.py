"""Casts between layouts that bufferization takes for granted, made sound.

Where a value of one layout meets a place of another, one-shot-bufferize casts if MLIR says that the cast *may* hold: a
row-major ``memref<2x?xf32>`` has a dynamic stride, and so ``strided<[6, 1]>`` is taken to fit it, at every size. It
fits only where the size is 6; at others the elements would be read from the wrong places.

A loop that carries a row-major buffer from turn to turn, and begins with another kind of view, is given a type for both, of
which no stride is known: then no stage knows that its rows lie side by side. Such a loop begins with a copy instead.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import memref

from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.walks import functions, made_by, nested


def copy_where_layouts_differ(module: ir.Module) -> None:
    """Replace every ``memref.cast`` from a strided to a row-major layout with dynamic sizes by a copy."""
    for function in functions(module):
        for operation in nested(function):
            if operation.name == "memref.cast" and _may_differ(operation.operands[0].type, operation.results[0].type):
                _copy(operation)


def carry_dense_buffers(module: ir.Module) -> None:
    """Let every ``scf.for`` whose turns pass on row-major buffers carry these as such."""
    for function in functions(module):
        for loop in nested(function):
            if loop.name == "scf.for":
                for number in range(len(loop.results)):
                    _carry(loop, number)


def _carry(loop: ir.Operation, number: int) -> None:
    body = loop.regions[0].blocks[0]
    end = list(body.operations)[-1].operation
    passed = made_by(end.operands[number], "memref.cast")
    carried = loop.results[number].type
    if passed is None or not isinstance(carried, ir.MemRefType) or not _is_strided(carried):
        return
    dense = passed.operands[0].type
    if not isinstance(dense, ir.MemRefType) or _is_strided(dense) or list(dense.shape) != list(carried.shape):
        return
    position = len(loop.operands) - len(loop.results) + number
    with ir.InsertionPoint(loop), loop.location:
        begin = loop.operands[position]
        made = made_by(begin, "memref.cast")
        source = begin if made is None else made.operands[0]
        loop.operands[position] = source if source.type == dense else _copied(source, dense)
    end.operands[number] = passed.operands[0]
    for value, place in (
        (body.arguments[1 + number], ir.InsertionPoint.at_block_begin(body)),
        (loop.results[number], ir.InsertionPoint.after(loop)),
    ):
        value.set_type(dense)
        others = [use for use in value.uses if use.owner.operation.name != "linalg.generic"]
        with place, loop.location:
            view = memref.CastOp(carried, value).result if others else None
        for use in others:
            use.owner.operation.operands[use.operand_number] = view


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
    with ir.InsertionPoint(cast), cast.location:
        cast.results[0].replace_all_uses_with(_copied(cast.operands[0], ir.MemRefType(cast.results[0].type)))
    cast.erase()


def _copied(source: ir.Value, type_: ir.MemRefType) -> ir.Value:
    """A buffer of ``type_`` with the elements of ``source``, at the insertion point."""
    sizes = [memref.DimOp(source, index(axis)).result for axis in range(type_.rank) if type_.is_dynamic_dim(axis)]
    buffer: ir.Value = memref.AllocOp(type_, sizes, []).result
    memref.CopyOp(source, buffer)
    return buffer
