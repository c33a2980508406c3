"""Products of float32 numbers added up in float64 and rounded back are one instruction: the multiply-add of float32.

The product of two float32 numbers has no rounding in float64, so that what is rounded is the sum; the instruction rounds it
once. (Rounded to float64 first, a sum that has more than its 53 bits may come to lie between two float32 numbers that it is not
between: there the instruction is right.)
"""

from __future__ import annotations

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, math

from onnx2torch_mlir.engine import objects
from onnx2torch_mlir.engine.compiler.walks import constant_of, erase_unused, functions, made_by, named

_EXACT_BITS = 24
"""Integers of so many bits are float32 numbers."""

_LARGEST = float(np.finfo(np.float32).max)


def use_multiply_add(module: ir.Module) -> None:
    """Rewrite roundings of such sums to float32, where the processor has the instruction."""
    if "+fma" not in objects.host().split()[-1].split(","):
        return
    for function in functions(module):
        for rounding in named(function, "arith.truncf"):
            if isinstance(rounding.results[0].type, ir.F32Type):
                _rewrite(rounding)


def _rewrite(rounding: ir.Operation) -> None:
    total = made_by(rounding.operands[0], "arith.addf")
    if total is None or not isinstance(total.results[0].type, ir.F64Type):
        return
    for place in (0, 1):
        product = made_by(total.operands[place], "arith.mulf")
        if product is None:
            continue
        terms = [*product.operands, total.operands[1 - place]]
        if all(map(_is_single, terms)):
            with ir.InsertionPoint(rounding), rounding.location:
                result = math.FmaOp(*map(_single, terms)).result
            rounding.results[0].replace_all_uses_with(result)
            erase_unused(rounding)
            return


def _is_single(value: ir.Value) -> bool:
    """Whether a float64 is a float32 number."""
    made = made_by(value, "arith.extf", "arith.sitofp", "arith.uitofp")
    if made is not None:
        given = made.operands[0].type
        return isinstance(given, ir.F32Type) or (isinstance(given, ir.IntegerType) and given.width <= _EXACT_BITS)
    number = constant_of(value)
    return number is not None and abs(number) <= _LARGEST and float(np.float32(number)) == number


def _single(value: ir.Value) -> ir.Value:
    """The same number as a float32, at the insertion point."""
    f32 = ir.F32Type.get()
    made = made_by(value)
    number = constant_of(value)
    if number is not None or made is None:
        result: ir.Value = arith.ConstantOp(f32, ir.FloatAttr.get(f32, number)).result
        return result
    if made.name == "arith.extf":
        return made.operands[0]
    convert = arith.SIToFPOp if made.name == "arith.sitofp" else arith.UIToFPOp
    converted: ir.Value = convert(f32, made.operands[0]).result
    return converted
