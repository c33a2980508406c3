"""Keys that lie close together (labels, bytes) are counted, and then each has its place: stable, in O(n). Others are merged."""

from __future__ import annotations

import torch
from torch_mlir import ir

from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import int_range
from onnx2torch_mlir.lowering.merge_sort import Pairs, merge_sort

_FEW = 64
"""So many are merged sooner."""


def put_in_order(ctx: Context, pairs: Pairs, count: ir.Value) -> tuple[Pairs, ir.Value]:
    """The first ``count`` pairs in the order of their keys, equal ones as they were; and where the first of them is now."""
    b = ctx.b
    room = ir.RankedTensorType(pairs.tallies.type)
    if not room.is_dynamic_dim(0) and room.shape[0] <= _FEW:
        return merge_sort(ctx, pairs, count)
    lowest, highest = (b.constant(number, pairs.dtype) for number in int_range(pairs.dtype))

    def look(i: ir.Value, least: ir.Value, most: ir.Value) -> list[ir.Value]:
        key = b.make("tensor.extract", b.element(pairs.dtype), pairs.keys, i)
        return [b.same("arith.minsi", least, key), b.same("arith.maxsi", most, key)]

    least, most = ctx.loop(count, [highest, lowest], look)
    far = b.make("arith.index_castui", b.index, b.same("arith.subi", most, least))
    close = b.same("arith.andi", b.compare("ult", far, pairs.half), b.compare("ugt", count, b.idx(_FEW)))

    def merged() -> list[ir.Value]:
        after, place = merge_sort(ctx, pairs, count)
        return [place, *after.tensors]

    types = [b.index, *(tensor.type for tensor in pairs.tensors)]
    place, *tensors = ctx.branch(
        close, types, lambda: [pairs.half, *_counted(ctx, pairs, count, least, far).tensors], merged
    )
    return pairs.of(tensors), place


def _counted(ctx: Context, pairs: Pairs, count: ir.Value, least: ir.Value, far: ir.Value) -> Pairs:
    """The pairs in order in the second half; keys are at most ``far`` above ``least``."""
    b = ctx.b
    zero, one = b.int_constant(0, b.i64), b.int_constant(1, b.i64)
    numbers = b.same("arith.addi", far, b.idx(1))

    def tally(tallies: ir.Value, number: ir.Value) -> ir.Value:
        return b.make("tensor.extract", b.i64, tallies, number)

    def put(tallies: ir.Value, value: ir.Value, number: ir.Value) -> ir.Value:
        return b.make("tensor.insert", tallies.type, value, tallies, number)

    def number_of(key: ir.Value) -> ir.Value:
        return b.make("arith.index_castui", b.index, b.same("arith.subi", key, least))

    def add(i: ir.Value, t: ir.Value) -> list[ir.Value]:
        number = number_of(b.make("tensor.extract", b.element(pairs.dtype), pairs.keys, i))
        return [put(t, b.same("arith.addi", tally(t, number), one), number)]

    def begin(number: ir.Value, before: ir.Value, t: ir.Value) -> list[ir.Value]:
        return [b.same("arith.addi", before, tally(t, number)), put(t, before, number)]

    def move(i: ir.Value, *tensors: ir.Value) -> list[ir.Value]:
        now = pairs.of(tensors)
        key, position = now.read(ctx, i)
        number = number_of(key)
        place = tally(now.tallies, number)
        after = now.written(ctx, b.same("arith.addi", pairs.half, b.to_index(place, torch.int64)), key, position)
        return [after.keys, after.positions, put(after.tallies, b.same("arith.addi", place, one), number)]

    (tallies,) = ctx.loop(numbers, [pairs.tallies], lambda number, t: [put(t, zero, number)])
    (tallies,) = ctx.loop(count, [tallies], add)
    _, tallies = ctx.loop(numbers, [zero, tallies], begin)
    return pairs.of(ctx.loop(count, [pairs.keys, pairs.positions, tallies], move))
