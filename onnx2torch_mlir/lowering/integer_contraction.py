"""Matrix products and convolutions of what is dequantized: integers of a byte, accumulated in int32, rescaled after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.core.dims import product, to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.convolution import Window, biased, correlation
from onnx2torch_mlir.lowering.integer_forms import form
from onnx2torch_mlir.lowering.integer_movement import zero_code
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.scaled import Parameter, Scaled, factors_of, readers


def _fit(x: Any, y: Any) -> bool:
    """Whether both are integers of a byte, and both stand for floats or both for integers."""
    both = isinstance(x, Scaled) and isinstance(y, Scaled) and x.is_byte and y.is_byte
    return both and bool(x.factors) == bool(y.factors)


def _accumulator(x: Scaled, y: Scaled, terms: Dim) -> torch.dtype:
    """int32, which integer primitives declare, or the dtype that holds every sum of ``terms`` products."""
    largest = 1
    for v in (x, y):
        largest *= 128 if v.zero is None and v.codes.dtype is torch.int8 else 255
    if not x.factors or (isinstance(terms, int) and terms * largest < 1 << 31):
        return torch.int32
    return torch.int64


def _product_factors(
    ctx: Context, x: Scaled, y: Scaled, of_x: Callable[[int], int | None], of_y: Callable[[int], int | None]
) -> tuple[Parameter, ...] | None:
    """The factors of a product along the result's axes; None where one lies along an axis that is summed over."""
    factors: tuple[Parameter, ...] = ()
    for v, place in ((x, of_x), (y, of_y)):
        for factor in v.factors:
            axis = None if factor.axis is None else place(factor.axis)
            if factor.axis is not None and axis is None:
                return None
            factors = factors_of(ctx, "mulf", factors, factor.at(axis))
    return factors


@form("aten.mm.default", "aten.bmm.default")
def matrix_product(ctx: Context, node: Node, x: Any, y: Any) -> Operand | None:
    """[M, K] x [K, N] -> [M, N], or the same with a leading batch dim."""
    if not _fit(x, y):
        return None
    batch = tuple(range(x.rank - 2))
    m, n, k = (len(batch) + i for i in range(3))
    places = {0: {**{a: a for a in batch}, m: m, n: None}, 1: {**{a: a for a in batch}, m: None, n: n}}
    factors = _product_factors(ctx, x, y, places[0].__getitem__, places[1].__getitem__)
    if factors is None:
        return None
    if x.rank == 3:
        ctx.require_equal(x.shape[0], y.shape[0], "batch sizes of a matrix product must be equal")
    ctx.require_equal(x.shape[-1], y.shape[-2], "inner sizes of a matrix product must be equal")
    out = ctx.spec(node)
    dtype = _accumulator(x, y, x.shape[-1] if isinstance(x.shape[-1], int) else y.shape[-2])
    loops = ((*batch, m, k), (*batch, k, n))
    zeros = [(p.zero, loop) for p, loop in zip((x, y), loops, strict=True) if p.zero is not None]
    inputs: list[tuple[ir.Value, Any]] = []
    picks = []
    for zero, loop in zeros:
        more, pick = readers([zero], loop.__getitem__)
        inputs += more
        picks.append((len(more), pick))
    b = ctx.b

    def body(p: ir.Value, q: ir.Value, *rest: ir.Value) -> ir.Value:
        given = list(rest[:-1])
        offsets = []
        for count, pick in picks:
            offsets += pick(given[:count])
            del given[:count]
        pair = []
        for element, v in ((p, x), (q, y)):
            wide = cast(b, element, v.codes.dtype, torch.int32)
            pair.append(wide if v.zero is None else b.same("arith.subi", wide, offsets.pop(0)))
        return b.same("arith.addi", rest[-1], cast(b, b.same("arith.muli", *pair), torch.int32, dtype))

    init = ctx.full(0, dtype, out.shape)
    result = b.generic(
        [(x.codes.value, loops[0]), (y.codes.value, loops[1]), *inputs],
        [(init.value, (*batch, m, n))],
        "p" * (len(batch) + 2) + "r",
        body,
    )
    sums = Operand(dtype, out.shape, result[0])
    return Scaled(ctx, sums, None, factors, summed=True) if factors else sums


@form("aten.convolution.default")
def convolution(
    ctx: Context,
    node: Node,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[Dim],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Operand | None:
    """[N, C, *S] x [F, C/groups, *K] -> [N, F, *O]; what pads ``x`` stands for 0."""
    if not _fit(x, weight):
        return None
    around = zero_code(ctx, x)
    filters = 0 if not transposed else 1 if groups == 1 else None
    factors = _product_factors(ctx, x, weight, lambda axis: None, lambda axis: 1 if axis == filters else None)
    if around is None or factors is None or (weight.zero is not None and weight.zero.axis is not None):
        return None
    terms = to_dim(product(weight.shape) // weight.shape[0]) if _is_static(weight.shape) else x.shape[1]
    if transposed:
        terms = product(weight.shape) if _is_static(weight.shape) else x.shape[1]
    if _accumulator(x, weight, terms) is not torch.int32:
        return None
    window = Window(stride, padding, dilation, transposed, output_padding, groups)
    out = Spec(torch.int32, ctx.spec(node).shape)
    offsets = tuple(None if zero is None else zero.value for zero in (x.zero, weight.zero))
    sums = correlation(ctx, x.codes, weight.codes, out, window, around, offsets=offsets)
    if not factors:
        return sums if bias is None else biased(ctx, sums, bias)
    if _is_of_sums(bias, factors):
        sums, bias = biased(ctx, sums, bias.codes), None
    result = Scaled(ctx, sums, None, factors, summed=True)
    return result if bias is None else biased(ctx, result.plain(), bias)


def _is_of_sums(bias: Any, factors: tuple[Parameter, ...]) -> bool:
    """Whether ``bias`` is of int32 with the one known factor that the sums have."""
    if not isinstance(bias, Scaled) or bias.codes.dtype is not torch.int32 or bias.zero is not None:
        return False
    return bias.number is not None and (bias.number,) == tuple(p.number for p in factors)


def _is_static(shape: Sequence[Dim]) -> bool:
    return all(isinstance(size, int) for size in shape) and 0 not in shape
