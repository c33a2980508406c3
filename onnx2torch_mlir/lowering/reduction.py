"""Reductions: a table of combining bodies with their identities, and the rules built on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import sympy
import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import product
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.hints import FIRST_OF_EQUAL
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context, Number
from onnx2torch_mlir.lowering.dtypes import Kind, int_range, kind, op_math
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.pointwise import convert, pointwise
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.scalars import emit, scalar_body
from onnx2torch_mlir.lowering.shapes import reshape


def axes_of(dims: Sequence[int] | int | None, rank: int) -> list[int]:
    """The reduced dims in order; all for None or an empty list."""
    if dims is None:
        return list(range(rank))
    given = [dims] if isinstance(dims, int) else list(dims)
    if not given or rank == 0:
        return list(range(rank))
    return sorted({d % rank for d in given})


def lowest(dtype: torch.dtype) -> float | int:
    """The identity of max."""
    return -math.inf if kind(dtype) is Kind.FLOAT else int_range(dtype)[0]


def highest(dtype: torch.dtype) -> float | int:
    """The identity of min."""
    return math.inf if kind(dtype) is Kind.FLOAT else int_range(dtype)[1]


_IDENTITIES: dict[str, Callable[[torch.dtype], float | int]] = {
    "add": lambda dtype: 0,
    "mul": lambda dtype: 1,
    "maximum": lowest,
    "minimum": highest,
    "bitwise_and": lambda dtype: 1,
    "bitwise_or": lambda dtype: 0,
}


def identity_of(name: str, dtype: torch.dtype) -> float | int:
    """The element that a combining row of `scalars.ROWS` leaves unchanged."""
    return _IDENTITIES[name](dtype)


def kept(shape: Sequence[Dim], axes: Sequence[int], keepdim: bool) -> tuple[Dim, ...]:
    """The result's sizes."""
    if keepdim:
        return tuple(1 if a in axes else d for a, d in enumerate(shape))
    return tuple(d for a, d in enumerate(shape) if a not in axes)


def reduce(
    ctx: Context,
    x: Operand,
    axes: Sequence[int],
    name: str,
    dtype: torch.dtype,
    *,
    keepdim: bool = False,
    hint: str | None = None,
) -> Operand:
    """``x`` as ``dtype``, combined over ``axes`` with a row of the table; no element gives its identity.

    ``hint`` is an attribute (hints.py) for what combines.
    """
    shape = kept(x.shape, axes, False)
    b = ctx.b
    body = scalar_body(name, dtype)
    init = ctx.full(identity_of(name, dtype), dtype, shape)

    def combined(element: ir.Value, total: ir.Value) -> ir.Value:
        value = emit(b, body, total, cast(b, element, x.dtype, dtype))
        if hint is not None:
            value.owner.attributes[hint] = ir.UnitAttr.get()
        return value

    result = b.generic(
        [(x.value, tuple(range(x.rank)))],
        [(init.value, tuple(a for a in range(x.rank) if a not in axes))],
        "".join("r" if a in axes else "p" for a in range(x.rank)),
        combined,
    )
    reduced = Operand(dtype, shape, result[0])
    return reshape(ctx, reduced, kept(x.shape, axes, keepdim))


def count_of(ctx: Context, x: Operand, axes: Sequence[int]) -> Dim:
    """Number of elements that are combined into one."""
    return product([x.shape[a] for a in axes])


def mean_of(ctx: Context, x: Operand, axes: Sequence[int], dtype: torch.dtype, *, keepdim: bool) -> Operand:
    """Arithmetic mean in a float dtype; NaN of no elements."""
    total = reduce(ctx, x, axes, "add", dtype, keepdim=keepdim)
    return pointwise(ctx, total.spec, "div", total, count_of(ctx, x, axes))


def squared_deviation(ctx: Context, x: Operand, axes: Sequence[int], dtype: torch.dtype) -> tuple[Operand, Operand, Operand]:
    """(mean, x - mean, sum of its squares), means and sums with their dims kept at size 1."""
    mean = mean_of(ctx, x, axes, dtype, keepdim=True)
    centred = pointwise(ctx, Spec(dtype, x.shape), "sub", x, mean)
    squares = pointwise(ctx, centred.spec, "mul", centred, centred)
    return mean, centred, reduce(ctx, squares, axes, "add", dtype, keepdim=True)


@rule("aten.sum.dim_IntList")
def sum_(
    ctx: Context,
    node: Node,
    x: Operand,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Operand:
    """Sum; integers wrap."""
    out = ctx.spec(node)
    total = reduce(ctx, x, axes_of(dim, x.rank), "add", op_math(out.dtype), keepdim=keepdim)
    return convert(ctx, total, out.dtype)


@rule("aten.mean.dim")
def mean(
    ctx: Context,
    node: Node,
    x: Operand,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Operand:
    """Arithmetic mean."""
    out = ctx.spec(node)
    return convert(ctx, mean_of(ctx, x, axes_of(dim, x.rank), op_math(out.dtype), keepdim=keepdim), out.dtype)


@rule("aten.amax.default")
def amax(ctx: Context, node: Node, x: Operand, dim: Sequence[int] = (), keepdim: bool = False) -> Operand:
    """Maximum; NaN if there is one."""
    wide = op_math(x.dtype)
    return convert(ctx, reduce(ctx, x, axes_of(dim, x.rank), "maximum", wide, keepdim=keepdim), x.dtype)


@rule("aten.amin.default")
def amin(ctx: Context, node: Node, x: Operand, dim: Sequence[int] = (), keepdim: bool = False) -> Operand:
    """Minimum; NaN if there is one."""
    wide = op_math(x.dtype)
    return convert(ctx, reduce(ctx, x, axes_of(dim, x.rank), "minimum", wide, keepdim=keepdim), x.dtype)


@rule("aten.prod.dim_int")
def prod(ctx: Context, node: Node, x: Operand, dim: int, keepdim: bool = False, dtype: torch.dtype | None = None) -> Operand:
    """Product; integers wrap."""
    out = ctx.spec(node)
    result = reduce(ctx, x, axes_of(dim, x.rank), "mul", op_math(out.dtype), keepdim=keepdim)
    return convert(ctx, result, out.dtype)


@rule("aten.any.dims", "aten.all.dims")
def any_all(ctx: Context, node: Node, x: Operand, dim: Sequence[int] | None = None, keepdim: bool = False) -> Operand:
    """Whether some, or every, element is true."""
    name = "bitwise_or" if ".any." in str(node.target) else "bitwise_and"
    axes = [] if dim is not None and not list(dim) else axes_of(dim, x.rank)
    truth = reduce(ctx, x, axes, name, torch.bool, keepdim=keepdim)
    return convert(ctx, truth, ctx.spec(node).dtype)


@rule("aten.argmax.default", "aten.argmin.default")
def argmax(ctx: Context, node: Node, x: Operand, dim: int | None = None, keepdim: bool = False) -> Operand:
    """Position of the first extreme element, without ``dim`` in the flat tensor; NaN is the most extreme."""
    out = ctx.spec(node)
    largest = "argmax" in str(node.target)
    whole = dim is None or x.rank < 2
    source = reshape(ctx, x, [1, product(x.shape)]) if whole else x
    axis = 1 if dim is None or whole else dim % x.rank
    b = ctx.b
    wide = op_math(x.dtype)
    shape = kept(source.shape, [axis], False)
    best = ctx.full(lowest(wide) if largest else highest(wide), wide, shape)
    where = ctx.full(0, torch.int64, shape)
    predicate = _strictly(largest, kind(wide))

    def body(element: ir.Value, extreme: ir.Value, position: ir.Value) -> list[ir.Value]:
        candidate = cast(b, element, x.dtype, wide)
        take = b.compare(predicate, candidate, extreme)
        if kind(wide) is Kind.FLOAT:
            first_nan = b.same("arith.andi", b.compare("uno", candidate, candidate), b.compare("ord", extreme, extreme))
            take = b.same("arith.ori", take, first_nan)
        here = b.from_index(b.iteration(axis), torch.int64)
        place = b.select(take, here, position)
        place.owner.attributes[FIRST_OF_EQUAL] = ir.UnitAttr.get()
        return [b.select(take, candidate, extreme), place]

    results = b.generic(
        [(source.value, tuple(range(source.rank)))],
        [(v.value, tuple(a for a in range(source.rank) if a != axis)) for v in (best, where)],
        "".join("r" if a == axis else "p" for a in range(source.rank)),
        body,
    )
    return reshape(ctx, Operand(torch.int64, shape, results[1]), out.shape)


def _strictly(largest: bool, sort: Kind) -> str:
    names = {Kind.FLOAT: ("ogt", "olt"), Kind.SIGNED: ("sgt", "slt")}.get(sort, ("ugt", "ult"))
    return names[0] if largest else names[1]


@rule("aten.var.correction")
def var(
    ctx: Context,
    node: Node,
    x: Operand,
    dim: Sequence[int] | None = None,
    *,
    correction: Number | None = 1,
    keepdim: bool = False,
) -> Operand:
    """Variance in two passes, divided by max(0, count - correction)."""
    out = ctx.spec(node)
    axes = axes_of(dim, x.rank)
    wide = op_math(out.dtype)
    _, _, squares = squared_deviation(ctx, x, axes, wide)
    count = sympy.sympify(count_of(ctx, x, axes)) - (1 if correction is None else correction)
    divisor = max(0, float(count)) if count.is_number else sympy.Max(0, count)
    result = pointwise(ctx, squares.spec, "div", squares, divisor)
    return convert(ctx, reshape(ctx, result, kept(x.shape, axes, keepdim)), out.dtype)
