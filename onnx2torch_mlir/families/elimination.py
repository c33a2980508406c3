"""Gaussian elimination in a loop: a column of all matrices of a batch in each turn, with row exchanges."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.subprograms import while_loop
from onnx2torch_mlir.core.values import Value


def exchanged(b: ProgramBuilder, x: Value, turn: Value, rows: Value) -> tuple[Value, Value]:
    """``x`` [B, n, m] with row ``turn`` exchanged for the one below with the largest element in that column.

    ``rows`` is 0 … n-1 as [1, n]. The second result says which row came up, as [B, 1].
    """
    count, size = x.shape[:2]
    column = b.reshape(b.call("aten.index_select.default", x, 2, b.reshape(turn, [1])), [count, size])
    candidates = b.where(b.binary("lt", rows, turn), -1.0, b.unary("abs", column))
    chosen = b.call("aten.argmax.default", candidates, 1, True)
    order = b.where(b.binary("eq", rows, turn), chosen, b.where(b.binary("eq", rows, chosen), turn, rows))
    return b.call("aten.gather.default", x, 1, b.expand(b.unsqueeze(order, 2), x.shape)), chosen


def inverted(g: ProgramBuilder, x: Value) -> Value:
    """The inverses of the matrices ``x`` [B, n, n] of floats; those of singular ones are not finite."""
    size = x.shape[1]
    rows = g.unsqueeze(g.arange(0, size), 0)
    unit = g.cast(g.binary("eq", g.permute(rows, [1, 0]), rows), x.dtype)
    beside = g.cat([x, g.expand(g.unsqueeze(unit, 0), x.shape)], 2)

    def unfinished(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        return [b.binary("lt", values[0], b.size_value(size))]

    def step(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        turn, x = values
        x, _ = exchanged(b, x, turn, rows)
        here = b.reshape(turn, [1])
        top = b.call("aten.index_select.default", x, 1, here)
        top = b.div(top, b.call("aten.index_select.default", top, 2, here))
        factors = b.call("aten.index_select.default", x, 2, here)
        current = b.unsqueeze(b.binary("eq", rows, turn), 2)
        return [b.add(turn, 1), b.where(current, top, b.sub(x, b.mul(factors, top)))]

    result = while_loop(g, unfinished, step, [g.scalar(0, torch.int64), beside])[1]
    return g.slice(result, 2, size, 2 * size)
