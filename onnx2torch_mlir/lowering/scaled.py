"""Tensors that are integers less a zero point, times a factor: what is dequantized is known by these as long as it can be.

A rule that knows `Scaled` operands computes on the integers. For any other the numbers are made (`Scaled.value`) where the
rule asks for them, which is the exact float form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.builder import MapResults
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand, Spec


@dataclass(frozen=True)
class Parameter:
    """A scale (float32) or zero point (int32): one element, or with ``axis`` a tensor [size of that axis].

    ``number`` is the element where the program says it.
    """

    value: ir.Value
    dtype: torch.dtype
    axis: int | None = None
    number: float | int | None = None

    def at(self, axis: int | None) -> Parameter:
        """The same numbers along another axis."""
        return self if axis == self.axis else replace(self, axis=axis)


def constant(ctx: Context, number: float | int, dtype: torch.dtype) -> Parameter:
    """A parameter that is one known number, rounded to ``dtype``."""
    known = float(np.float32(number)) if dtype.is_floating_point else int(number)
    return Parameter(ctx.b.constant(known, dtype), dtype, None, known)


def combined(ctx: Context, name: str, x: Parameter, y: Parameter) -> Parameter:
    """``arith.<name>`` (mulf or divf) of two factors that are numbers or lie along one axis."""
    if x.number is not None and y.number is not None:
        with np.errstate(all="ignore"):
            pair = np.float32(x.number), np.float32(y.number)
            return constant(ctx, float(pair[0] * pair[1] if name == "mulf" else pair[0] / pair[1]), x.dtype)
    vectors = [p.value for p in (x, y) if p.axis is not None]
    if not vectors:
        return Parameter(ctx.b.same(f"arith.{name}", x.value, y.value), x.dtype)

    def body(*elements: ir.Value) -> ir.Value:
        given = iter(elements)
        return ctx.b.same(f"arith.{name}", *[p.value if p.axis is None else next(given) for p in (x, y)])

    size = ctx.b.op("tensor.empty", [vectors[0].type], _extent(ctx, vectors[0])).results[0]
    result = ctx.b.generic([(v, (0,)) for v in vectors], [(size, (0,))], "p", body)
    return Parameter(result[0], x.dtype, x.axis if x.axis is not None else y.axis)


def _extent(ctx: Context, vector: ir.Value) -> list[ir.Value]:
    dynamic = ir.RankedTensorType(vector.type).is_dynamic_dim(0)
    return [ctx.b.make("tensor.dim", ctx.b.index, vector, ctx.b.idx(0))] if dynamic else []


def factors_of(ctx: Context, name: str, given: Sequence[Parameter], factor: Parameter) -> tuple[Parameter, ...]:
    """``given`` with one more factor: one number at most, and one tensor for each axis."""
    for place, other in enumerate(given):
        if other.axis == factor.axis or (len(given) == 1 and None in (other.axis, factor.axis)):
            return (*given[:place], combined(ctx, name, other, factor), *given[place + 1 :])
    if name == "divf":
        return (combined(ctx, name, given[0], factor), *given[1:]) if factor.axis is None else ()
    return (*given, factor)


class Scaled(Operand):
    """(codes - zero) * factors in float32; without factors (codes - zero) in int32.

    ``codes`` has the shape and an integer dtype (of 64 bits: no zero point). ``summed`` tells sums and products, which are
    rescaled by one factor as onnxruntime does, from what was dequantized.
    """

    __slots__ = ("_ctx", "_made", "codes", "factors", "summed", "zero")

    codes: Operand
    zero: Parameter | None
    factors: tuple[Parameter, ...]
    summed: bool
    _ctx: Context
    _made: ir.Value | None

    def __init__(
        self,
        ctx: Context,
        codes: Operand,
        zero: Parameter | None,
        factors: tuple[Parameter, ...],
        *,
        summed: bool = False,
    ) -> None:
        fields = {
            "dtype": torch.float32 if factors else torch.int32,
            "shape": codes.shape,
            "codes": codes,
            "zero": None if zero is not None and zero.number == 0 else zero,
            "factors": factors,
            "summed": summed,
            "_ctx": ctx,
            "_made": None,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def value(self) -> ir.Value:
        """The numbers, made at the first call in the place of that call."""
        made = self._made
        if made is None:
            made = self._make()
            object.__setattr__(self, "_made", made)
        return made

    def plain(self) -> Operand:
        """The numbers as an operand like any other."""
        return Operand(self.dtype, self.shape, self.value)

    def with_codes(self, codes: Operand, axes: Callable[[int], int] = lambda axis: axis) -> Scaled:
        """Other integers with the same parameters, those along an axis now along ``axes(axis)``."""
        moved = [p.at(None if p.axis is None else axes(p.axis)) for p in (*self.parameters,)]
        zero = moved.pop(0) if self.zero is not None else None
        return Scaled(self._ctx, codes, zero, tuple(moved), summed=self.summed)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Zero point, if there is one, and factors."""
        return (() if self.zero is None else (self.zero,)) + self.factors

    @property
    def is_whole(self) -> bool:
        """Whether the parameters are for the whole tensor."""
        return all(p.axis is None for p in self.parameters)

    @property
    def number(self) -> float | None:
        """The one factor, where the program says it."""
        known = self.factors[0].number if len(self.factors) == 1 else None
        return None if known is None else float(known)

    @property
    def offset(self) -> int | None:
        """The one zero point, where the program says it."""
        known = 0 if self.zero is None else self.zero.number
        return None if known is None else int(known)

    @property
    def is_byte(self) -> bool:
        """Whether the integers are of a byte, for which products and sums are made in int32."""
        return self.codes.dtype in (torch.int8, torch.uint8)

    def _make(self) -> ir.Value:
        ctx, b = self._ctx, self._ctx.b

        def body(code: ir.Value, *parameters: ir.Value) -> ir.Value:
            rest = list(parameters)
            wide = self.codes.dtype is torch.int64
            element = code if wide else cast(b, code, self.codes.dtype, torch.int32)
            if self.zero is not None:
                element = b.same("arith.subi", element, rest.pop(0))
            if rest:
                element = b.make("arith.sitofp", b.element(torch.float32), element)
            for factor in rest:
                element = b.same("arith.mulf", element, factor)
            return element

        return each(ctx, self.spec, self.codes, self.parameters, body).value


def each(
    ctx: Context, out: Spec, x: Operand, parameters: Sequence[Parameter], body: Callable[..., ir.Value]
) -> Operand:
    """``body(element, *parameters)`` for each element of ``x``, which has the shape of ``out``."""
    identity = tuple(range(x.rank))
    inputs, pick = readers(parameters, lambda axis: axis)
    result = ctx.b.generic(
        [(x.value, identity), *inputs],
        [(ctx.empty(out.dtype, out.shape), identity)],
        "p" * x.rank,
        lambda element, *rest: body(element, *pick(rest[:-1])),
    )
    return Operand(out.dtype, out.shape, result[0])


def readers(
    parameters: Sequence[Parameter], place: Callable[[int], int]
) -> tuple[list[tuple[ir.Value, MapResults]], Callable[[Sequence[ir.Value]], list[ir.Value]]]:
    """The inputs of a generic for parameters along axes (``place(axis)`` is the loop), and each one's element in its body."""
    inputs: list[tuple[ir.Value, MapResults]] = [(p.value, (place(p.axis),)) for p in parameters if p.axis is not None]

    def pick(elements: Sequence[ir.Value]) -> list[ir.Value]:
        given = iter(elements)
        return [p.value if p.axis is None else next(given) for p in parameters]

    return inputs, pick


def vector(ctx: Context, x: Operand, dtype: torch.dtype) -> ir.Value:
    """A rank-1 operand in ``dtype``."""
    if x.dtype is dtype:
        return x.value
    shape: tuple[Dim, ...] = x.shape
    return each(ctx, Spec(dtype, shape), x, (), lambda e: cast(ctx.b, e, x.dtype, dtype)).value
