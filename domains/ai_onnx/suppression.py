"""NonMaxSuppression: boxes chosen by score, each taking out those it overlaps too much."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.named import named_part
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import while_loop
from onnx2torch_mlir.core.suppressed_boxes import NAME
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

LOWEST_SCORE = torch.finfo(torch.float32).min
"""Stands for minus infinity among the scores, so that minus infinity can mean "not to be chosen"."""


def non_max_suppression(
    g: ProgramBuilder,
    boxes: Value,
    scores: Value,
    max_output_boxes_per_class: Value | None = None,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """Rows (batch, class, box) of the chosen ``boxes`` [N, B, 4] by ``scores`` [N, C, B], best first in each class.

    Source: ONNX NonMaxSuppression and its reference implementation.
    """
    if boxes.rank != 3 or scores.rank != 3:
        raise refuse("O2M-C005", f"ranks {boxes.rank} and {scores.rank}, not 3 and 3", case="rank")
    g.require_equal(boxes.shape[1], scores.shape[2], "number of boxes and of scores")
    g.require_equal(boxes.shape[0], scores.shape[0], "batch sizes of boxes and scores")
    g.require_equal(boxes.shape[2], 4, "coordinates of a box")
    limit = _scalar(g, max_output_boxes_per_class, 0, torch.int64)
    threshold = _scalar(g, iou_threshold, 0.0, torch.float32)
    ranked = g.maximum(scores, LOWEST_SCORE)
    if score_threshold is not None:
        candidates = g.call("aten.gt.Tensor", scores, _scalar(g, score_threshold, 0.0, torch.float32))
        ranked = g.where(candidates, ranked, g.scalar(float("-inf"), torch.float32))
    known = None if max_output_boxes_per_class is None else limit.dims()
    most = known[0] if known is not None and isinstance(known[0], int) else None
    places = scores.shape[2] if most is None else D.minimum(max(most, 1), scores.shape[2])
    operands = [ranked, limit, threshold, *_edges(g, boxes, bool(center_point_box))]
    chosen = named_part(g, NAME, operands, lambda b, values: _chosen(b, values, places))
    rows: Value = g.call("aten.nonzero.default", chosen)
    picked: Value = g.call("aten.index.Tensor", chosen, [g.select(rows, 1, axis) for axis in range(3)])
    return g.cat([g.slice(rows, 1, 0, 2), g.unsqueeze(g.sub(picked, 1), 1)], 1)


def _chosen(g: ProgramBuilder, operands: list[Value], count: Dim) -> Value:
    """What the part (core/suppressed_boxes.py) gives in ``count`` places, of which one or more are for each of the limit.

    One run of the loop chooses one box for every class at once. Source: ``torch._higher_order_ops.while_loop``.
    """
    ranked, limit, threshold, *sides = operands
    shape = ranked.shape
    edges = [g.expand(edge, shape) for edge in sides]
    boxes, places = g.arange(0, shape[2]), g.arange(0, count)
    candidates = g.binary("ne", ranked, float("-inf"))

    def test(b: ProgramBuilder, carries: list[Value]) -> list[Value]:
        trip, alive, _ = carries
        left = b.call("aten.any.dims", alive, [0, 1, 2], False)
        return [b.binary("logical_and", b.binary("lt", trip, limit), left)]

    def step(b: ProgramBuilder, carries: list[Value]) -> list[Value]:
        trip, alive, chosen = carries
        masked = b.where(alive, ranked, b.scalar(float("-inf"), torch.float32))
        best = b.call("aten.argmax.default", masked, 2, True)
        active = b.call("aten.any.dims", alive, [2], True)
        overlapping = b.binary("gt", _overlap(b, edges, best), threshold)
        gone = b.binary("logical_or", overlapping, b.binary("eq", boxes, best))
        here = b.binary("logical_and", active, b.binary("eq", places, trip))
        return [
            b.add(trip, 1),
            b.binary("logical_and", alive, b.unary("logical_not", gone)),
            b.where(here, b.add(best, 1), chosen),
        ]

    nothing = g.full([*shape[:2], count], 0, torch.int64)
    *_, chosen = while_loop(g, test, step, [g.scalar(0, torch.int64), candidates, nothing])
    return chosen


def _scalar(g: ProgramBuilder, value: Value | None, default: float, dtype: torch.dtype) -> Value:
    return g.scalar(default, dtype) if value is None else g.reshape(value, [])


def _edges(g: ProgramBuilder, boxes: Value, centered: bool) -> list[Value]:
    """Lowest and highest coordinates along both axes: four values [N, 1, B]."""
    a, b, c, d = (g.unsqueeze(g.select(boxes, 2, column), 1) for column in range(4))
    if centered:
        half_c, half_d = g.div(c, 2.0), g.div(d, 2.0)
        return [g.sub(a, half_c), g.sub(b, half_d), g.add(a, half_c), g.add(b, half_d)]
    return [g.minimum(a, c), g.minimum(b, d), g.maximum(a, c), g.maximum(b, d)]


def _overlap(g: ProgramBuilder, edges: list[Value], best: Value) -> Value:
    """Intersection over union of box ``best`` [N, C, 1] with all boxes; minus infinity where either has no area."""
    own = [g.call("aten.gather.default", edge, 2, best) for edge in edges]
    sides = [g.sub(g.minimum(own[2 + i], edges[2 + i]), g.maximum(own[i], edges[i])) for i in range(2)]
    shared = g.mul(sides[0], sides[1])
    own_area = g.mul(g.sub(own[2], own[0]), g.sub(own[3], own[1]))
    area = g.mul(g.sub(edges[2], edges[0]), g.sub(edges[3], edges[1]))
    union = g.sub(g.add(own_area, area), shared)
    meets = g.binary("gt", sides[0], 0.0)
    for positive in (sides[1], shared, own_area, area, union):
        meets = g.binary("logical_and", meets, g.binary("gt", positive, 0.0))
    return g.where(meets, g.div(shared, union), g.scalar(float("-inf"), shared.dtype))
