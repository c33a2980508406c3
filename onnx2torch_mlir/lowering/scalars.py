"""Bodies of the pointwise primitives on one element: a table with one entry per primitive and kind of dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch_mlir import ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering import integer
from onnx2torch_mlir.lowering.builder import Builder
from onnx2torch_mlir.lowering.dtypes import Kind, kind

Scalar = str | Callable[..., ir.Value]
"""An operation whose operands and result have one type, by name; or a function (builder, *elements) -> element."""


@dataclass(frozen=True)
class Row:
    """Bodies by kind (``c`` for complex numbers), and the dtype they compute in.

    ``compute``: "result" is the result's dtype, "operands" the promoted dtype of the operands (the result is bool),
    "truth" the truth value of each operand. ``b`` (bool) falls back to ``u``, ``u`` to ``s``. Float bodies see f32
    or f64 only.
    """

    f: Scalar | None = None
    s: Scalar | None = None
    u: Scalar | None = None
    b: Scalar | None = None
    c: Scalar | None = None
    compute: Literal["result", "operands", "truth"] = "result"

    def body(self, kind: Kind) -> Scalar | None:
        """The body for a kind of dtype, or None."""
        chain = {
            Kind.FLOAT: (self.f,),
            Kind.SIGNED: (self.s,),
            Kind.UNSIGNED: (self.u, self.s),
            Kind.BOOL: (self.b, self.u, self.s),
            Kind.COMPLEX: (self.c,),
        }[kind]
        return next((body for body in chain if body is not None), None)


def _same(b: Builder, x: ir.Value) -> ir.Value:
    return x


def f(b: Builder, value: float, like: ir.Value) -> ir.Value:
    """A float constant of the type of ``like``."""
    return b.float_constant(value, like.type)


def _sign(b: Builder, x: ir.Value) -> ir.Value:
    positive = b.make("arith.uitofp", x.type, b.compare("ogt", x, f(b, 0.0, x)))
    negative = b.make("arith.uitofp", x.type, b.compare("olt", x, f(b, 0.0, x)))
    return b.same("arith.subf", positive, negative)


def _reciprocal(b: Builder, x: ir.Value) -> ir.Value:
    return b.same("arith.divf", f(b, 1.0, x), x)


def _rsqrt(b: Builder, x: ir.Value) -> ir.Value:
    return _reciprocal(b, b.same("math.sqrt", x))


def _sigmoid(b: Builder, x: ir.Value) -> ir.Value:
    return _reciprocal(b, b.same("arith.addf", f(b, 1.0, x), b.same("math.exp", b.same("arith.negf", x))))


def _relu(b: Builder, x: ir.Value) -> ir.Value:
    zero = f(b, 0.0, x)
    return b.select(b.compare("ogt", zero, x), zero, x)


def _gelu_erf(b: Builder, x: ir.Value) -> ir.Value:
    erf = b.same("math.erf", b.same("arith.mulf", x, f(b, math.sqrt(0.5), x)))
    half = b.same("arith.mulf", x, f(b, 0.5, x))
    return b.same("arith.mulf", half, b.same("arith.addf", f(b, 1.0, x), erf))


def _gelu_tanh(b: Builder, x: ir.Value) -> ir.Value:
    cube = b.same("arith.mulf", b.same("arith.mulf", x, x), x)
    inner = b.same("arith.addf", x, b.same("arith.mulf", cube, f(b, 0.044715, x)))
    tanh = b.same("math.tanh", b.same("arith.mulf", inner, f(b, math.sqrt(2.0 / math.pi), x)))
    half = b.same("arith.mulf", x, f(b, 0.5, x))
    return b.same("arith.mulf", half, b.same("arith.addf", f(b, 1.0, x), tanh))


def _isinf(b: Builder, x: ir.Value) -> ir.Value:
    return b.compare("oeq", b.same("math.absf", x), f(b, math.inf, x))


def _false(b: Builder, x: ir.Value) -> ir.Value:
    return b.int_constant(0, b.i1)


def _float_fmod(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.same("arith.remf", x, y)


def _wrong_side(b: Builder, rest: ir.Value, y: ir.Value) -> ir.Value:
    """Whether a remainder is not zero and has not the divisor's sign."""
    zero = f(b, 0.0, y)
    signs = b.same("arith.xori", b.compare("olt", y, zero), b.compare("olt", rest, zero))
    return b.same("arith.andi", signs, b.compare("une", rest, zero))


def _float_remainder(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    rest = b.same("arith.remf", x, y)
    return b.select(_wrong_side(b, rest, y), b.same("arith.addf", rest, y), rest)


def _float_floor_divide(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    quotient = b.same("arith.divf", x, y)
    rest = b.same("arith.remf", x, y)
    exact = b.same("arith.divf", b.same("arith.subf", x, rest), y)
    exact = b.select(_wrong_side(b, rest, y), b.same("arith.subf", exact, f(b, 1.0, x)), exact)
    floor = b.same("math.floor", exact)
    above = b.compare("ogt", b.same("arith.subf", exact, floor), f(b, 0.5, x))
    floor = b.select(above, b.same("arith.addf", floor, f(b, 1.0, x)), floor)
    zero = b.same("math.copysign", f(b, 0.0, x), quotient)
    result = b.select(b.compare("oeq", exact, f(b, 0.0, x)), zero, floor)
    return b.select(b.compare("oeq", y, f(b, 0.0, y)), quotient, result)


def _float_trunc_divide(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.same("math.trunc", b.same("arith.divf", x, y))


def _compare(float_predicate: str, signed: str, unsigned: str, equality: str | None = None) -> Row:
    return Row(
        f=lambda b, x, y: b.compare(float_predicate, x, y),
        s=lambda b, x, y: b.compare(signed, x, y),
        u=lambda b, x, y: b.compare(unsigned, x, y),
        c=None if equality is None else lambda b, x, y: b.make(equality, b.i1, x, y),
        compute="operands",
    )


def _float(body: Scalar) -> Row:
    return Row(f=body)


def _whole(body: Scalar) -> Row:
    """A rounding: nothing to do on integers."""
    return Row(f=body, s=_same)


_MATH = (
    *("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "erf"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)

ROWS: dict[str, Row] = {
    "abs": Row("math.absf", "math.absi", _same),
    "neg": Row("arith.negf", integer.negate, c="complex.neg"),
    "ceil": _whole("math.ceil"),
    "floor": _whole("math.floor"),
    "round": _whole("math.roundeven"),
    "trunc": _whole("math.trunc"),
    "sign": Row(_sign, integer.sign, integer.sign_unsigned, _same),
    "sqrt": _float("math.sqrt"),
    "rsqrt": _float(_rsqrt),
    "reciprocal": _float(_reciprocal),
    **{name: _float(f"math.{name}") for name in _MATH},
    "sigmoid": _float(_sigmoid),
    "relu": Row(_relu, integer.relu, _same),
    "gelu": _float(_gelu_erf),
    "gelu/tanh": _float(_gelu_tanh),
    "logical_not": Row(b=lambda b, x: b.logical_not(x), compute="truth"),
    "bitwise_not": Row(s=integer.invert),
    "isnan": Row(lambda b, x: b.compare("uno", x, x), _false, compute="operands"),
    "isinf": Row(_isinf, _false, compute="operands"),
    "add": Row("arith.addf", "arith.addi", b="arith.ori", c="complex.add"),
    "sub": Row("arith.subf", "arith.subi", c="complex.sub"),
    "mul": Row("arith.mulf", "arith.muli", b="arith.andi", c="complex.mul"),
    "div": Row("arith.divf", c="complex.div"),
    "div/floor": Row(_float_floor_divide, integer.floor_divide, integer.divide_unsigned),
    "div/trunc": Row(_float_trunc_divide, integer.divide, integer.divide_unsigned),
    "fmod": Row(_float_fmod, integer.fmod, integer.remainder_unsigned),
    "remainder": Row(_float_remainder, integer.remainder, integer.remainder_unsigned),
    "pow": Row("math.powf", integer.power, integer.power_unsigned),
    "maximum": Row("arith.maximumf", "arith.maxsi", "arith.maxui"),
    "minimum": Row("arith.minimumf", "arith.minsi", "arith.minui"),
    "atan2": _float("math.atan2"),
    "eq": _compare("oeq", "eq", "eq", "complex.eq"),
    "ne": _compare("une", "ne", "ne", "complex.neq"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "logical_and": Row(b="arith.andi", compute="truth"),
    "logical_or": Row(b="arith.ori", compute="truth"),
    "logical_xor": Row(b="arith.xori", compute="truth"),
    "bitwise_and": Row(s="arith.andi"),
    "bitwise_or": Row(s="arith.ori"),
    "bitwise_xor": Row(s="arith.xori"),
    "bitwise_left_shift": Row(s=integer.shift_left),
    "bitwise_right_shift": Row(s=integer.shift_right, u=integer.shift_right_unsigned),
}
"""Rows by the primitive's name without overload; ``name/mode`` where an argument chooses the body."""


def scalar_body(row: str | Row, dtype: torch.dtype) -> Scalar:
    """The body of a row (or the row of a name) on ``dtype``; refuses (O2M-L002) what is not defined there."""
    body = (ROWS[row] if isinstance(row, str) else row).body(kind(dtype))
    if body is None:
        raise refuse("O2M-L002", f"{row if isinstance(row, str) else 'this'} is not defined on {dtype}", case=str(dtype))
    return body


def emit(b: Builder, body: Scalar, *operands: ir.Value) -> ir.Value:
    """One application of a body."""
    return b.same(body, *operands) if isinstance(body, str) else body(b, *operands)
