"""Whether zero points that are known only at run time are those of bytes: the driver of integers takes no others.

A zero point is an i32 in the program. Numbers of a byte less one of up to `LARGEST` in magnitude have products of which tiles
can add two; of others, the plain loops take care.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf

from onnx2torch_mlir.engine.compiler.integer_match import LARGEST, IntegerContraction
from onnx2torch_mlir.engine.compiler.walks import constant_of, is_memref, made_by, root_of, writers_of

_EXTENSIONS = ("arith.extsi", "arith.extui")


def unknown(found: IntegerContraction) -> list[ir.Value]:
    """The zero points of a contraction, numbers or memrefs, of which it is not known that a byte holds them."""
    zeros = []
    for side in (found.left, found.right):
        zero = side.zero if side.number is None else found.generic.operands[side.number]
        if zero is not None and constant_of(zero) is None and not _is_byte(zero):
            zeros.append(zero)
    return zeros


def fit(zeros: list[ir.Value]) -> ir.Value:
    """At the insertion point: whether all of them are in the range."""
    word, bit = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(1)
    offset, limit = (arith.ConstantOp(word, ir.IntegerAttr.get(word, n)).result for n in (LARGEST, 2 * LARGEST))

    def fits(number: ir.Value) -> ir.Value:
        return arith.CmpIOp(arith.CmpIPredicate.ule, arith.AddIOp(number, offset).result, limit).result

    all_fit: ir.Value = arith.ConstantOp(bit, ir.BoolAttr.get(True)).result
    for zero in zeros:
        if not is_memref(zero.type):
            here = fits(zero)
        elif not ir.MemRefType(zero.type).rank:
            here = fits(memref.LoadOp(zero, []).result)
        else:
            none, one = (arith.ConstantOp(ir.IndexType.get(), n).result for n in (0, 1))
            loop = scf.ForOp(none, memref.DimOp(zero, none).result, one, [all_fit])
            with ir.InsertionPoint(loop.body):
                number = memref.LoadOp(zero, [loop.induction_variable]).result
                scf.YieldOp([arith.AndIOp(loop.inner_iter_args[0], fits(number)).result])
            here = loop.results[0]
        all_fit = arith.AndIOp(all_fit, here).result
    return all_fit


def _is_byte(value: ir.Value) -> bool:
    """Whether a number, or all of a memref, was extended from a byte."""
    operation = made_by(value)
    if operation is None:
        return False
    if not is_memref(value.type):
        if operation.name == "memref.load":
            return _is_byte(operation.operands[0])
        return operation.name in _EXTENSIONS and str(operation.operands[0].type) == "i8"
    writers, others = writers_of(value)
    if others or len(writers) != 1 or made_by(root_of(value), "memref.alloc") is None:
        return False
    yielded = list(writers[0].regions[0].blocks[0].operations)[-1].operation.operands[0]
    return _is_byte(yielded)
