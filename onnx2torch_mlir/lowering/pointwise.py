"""Rules of the pointwise primitives: dtype promotion and broadcasting around the bodies of `scalars.ROWS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import stretches
from onnx2torch_mlir.core.primitives import PRIMITIVES
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import MapResults
from onnx2torch_mlir.lowering.casts import cast, reread
from onnx2torch_mlir.lowering.context import Context, Number
from onnx2torch_mlir.lowering.dtypes import Kind, int_range, kind, op_math, promote
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.positions import counted
from onnx2torch_mlir.lowering.registry import RULES, rule
from onnx2torch_mlir.lowering.scalars import ROWS, Row, emit, scalar_body


def broadcast_map(ctx: Context, x: Operand, shape: Sequence[Dim]) -> MapResults:
    """The indexing map that reads ``x`` as broadcast to ``shape``, dims aligned at the right.

    A size that is not known to be the result's is checked at run time; it never silently stands for 1.
    """
    offset = len(shape) - x.rank
    entries: list[int | None] = []
    for axis, (have, want) in enumerate(zip(x.shape, shape[offset:], strict=True), start=offset):
        if have == want:
            entries.append(axis)
        elif stretches(have, want):
            entries.append(None)
        else:
            ctx.require_equal(have, want, "sizes that are combined element by element must be equal")
            entries.append(axis)
    return tuple(entries)


def elementwise(
    ctx: Context, out: Spec, operands: Sequence[Operand], body: Callable[..., ir.Value], init: ir.Value | None = None
) -> Operand:
    """One parallel linalg.generic over ``out.shape``; ``body(*elements)`` returns the element of ``out``."""
    inputs = [(x.value, broadcast_map(ctx, x, out.shape)) for x in operands]
    target = ctx.empty(out.dtype, out.shape) if init is None else init
    identity = tuple(range(out.rank))
    result = ctx.b.generic(inputs, [(target, identity)], "p" * out.rank, lambda *elements: body(*elements[: len(operands)]))
    return Operand(out.dtype, out.shape, result[0])


def number_dtype(value: Number) -> torch.dtype:
    """The dtype class of a scalar argument: bool, int64 or float64."""
    if isinstance(value, sympy.Basic):
        if isinstance(value, sympy.logic.boolalg.Boolean) and not isinstance(value, sympy.Symbol):
            return torch.bool
        return torch.int64 if value.is_integer else torch.float64
    return torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float64


def compute_dtype(row: Row, operands: Sequence[Operand | Number], result: torch.dtype) -> torch.dtype:
    """The dtype in which a row's body runs."""
    if row.compute == "truth":
        return torch.bool
    if row.compute == "result":
        return op_math(result)
    pairs: list[tuple[torch.dtype, int | None]] = [
        (x.dtype, x.rank) if isinstance(x, Operand) else (number_dtype(x), None) for x in operands
    ]
    return op_math(promote(pairs))


def scalar_constant(ctx: Context, value: Number, dtype: torch.dtype) -> ir.Value:
    """A scalar argument as an element; a known integer that the dtype cannot hold is refused, as PyTorch does."""
    if isinstance(value, sympy.Basic):
        symbol, source = ctx.sizes.scalar(value)
        return cast(ctx.b, symbol, source, dtype)
    if kind(dtype) in (Kind.SIGNED, Kind.UNSIGNED):
        _, high = int_range(dtype)
        if not -high - 1 <= value <= high:
            raise refuse("O2M-L002", f"the number {value} does not fit {dtype}", case=str(dtype))
        value = int(value)
    return ctx.b.constant(value, dtype)


def pointwise(ctx: Context, out: Spec, row: str | Row, *operands: Operand | Number) -> Operand:
    """Apply a row of the table: promote, broadcast to ``out.shape``, compute, convert to ``out.dtype``."""
    entry = ROWS[row] if isinstance(row, str) else row
    dtype = compute_dtype(entry, operands, out.dtype)
    body_of = scalar_body(row, dtype)
    tensors = [x for x in operands if isinstance(x, Operand)]
    b = ctx.b
    result_dtype = dtype if entry.compute == "result" else torch.bool

    def body(*elements: ir.Value) -> ir.Value:
        given = iter(zip(elements, tensors, strict=True))
        values = []
        for operand in operands:
            if isinstance(operand, Operand):
                element, tensor = next(given)
                values.append(cast(b, element, tensor.dtype, dtype))
            else:
                values.append(scalar_constant(ctx, operand, dtype))
        return cast(b, emit(b, body_of, *values), result_dtype, out.dtype)

    return elementwise(ctx, out, tensors, body)


def convert(ctx: Context, x: Operand, dtype: torch.dtype) -> Operand:
    """``x`` in another dtype; itself if it has it already."""
    if x.dtype is dtype:
        return x
    return elementwise(ctx, Spec(dtype, x.shape), [x], lambda e: cast(ctx.b, e, x.dtype, dtype))


# --- rules


def _from_row(name: str, ctx: Context, node: Node, *operands: Operand | Number, **_: Any) -> Operand:
    return pointwise(ctx, ctx.spec(node), name, *operands)


_SPECIAL = {"add", "sub", "div", "pow", "gelu", "where", "clamp", "_to_copy", "clone"}

for _name in sorted(PRIMITIVES):
    _base = _name.split(".")[1]
    if _base in ROWS and _base not in _SPECIAL:
        RULES[_name] = partial(_from_row, _base)


def _scaled(ctx: Context, node: Node, name: str, x: Operand | Number, y: Operand | Number, alpha: Number) -> Operand:
    out = ctx.spec(node)
    if alpha == 1:
        return pointwise(ctx, out, name, x, y)
    scaled = alpha * y if not isinstance(y, Operand) else pointwise(ctx, Spec(out.dtype, y.shape), "mul", y, alpha)
    return pointwise(ctx, out, name, x, scaled)


@rule("aten.add.Tensor", "aten.add.Scalar")
def add(ctx: Context, node: Node, x: Operand, y: Operand | Number, alpha: Number = 1) -> Operand:
    """x + alpha * y."""
    return _scaled(ctx, node, "add", x, y, alpha)


@rule("aten.sub.Tensor", "aten.sub.Scalar")
def sub(ctx: Context, node: Node, x: Operand, y: Operand | Number, alpha: Number = 1) -> Operand:
    """x - alpha * y."""
    return _scaled(ctx, node, "sub", x, y, alpha)


@rule("aten.div.Tensor", "aten.div.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div(ctx: Context, node: Node, x: Operand, y: Operand | Number, rounding_mode: str | None = None) -> Operand:
    """Quotient, by true division or rounded ("floor", "trunc")."""
    return pointwise(ctx, ctx.spec(node), f"div/{rounding_mode}" if rounding_mode else "div", x, y)


@rule("aten.gelu.default")
def gelu(ctx: Context, node: Node, x: Operand, approximate: str = "none") -> Operand:
    """GELU, by erf or by tanh."""
    return pointwise(ctx, ctx.spec(node), "gelu" if approximate == "none" else f"gelu/{approximate}", x)


_POWERS: dict[float, Callable[[Context, ir.Value], ir.Value]] = {
    1.0: lambda ctx, x: x,
    2.0: lambda ctx, x: ctx.b.same("arith.mulf", x, x),
    3.0: lambda ctx, x: ctx.b.same("arith.mulf", ctx.b.same("arith.mulf", x, x), x),
    0.5: lambda ctx, x: ctx.b.same("math.sqrt", x),
    -0.5: lambda ctx, x: emit(ctx.b, ROWS["rsqrt"].f or "", x),
    -1.0: lambda ctx, x: emit(ctx.b, ROWS["reciprocal"].f or "", x),
    -2.0: lambda ctx, x: emit(ctx.b, ROWS["reciprocal"].f or "", ctx.b.same("arith.mulf", x, x)),
}


@rule("aten.pow.Tensor_Tensor", "aten.pow.Scalar", "aten.pow.Tensor_Scalar")
def power(ctx: Context, node: Node, x: Operand | Number, y: Operand | Number) -> Operand:
    """x ** y; the exponents that PyTorch turns into products and roots are so here."""
    out = ctx.spec(node)
    if isinstance(y, (int, float)) and out.kind is Kind.FLOAT and float(y) in _POWERS:
        short = _POWERS[float(y)]
        return pointwise(ctx, out, Row(f=lambda b, e: short(ctx, e)), x)
    return pointwise(ctx, out, "pow", x, y)


@rule("aten.where.self")
def where(ctx: Context, node: Node, condition: Operand, x: Operand, y: Operand) -> Operand:
    """x where the condition holds, else y."""
    out = ctx.spec(node)
    b = ctx.b

    def body(c: ir.Value, p: ir.Value, q: ir.Value) -> ir.Value:
        chosen = cast(b, c, condition.dtype, torch.bool)
        return b.select(chosen, cast(b, p, x.dtype, out.dtype), cast(b, q, y.dtype, out.dtype))

    return counted(node, elementwise(ctx, out, [condition, x, y], body), y)


@rule("aten.clamp.default", "aten.clamp.Tensor")
def clamp(
    ctx: Context,
    node: Node,
    x: Operand,
    min: Operand | Number | None = None,
    max: Operand | Number | None = None,
) -> Operand:
    """min(max(x, min), max); NaN stays."""
    out = ctx.spec(node)
    bounds = [bound for bound in (min, max) if bound is not None]
    steps = [name for name, bound in (("maximum", min), ("minimum", max)) if bound is not None]
    by_kind = {kind: [ROWS[name].body(kind) for name in steps] for kind in Kind}

    def clamped(kind: Kind) -> Callable[..., ir.Value]:
        def body(b: Any, value: ir.Value, *limits: ir.Value) -> ir.Value:
            for step, limit in zip(by_kind[kind], limits, strict=True):
                assert step is not None
                value = emit(b, step, value, limit)
            return value

        return body

    row = Row(clamped(Kind.FLOAT), clamped(Kind.SIGNED), clamped(Kind.UNSIGNED), clamped(Kind.BOOL))
    return pointwise(ctx, out, row, x, *bounds)


@rule("aten._to_copy.default")
def to_copy(ctx: Context, node: Node, x: Operand, **_: Any) -> Operand:
    """Conversion to the dtype that the program declares."""
    return convert(ctx, x, ctx.spec(node).dtype)


@rule("aten.view.dtype")
def view_dtype(ctx: Context, node: Node, x: Operand, dtype: torch.dtype) -> Operand:
    """The same bits as another dtype of the same width."""
    b = ctx.b
    if torch.bool in (x.dtype, dtype):
        return convert(ctx, x, dtype)
    if b.element(x.dtype) == b.element(dtype):
        return Operand(dtype, x.shape, x.value)
    return elementwise(ctx, Spec(dtype, x.shape), [x], lambda e: reread(b, e, x.dtype, dtype))


@rule("aten.clone.default")
def clone(ctx: Context, node: Node, x: Operand, **_: Any) -> Operand:
    """The value itself: tensors are values here."""
    return x
