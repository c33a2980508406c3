"""Conversions between float types that LLVM would leave to a compiler's run-time library."""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import arith, math

from onnx2torch_mlir.engine.compiler.walks import functions, nested


def legalize(module: ir.Module) -> None:
    """Rewrite conversions between f64 and 16-bit floats, and ``fma`` on 16-bit floats, by way of f32."""
    narrow = (ir.F16Type.get(), ir.BF16Type.get())
    for function in functions(module):
        for operation in nested(function):
            if operation.name == "arith.truncf" and isinstance(operation.operands[0].type, ir.F64Type):
                if operation.results[0].type in narrow:
                    _truncate_in_two_steps(operation)
            elif operation.name == "arith.extf" and isinstance(operation.results[0].type, ir.F64Type):
                if operation.operands[0].type in narrow:
                    _extend_in_two_steps(operation)
            elif operation.name == "math.fma" and operation.results[0].type in narrow:
                _fma_in_f32(operation)


def select_as_bits(module: ir.Module) -> None:
    """Rewrite ``select`` between 16-bit floats on their bits.

    LLVM widens both sides to f32 where the CPU has no such select, and narrows the result by a routine of a compiler's
    run-time library.
    """
    narrow, bits = (ir.F16Type.get(), ir.BF16Type.get()), ir.IntegerType.get_signless(16)
    for function in functions(module):
        for operation in nested(function):
            if operation.name == "arith.select" and operation.results[0].type in narrow:
                with ir.InsertionPoint(operation), operation.location:
                    sides = [arith.BitcastOp(bits, side).result for side in list(operation.operands)[1:]]
                    chosen = arith.SelectOp(operation.operands[0], *sides).result
                    result = arith.BitcastOp(operation.results[0].type, chosen).result
                operation.results[0].replace_all_uses_with(result)
                operation.erase()


def _extend_in_two_steps(operation: ir.Operation) -> None:
    with ir.InsertionPoint(operation), operation.location:
        single = arith.ExtFOp(ir.F32Type.get(), operation.operands[0]).result
        result = arith.ExtFOp(ir.F64Type.get(), single).result
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def _truncate_in_two_steps(operation: ir.Operation) -> None:
    """f64 to f32 rounding to odd, then to the narrow type: the two roundings together are exactly one."""
    f32, f64, i32, i1 = (
        ir.F32Type.get(),
        ir.F64Type.get(),
        ir.IntegerType.get_signless(32),
        ir.IntegerType.get_signless(1),
    )
    value = operation.operands[0]
    predicate = ir.IntegerType.get_signless(64)

    def compare(kind: int, left: ir.Value, right: ir.Value) -> ir.Value:
        return arith.CmpFOp(ir.IntegerAttr.get(predicate, kind), left, right).result

    with ir.InsertionPoint(operation), operation.location:
        one = arith.ConstantOp(i32, ir.IntegerAttr.get(i32, 1)).result
        nearest = arith.TruncFOp(f32, value).result
        back = arith.ExtFOp(f64, nearest).result
        bits = arith.BitcastOp(i32, nearest).result
        even = arith.XOrIOp(arith.TruncIOp(i1, bits).result, arith.TruncIOp(i1, one).result).result
        inexact = compare(arith.CmpFPredicate.ONE, back, value)
        too_far = compare(arith.CmpFPredicate.OGT, math.AbsFOp(back).result, math.AbsFOp(value).result)
        # An inexact, even result has its odd neighbour on the other side of the value.
        neighbour = arith.SelectOp(too_far, arith.SubIOp(bits, one).result, arith.AddIOp(bits, one).result).result
        odd = arith.SelectOp(arith.AndIOp(inexact, even).result, neighbour, bits).result
        result = arith.TruncFOp(operation.results[0].type, arith.BitcastOp(f32, odd).result).result
    operation.results[0].replace_all_uses_with(result)
    operation.erase()


def _fma_in_f32(operation: ir.Operation) -> None:
    f32 = ir.F32Type.get()
    with ir.InsertionPoint(operation), operation.location:
        wide = [arith.ExtFOp(f32, operand).result for operand in operation.operands]
        result = arith.TruncFOp(operation.results[0].type, math.FmaOp(*wide).result).result
    operation.results[0].replace_all_uses_with(result)
    operation.erase()
