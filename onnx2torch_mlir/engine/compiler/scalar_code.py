"""Scalar code written as formulas: operators on `Scalar` emit operations of ``arith`` where the insertion point is.

There are no branches and no calls, so that a loop around such code is one that LLVM vectorises.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import llvm

from onnx2torch_mlir.engine.compiler.vector_unit import of_host

Number: TypeAlias = "Scalar | float | int"

_OFFSET_BITS_32 = 0x4B400000 + 254
_OFFSET_BITS_64 = 0x4338000000000000 + 2046
"""The bits of 1.5 * 2**23 + 254 as f32, and of 1.5 * 2**52 + 2046 as f64."""

_COMPARISONS = {"lt": (4, 2), "le": (5, 3), "gt": (2, 4), "ge": (3, 5), "eq": (1, 0)}
"""Predicates by name: of ``arith.cmpf`` (ordered: false for NaN) and of ``arith.cmpi`` (signed)."""


@dataclass(frozen=True, eq=False)
class Scalar:
    """A value of a float or integer type (or i1); Python numbers beside it are constants of its type."""

    value: ir.Value

    @property
    def type(self) -> ir.Type:
        """The type of the value."""
        return self.value.type

    def __neg__(self) -> Scalar:
        """Of a float."""
        return emit("arith.negf", self)

    def __add__(self, other: Number) -> Scalar:
        return self._binary("add", other)

    def __sub__(self, other: Number) -> Scalar:
        return self._binary("sub", other)

    def __rsub__(self, other: float) -> Scalar:
        return constant(other, self.type) - self

    def __mul__(self, other: Number) -> Scalar:
        return self._binary("mul", other)

    def __truediv__(self, other: Number) -> Scalar:
        return self._binary("div", other)

    def __rtruediv__(self, other: float) -> Scalar:
        return constant(other, self.type) / self

    def __and__(self, other: Number) -> Scalar:
        return self._binary("and", other)

    def __or__(self, other: Number) -> Scalar:
        return self._binary("or", other)

    def __xor__(self, other: Number) -> Scalar:
        return self._binary("xor", other)

    def __lshift__(self, other: int) -> Scalar:
        return self._binary("shl", other)

    def __rshift__(self, other: int) -> Scalar:
        """The arithmetic shift."""
        return self._binary("shrs", other)

    def __lt__(self, other: Number) -> Scalar:
        return self.compare("lt", other)

    def __le__(self, other: Number) -> Scalar:
        return self.compare("le", other)

    def __gt__(self, other: Number) -> Scalar:
        return self.compare("gt", other)

    def __ge__(self, other: Number) -> Scalar:
        return self.compare("ge", other)

    def equals(self, other: Number) -> Scalar:
        """Whether both are equal; false for NaN."""
        return self.compare("eq", other)

    def compare(self, name: str, other: Number) -> Scalar:
        """An i1."""
        floating, whole = _COMPARISONS[name]
        is_float = isinstance(self.type, ir.FloatType)
        predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), floating if is_float else whole)
        return Scalar(
            ir.Operation.create(
                "arith.cmpf" if is_float else "arith.cmpi",
                results=[ir.IntegerType.get_signless(1)],
                operands=[self.value, self._of(other).value],
                attributes={"predicate": predicate},
            ).results[0]
        )

    def bits(self) -> Scalar:
        """The integer with the same bits."""
        return converted("arith.bitcast", self, ir.IntegerType.get_signless(ir.FloatType(self.type).width))

    def _of(self, other: Number) -> Scalar:
        return other if isinstance(other, Scalar) else constant(other, self.type)

    def _binary(self, name: str, other: Number) -> Scalar:
        kind = "f" if isinstance(self.type, ir.FloatType) else "i"
        suffix = "i" if name.startswith("shr") else kind
        return emit(f"arith.{name}{suffix}" if name != "shrs" else "arith.shrsi", self, self._of(other))


def constant(number: float, type_: ir.Type) -> Scalar:
    """A constant; an integer is wrapped to the type's width."""
    if isinstance(type_, ir.FloatType):
        attribute: ir.Attribute = ir.FloatAttr.get(type_, float(number))
    else:
        width = ir.IntegerType(type_).width
        wrapped = int(number) & ((1 << width) - 1)
        attribute = ir.IntegerAttr.get(type_, wrapped - (1 << width) if wrapped >> (width - 1) else wrapped)
    return Scalar(ir.Operation.create("arith.constant", results=[type_], attributes={"value": attribute}).results[0])


def emit(name: str, *operands: Scalar) -> Scalar:
    """An operation whose one result has the type of its first operand."""
    values = [operand.value for operand in operands]
    return Scalar(ir.Operation.create(name, results=[values[0].type], operands=values).results[0])


def converted(name: str, operand: Scalar, type_: ir.Type) -> Scalar:
    """An operation of one operand whose result has the type ``type_``."""
    return Scalar(ir.Operation.create(name, results=[type_], operands=[operand.value]).results[0])


def float_of_bits(bits: Scalar) -> Scalar:
    """The f32 with the bits of an i32, or the f64 with those of an i64."""
    wide = ir.IntegerType(bits.type).width == 64
    return converted("arith.bitcast", bits, ir.F64Type.get() if wide else ir.F32Type.get())


def select(condition: Scalar, yes: Number, no: Number) -> Scalar:
    """``yes`` where the condition holds, else ``no``; at least one of them is a `Scalar`."""
    like = yes if isinstance(yes, Scalar) else no
    assert isinstance(like, Scalar)
    one, other = like._of(yes), like._of(no)
    operands = [condition.value, one.value, other.value]
    return Scalar(ir.Operation.create("arith.select", results=[like.type], operands=operands).results[0])


def fma(x: Scalar, y: Number, z: Number) -> Scalar:
    """x * y + z: with one rounding where the CPU has such an instruction, else with two (never by a library's routine)."""
    return emit("llvm.intr.fmuladd", x, x._of(y), x._of(z))


def magnitude(x: Scalar) -> Scalar:
    """|x|."""
    return emit("math.absf", x)


def square_root(x: Scalar) -> Scalar:
    """The square root; NaN of what is negative."""
    return emit("math.sqrt", x)


def signed(x: Scalar, sign: Scalar) -> Scalar:
    """``x``, which is not negative, with the sign of ``sign``; both are f32, or f64."""
    highest = -(2 ** (ir.FloatType(x.type).width - 1))
    return float_of_bits(x.bits() | (sign.bits() & highest))


def clamped(x: Scalar, low: float | None, high: float | None) -> Scalar:
    """x within the bounds; NaN stays."""
    if low is not None:
        x = select(x < low, low, x)
    if high is not None:
        x = select(x > high, high, x)
    return x


def polynomial(x: Scalar, coefficients: Sequence[Number]) -> Scalar:
    """The sum of coefficient i times x to the i, by Horner's rule."""
    value: Number = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        value = fma(x, value, coefficient)
    assert isinstance(value, Scalar)
    return value


def by_pairs(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """The same sum over the square of x, two coefficients at a time: a product more, but little more than half as long a chain
    (Estrin's scheme, by fours, has still shorter ones, but two products more: erf takes 5 % longer on Zen 5)."""
    pairs = (coefficients[low : low + 2] for low in range(0, len(coefficients), 2))
    return polynomial(x * x, [fma(x, pair[1], pair[0]) if len(pair) == 2 else pair[0] for pair in pairs])


def power_of_2(places: Scalar) -> Scalar:
    """2 to the number that the lowest bits of an i32 hold, 127 added to it, as f32; it is 0 for -127. Of an i64, as f64, 1023
    is added."""
    return float_of_bits(places << (52 if ir.IntegerType(places.type).width == 64 else 23))


def scaled(x: Scalar, shifted: Scalar) -> Scalar:
    """x times 2 to the n, for the sum ``shifted`` of n, 254 and 1.5 * 2**23 in f32; of n, 2046 and 1.5 * 2**52 in f64.

    Only the result is rounded, as a denormal, or overflows: by one instruction where vectors have it, else by two products.
    """
    bits = shifted.bits()
    wide = ir.IntegerType(bits.type).width == 64
    if of_host().scales:
        n = bits - (_OFFSET_BITS_64 if wide else _OFFSET_BITS_32)
        n = converted("arith.trunci", n, ir.IntegerType.get_signless(32)) if wide else n
        return Scalar(llvm.call_intrinsic(x.type, "llvm.ldexp", [x.value, n.value], [], []))
    half = bits >> 1
    return x * power_of_2(half) * power_of_2(bits - half)


def float_bits(number: float) -> int:
    """The bits of a number as f32."""
    return int(struct.unpack("<I", struct.pack("<f", number))[0])
