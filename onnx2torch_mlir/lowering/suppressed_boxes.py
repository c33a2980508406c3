"""Boxes chosen by score: those of a class are sorted, and each is compared with those that are chosen before it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch_mlir import ir

from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.merge_sort import Pairs, merge_sort, room_for
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.order_keys import key_dtype, key_of

_SIDES = 4


def suppressed_boxes(
    ctx: Context, out: Spec, scores: Operand, limit: Operand, threshold: Operand, *edges: Operand
) -> Operand:
    """The part of that name (core/suppressed_boxes.py)."""
    return _Boxes(ctx, out, scores, limit, threshold, edges).chosen()


class _Boxes:
    def __init__(
        self, ctx: Context, out: Spec, scores: Operand, limit: Operand, threshold: Operand, edges: Sequence[Operand]
    ) -> None:
        b = ctx.b
        self.ctx, self.b = ctx, b
        self.out, self.scores, self.edges = out, scores, edges
        self.threshold = ctx.at(threshold, [])
        most = b.to_index(ctx.at(limit, []), torch.int64)
        self.most = b.same("arith.minsi", most, ctx.sizes.value(out.shape[2]))

    def chosen(self) -> Operand:
        """Of all classes."""
        ctx = self.ctx
        batches, classes, boxes = (ctx.sizes.value(size) for size in self.scores.shape)
        pairs = room_for(ctx, key_dtype(torch.float32), self.scores.shape[2])
        own = ctx.empty(torch.float32, (_SIDES, self.out.shape[2]))
        chosen = ctx.full(0, torch.int64, self.out.shape)

        def of_class(n: ir.Value, c: ir.Value, own: ir.Value, chosen: ir.Value, tensors: Sequence[ir.Value]) -> list[ir.Value]:
            found, count = self._candidates(pairs.of(list(tensors)), n, c, boxes)
            found, start = merge_sort(ctx, found, count)
            _, own, chosen = ctx.loop(
                count,
                [self.b.idx(0), own, chosen],
                lambda i, *t: self._look_at(found, self.b.same("arith.addi", start, i), [n, c], *t),
            )
            return [own, chosen, *found.tensors]

        def of_batch(n: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            return ctx.loop(classes, carried, lambda c, own, chosen, *tensors: of_class(n, c, own, chosen, tensors))

        _, value, *_ = ctx.loop(batches, [own, chosen.value, *pairs.tensors], of_batch)
        return Operand(torch.int64, self.out.shape, value)

    def _candidates(self, pairs: Pairs, n: ir.Value, c: ir.Value, boxes: ir.Value) -> tuple[Pairs, ir.Value]:
        """The boxes that may be chosen, and how many these are."""
        b = self.b
        never = b.constant(-math.inf, torch.float32)

        def look(i: ir.Value, count: ir.Value, *tensors: ir.Value) -> list[ir.Value]:
            score = self.ctx.at(self.scores, [n, c, i])
            key = key_of(b, score, torch.float32, True)
            after = pairs.of(tensors).written(self.ctx, count, key, b.from_index(i, torch.int64))
            there = b.make("arith.index_castui", b.index, b.compare("une", score, never))
            return [b.same("arith.addi", count, there), *after.tensors]

        count, *tensors = self.ctx.loop(boxes, [b.idx(0), *pairs.tensors], look)
        return pairs.of(tensors), count

    def _look_at(
        self, pairs: Pairs, place: ir.Value, where: list[ir.Value], count: ir.Value, own: ir.Value, chosen: ir.Value
    ) -> list[ir.Value]:
        """Choose the box at ``place``, if there is room and none of the ``count`` chosen ones overlaps it."""
        ctx, b = self.ctx, self.b
        types = [b.index, own.type, chosen.type]
        as_before = [count, own, chosen]

        def with_room() -> list[ir.Value]:
            _, position = pairs.read(ctx, place)
            box = b.to_index(position, torch.int64)
            sides = [ctx.at(edge, [where[0], b.idx(0), box]) for edge in self.edges]

            def take() -> list[ir.Value]:
                sides_after = own
                for number, side in enumerate(sides):
                    sides_after = b.make("tensor.insert", own.type, side, sides_after, b.idx(number), count)
                number = b.same("arith.addi", position, b.int_constant(1, b.i64))
                after = b.make("tensor.insert", chosen.type, number, chosen, *where, count)
                return [b.same("arith.addi", count, b.idx(1)), sides_after, after]

            (gone,) = ctx.loop(
                count, [b.int_constant(0, b.i1)], lambda s, gone: [b.same("arith.ori", gone, self._meets(own, s, sides))]
            )
            return ctx.branch(gone, types, lambda: as_before, take)

        return ctx.branch(b.compare("slt", count, self.most), types, with_room, lambda: as_before)

    def _meets(self, own: ir.Value, s: ir.Value, other: list[ir.Value]) -> ir.Value:
        """Whether the chosen box ``s`` overlaps another one too much."""
        b = self.b
        zero = b.constant(0.0, torch.float32)
        mine = [b.make("tensor.extract", b.element(torch.float32), own, b.idx(k), s) for k in range(_SIDES)]
        sides = [
            b.same(
                "arith.subf",
                b.same("arith.minimumf", mine[2 + k], other[2 + k]),
                b.same("arith.maximumf", mine[k], other[k]),
            )
            for k in range(2)
        ]
        shared = b.same("arith.mulf", *sides)
        areas = [b.same("arith.mulf", *(b.same("arith.subf", box[2 + k], box[k]) for k in range(2))) for box in (mine, other)]
        union = b.same("arith.subf", b.same("arith.addf", *areas), shared)
        meets = b.compare("ogt", b.same("arith.divf", shared, union), self.threshold)
        for positive in (*sides, shared, *areas, union):
            meets = b.same("arith.andi", meets, b.compare("ogt", positive, zero))
        return meets
