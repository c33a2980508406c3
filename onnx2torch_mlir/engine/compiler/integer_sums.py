"""Sums in 64 bits of products of bytes: 32 bits hold those of so many that only the run tells whether there are more.

Where a loop that is summed over has an open length, its sums are i64 in the program. The driver adds in i32: it is called where
the run has few enough products, and its sums are extended after; else the plain loops do it.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from onnx2torch_mlir.engine.compiler import integer_zeros
from onnx2torch_mlir.engine.compiler.integer_match import IntegerContraction
from onnx2torch_mlir.engine.compiler.linalg_ops import GenericOp, YieldOp, iterator_types, map_attributes
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, fill_before, where
from onnx2torch_mlir.engine.compiler.walks import copied

_LARGEST_PRODUCT = 255 * 255
_MOST_PRODUCTS = ((1 << 31) - 1) // _LARGEST_PRODUCT


def narrow(found: IntegerContraction) -> ir.Operation | None:
    """Replace a contraction whose sums are i64 by a branch; gives the one with sums of i32 in it, for the driver.

    None where it cannot be: the result is added to, a zero point may be no byte's, or there always are too many products.
    """
    generic = found.generic
    fill = fill_before(generic)
    if fill is None or integer_zeros.unknown(found) or None not in [found.fixed_length(dim) for dim in found.sums]:
        return None
    with ir.InsertionPoint(generic), generic.location:
        sizes = Sizes(found)
        fits = arith.CmpIOp(arith.CmpIPredicate.sle, sizes.count_of(found.sums), sizes.number(_MOST_PRODUCTS)).result
        with where(fits, generic, fill):
            made = _in_words(generic)
    generic.erase()
    return made


def _in_words(generic: ir.Operation) -> ir.Operation:
    """At the insertion point: the sums in a buffer of i32, which it gives, and what extends them to the result."""
    word, long = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(64)
    result = generic.operands[len(generic.operands) - 1]
    type_ = ir.MemRefType(result.type)
    open_axes = [axis for axis in range(type_.rank) if type_.is_dynamic_dim(axis)]
    lengths = [memref.DimOp(result, arith.ConstantOp(ir.IndexType.get(), axis).result).result for axis in open_axes]
    buffer = memref.AllocOp(ir.MemRefType.get(type_.shape, word), lengths, []).result
    every = ir.AffineMap.get_identity(type_.rank)
    parallel = iterator_types([False] * type_.rank)
    zero = arith.ConstantOp(word, ir.IntegerAttr.get(word, 0)).result
    fill = GenericOp([], [], [buffer], map_attributes([every]), parallel)
    with ir.InsertionPoint(fill.regions[0].blocks.append(word)):
        YieldOp([zero])
    maps, iterators = generic.attributes["indexing_maps"], generic.attributes["iterator_types"]
    sums = GenericOp([], list(generic.operands)[:-1], [buffer], maps, iterators)
    _write_sums(generic.regions[0].blocks[0], sums.regions[0])
    wide = GenericOp([], [buffer], [result], map_attributes([every, every]), parallel)
    block = wide.regions[0].blocks.append(word, long)
    with ir.InsertionPoint(block):
        YieldOp([arith.ExtSIOp(long, block.arguments[0]).result])
    memref.DeallocOp(buffer)
    made: ir.Operation = sums.operation
    return made


def _write_sums(source: ir.Block, region: ir.Region) -> None:
    """The body of ``source``, which adds a product that it extends, in i32."""
    arguments = list(source.arguments)
    *before, end = (operation.operation for operation in source.operations)
    total = end.operands[0].owner.operation
    (extended,) = (value for value in total.operands if value != arguments[-1])
    extension = extended.owner.operation
    block = region.blocks.append(*[argument.type for argument in arguments[:-1]], ir.IntegerType.get_signless(32))
    *given, running = block.arguments
    mapping = dict(zip(arguments[:-1], given, strict=True))
    with ir.InsertionPoint(block):
        for operation in before:
            if operation not in (total, extension):
                copied(operation, mapping)
        YieldOp([arith.AddIOp(running, mapping[extension.operands[0]]).result])
