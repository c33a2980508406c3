"""Det: determinants by elimination, written out for small matrices of a known size, else in a loop."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.subprograms import while_loop
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.elimination import exchanged

LARGEST_WRITTEN_OUT = 8
"""Larger matrices would make programs of hundreds of operations."""


def det(g: ProgramBuilder, x: Value) -> Value:
    """Determinants of the matrices [..., n, n] in the last two axes, with row exchanges.

    Raises:
        Refusal: O2M-C006 where they are not square.
    """
    if x.rank < 2:
        raise refuse("O2M-C006", f"the determinant of a value of rank {x.rank}")
    g.require_equal(x.shape[-1], x.shape[-2], "rows and columns of a determinant")
    size = x.shape[-1] if isinstance(x.shape[-1], int) else x.shape[-2]
    dtype = torch.promote_types(x.dtype, torch.float32)
    batch = x.shape[:-2]
    rest = g.reshape(g.cast(x, dtype), [D.product(batch), size, size])
    result = g.full([rest.shape[0]], 1.0, dtype)
    if not isinstance(size, int) or size > LARGEST_WRITTEN_OUT:
        return g.cast(g.reshape(_looped(g, rest, result), batch), x.dtype)
    for left in range(size, 0, -1):
        factor, rest = _eliminated(g, rest, left)
        result = g.mul(result, factor)
    return g.cast(g.reshape(result, batch), x.dtype)


def _looped(g: ProgramBuilder, x: Value, result: Value) -> Value:
    """``result`` [B] times the determinants of ``x`` [B, n, n], a column of all of them in each turn."""
    count, size, _ = x.shape
    rows = g.unsqueeze(g.arange(0, size), 0)

    def unfinished(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        return [b.binary("lt", values[0], b.size_value(size))]

    def step(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        turn, x, result = values
        here = b.reshape(turn, [1])
        x, chosen = exchanged(b, x, turn, rows)
        top = b.call("aten.index_select.default", x, 1, here)
        pivot = b.call("aten.index_select.default", top, 2, here)
        factors = b.div(b.call("aten.index_select.default", x, 2, here), b.where(b.binary("eq", pivot, 0.0), 1.0, pivot))
        factors = b.where(b.unsqueeze(b.binary("gt", rows, turn), 2), factors, 0.0)
        moved = b.reshape(b.binary("ne", chosen, turn), [count])
        pivot = b.reshape(pivot, [count])
        result = b.mul(result, b.where(moved, b.unary("neg", pivot), pivot))
        return [b.add(turn, 1), b.sub(x, b.mul(factors, top)), result]

    return while_loop(g, unfinished, step, [g.scalar(0, torch.int64), x, result])[2]


def _eliminated(g: ProgramBuilder, x: Value, size: int) -> tuple[Value, Value]:
    """The signed pivot of the first column [B], and what is left of [B, size, size] below and right of it."""
    column = g.unary("abs", g.select(x, 2, 0))
    chosen = g.call("aten.argmax.default", column, 1, True)
    rows = g.unsqueeze(g.arange(0, size), 0)
    first, found = g.binary("eq", rows, 0), g.binary("eq", rows, chosen)
    order = g.where(first, chosen, g.where(found, 0, rows))
    x = g.call("aten.gather.default", x, 1, g.expand(g.unsqueeze(order, 2), [x.shape[0], size, size]))
    pivot = g.select(g.select(x, 1, 0), 1, 0)
    moved = g.reshape(g.binary("ne", chosen, 0), [x.shape[0]])
    signed = g.where(moved, g.unary("neg", pivot), pivot)
    divisor = g.reshape(g.where(g.binary("eq", pivot, 0.0), 1.0, pivot), [x.shape[0], 1, 1])
    below = g.slice(x, 1, 1, size)
    factors = g.div(g.slice(below, 2, 0, 1), divisor)
    top = g.slice(g.slice(x, 1, 0, 1), 2, 1, size)
    return signed, g.sub(g.slice(below, 2, 1, size), g.mul(factors, top))
