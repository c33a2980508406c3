"""Probabilities of classes from those of their pairs.

Source: Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", 2004, algorithm 2,
with libsvm's bounds, which onnxruntime follows in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.subprograms import while_loop
from onnx2torch_mlir.core.values import Value

ROUNDS = 100
LEAST = 1e-7
"""How near a pair's probability may come to 0 or 1."""


def coupled(g: ProgramBuilder, odds: Value, pairs: Sequence[tuple[int, int]], classes: int) -> Value:
    """[observations, classes] from ``odds`` [observations, pairs]: the probability of the first class of each pair."""
    quadratic = _quadratic(g, odds, pairs, classes)
    start = g.full([odds.shape[0], classes], 1.0 / classes, torch.float32)
    tolerance = 0.005 / classes

    def going(h: ProgramBuilder, carries: list[Value]) -> list[Value]:
        return [h.call("aten.logical_and.default", h.binary("lt", carries[0], ROUNDS), carries[1])]

    def step(h: ProgramBuilder, carries: list[Value]) -> list[Value]:
        turn, _, chances = carries
        moved, active = _round(h, quadratic, chances, classes, tolerance)
        some = h.call("aten.any.dims", active, [0, 1], False)
        return [h.add(turn, 1), some, h.where(active, moved, chances)]

    truth = g.scalar(True, torch.bool)
    return while_loop(g, going, step, [g.scalar(0, torch.int64), truth, start])[2]


def _quadratic(g: ProgramBuilder, odds: Value, pairs: Sequence[tuple[int, int]], classes: int) -> Value:
    """Q [observations, classes, classes]: Q[i, i] sums r[j, i]², Q[i, j] is -r[j, i] r[i, j]."""
    bounded = g.call("aten.clamp.default", odds, LEAST, 1 - LEAST)
    columns = {}
    for index, (i, j) in enumerate(pairs):
        columns[i, j] = g.slice(bounded, 1, index, index + 1)
        columns[j, i] = g.sub(1.0, columns[i, j])
    cells = []
    for i in range(classes):
        for j in range(classes):
            if i != j:
                cells.append(g.unary("neg", g.mul(columns[j, i], columns[i, j])))
                continue
            squares = [g.mul(columns[k, i], columns[k, i]) for k in range(classes) if k != i]
            total = squares[0]
            for square in squares[1:]:
                total = g.add(total, square)
            cells.append(total)
    return g.reshape(g.cat(cells, 1), [odds.shape[0], classes, classes])


def _round(h: ProgramBuilder, quadratic: Value, chances: Value, classes: int, tolerance: float) -> tuple[Value, Value]:
    """One pass over the classes, and [observations, 1] whether an observation was not done before it."""
    products = h.sum(h.mul(quadratic, h.unsqueeze(chances, 1)), [2])
    energy = h.sum(h.mul(chances, products), [1], keepdim=True)
    error = h.amax(h.unary("abs", h.sub(products, energy)), [1], keepdim=True)
    active = h.binary("ge", error, tolerance)
    for index in range(classes):
        row = h.select(quadratic, 1, index)
        diagonal = h.slice(row, 1, index, index + 1)
        own = h.slice(products, 1, index, index + 1)
        change = h.div(h.sub(energy, own), diagonal)
        scale = h.add(change, 1.0)
        unit = torch.zeros(1, classes)
        unit[0, index] = 1.0
        chances = h.div(h.add(chances, h.mul(change, h.known(unit))), scale)
        inner = h.add(h.mul(change, diagonal), h.mul(own, 2.0))
        energy = h.div(h.div(h.add(energy, h.mul(change, inner)), scale), scale)
        products = h.div(h.add(products, h.mul(change, row)), scale)
    return chances, active
