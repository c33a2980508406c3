"""A merge sort of keys and their positions: stable, in O(n log n), without a branch that depends on them.

Fours are sorted by comparing neighbours; then runs of the same length are merged, each pair from both its ends at once: the
half that comes first needs no more of either run than there is, nor does the one that comes last, so nothing asks for an end.
What fills the last run is larger than every key, or equal and behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import int_range

_FIRST_RUN = 4
_NEIGHBOURS = (0, 2, 1, 0, 2, 1)
"""What is compared with the next one, until four are in order."""


@dataclass(frozen=True)
class Pairs:
    """``keys`` of ``dtype`` and their ``positions`` (int64) in the first half of tensors of twice ``half`` elements.

    ``tallies`` are as many numbers (int64) as a half has, to count with.
    """

    dtype: torch.dtype
    keys: ir.Value
    positions: ir.Value
    tallies: ir.Value
    half: ir.Value

    @property
    def tensors(self) -> list[ir.Value]:
        """All tensors."""
        return [self.keys, self.positions, self.tallies]

    def of(self, tensors: tuple[ir.Value, ...] | list[ir.Value]) -> Pairs:
        """The same with other tensors."""
        keys, positions, tallies = tensors
        return Pairs(self.dtype, keys, positions, tallies, self.half)

    def read(self, ctx: Context, place: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Key and position at ``place``."""
        key = ctx.b.make("tensor.extract", ctx.b.element(self.dtype), self.keys, place)
        return key, ctx.b.make("tensor.extract", ctx.b.i64, self.positions, place)

    def written(self, ctx: Context, place: ir.Value, key: ir.Value, position: ir.Value) -> Pairs:
        """The pairs with another at ``place``."""
        keys = ctx.b.make("tensor.insert", self.keys.type, key, self.keys, place)
        return self.of([keys, ctx.b.make("tensor.insert", self.positions.type, position, self.positions, place), self.tallies])


def room_for(ctx: Context, dtype: torch.dtype, count: Dim) -> Pairs:
    """Undefined pairs that can be put in order, of ``count`` at most."""
    b = ctx.b
    if isinstance(count, int):
        known = max(_FIRST_RUN, 1 << (count - 1).bit_length() if count else 0)
        keys, positions = (ctx.empty(each, (2 * known,)) for each in (dtype, torch.int64))
        return Pairs(dtype, keys, positions, ctx.empty(torch.int64, (known,)), b.idx(known))
    half, _ = _power_of_two(ctx, ctx.sizes.value(count))
    twice = b.same("arith.addi", half, half)
    types = [ir.RankedTensorType.get([b.dynamic], b.element(each)) for each in (dtype, torch.int64)]
    keys, positions = (b.make("tensor.empty", type_, twice) for type_ in types)
    return Pairs(dtype, keys, positions, b.make("tensor.empty", types[1], half), half)


def merge_sort(ctx: Context, pairs: Pairs, count: ir.Value) -> tuple[Pairs, ir.Value]:
    """The first ``count`` pairs in the order of their keys, equal ones as they were; and where the first of them is now."""
    b = ctx.b
    end, levels = _power_of_two(ctx, count)
    highest = b.constant(int_range(pairs.dtype)[1], pairs.dtype)

    def fill(i: ir.Value, keys: ir.Value) -> list[ir.Value]:
        for place in (i, b.same("arith.addi", i, pairs.half)):
            keys = b.make("tensor.insert", keys.type, highest, keys, place)
        return [keys]

    (keys,) = ctx.loop(end, [pairs.keys], fill, start=count)
    filled = pairs.of([keys, *pairs.tensors[1:]])
    short = ctx.loop(count, filled.tensors, lambda lo, *t: _four(ctx, pairs.of(t), lo).tensors, step=b.idx(_FIRST_RUN))

    def level(_: ir.Value, width: ir.Value, source: ir.Value, target: ir.Value, *tensors: ir.Value) -> list[ir.Value]:
        step = b.same("arith.addi", width, width)
        merged = ctx.loop(
            count, tensors, lambda lo, *t: _merge(ctx, pairs.of(t), lo, width, source, target).tensors, step=step
        )
        return [step, target, source, *merged]

    _, place, _, *tensors = ctx.loop(levels, [b.idx(_FIRST_RUN), b.idx(0), pairs.half, *short], level)
    return pairs.of(tensors), place


def _power_of_two(ctx: Context, count: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The smallest one of at least ``count``, from the first run's length on, and how many doublings it is from there."""
    b = ctx.b
    size, doublings = ctx.repeat_while(
        [b.idx(_FIRST_RUN), b.idx(0)],
        lambda size, _: b.compare("slt", size, count),
        lambda size, turns: [b.same("arith.addi", size, size), b.same("arith.addi", turns, b.idx(1))],
    )
    return size, doublings


def _four(ctx: Context, pairs: Pairs, first: ir.Value) -> Pairs:
    b = ctx.b
    places = [b.same("arith.addi", first, b.idx(number)) for number in range(_FIRST_RUN)]
    values = [pairs.read(ctx, place) for place in places]
    for left in _NEIGHBOURS:
        one, other = values[left : left + 2]
        swap = b.compare("slt", other[0], one[0])
        values[left] = b.select(swap, other[0], one[0]), b.select(swap, other[1], one[1])
        values[left + 1] = b.select(swap, one[0], other[0]), b.select(swap, one[1], other[1])
    for place, (key, position) in zip(places, values, strict=True):
        pairs = pairs.written(ctx, place, key, position)
    return pairs


def _merge(ctx: Context, pairs: Pairs, lo: ir.Value, width: ir.Value, source: ir.Value, target: ir.Value) -> Pairs:
    """Merge the runs of ``width`` from ``lo`` on, which are behind ``source``, to the same place behind ``target``."""
    b = ctx.b
    one = b.idx(1)
    begin = b.same("arith.addi", source, lo)
    middle = b.same("arith.addi", begin, width)
    end = b.same("arith.addi", middle, width)
    first = b.same("arith.addi", target, lo)
    last = b.same("arith.subi", b.same("arith.addi", first, b.same("arith.addi", width, width)), one)

    def key_at(tensors: tuple[ir.Value, ...], place: ir.Value) -> ir.Value:
        return b.make("tensor.extract", b.element(pairs.dtype), tensors[0], place)

    def take(
        k: ir.Value, i: ir.Value, j: ir.Value, p: ir.Value, q: ir.Value, *tensors: ir.Value
    ) -> list[ir.Value]:
        front = b.compare("slt", key_at(tensors, j), key_at(tensors, i))
        back = b.compare("slt", key_at(tensors, q), key_at(tensors, p))
        here = pairs.of(tensors)
        taken = [here.read(ctx, b.select(front, j, i)), here.read(ctx, b.select(back, p, q))]
        places = [b.same("arith.addi", first, k), b.same("arith.subi", last, k)]
        for place, (key, position) in zip(places, taken, strict=True):
            here = here.written(ctx, place, key, position)
        from_right, from_left = (b.make("arith.index_castui", b.index, each) for each in (front, back))
        return [
            b.same("arith.subi", b.same("arith.addi", i, one), from_right),
            b.same("arith.addi", j, from_right),
            b.same("arith.subi", p, from_left),
            b.same("arith.addi", b.same("arith.subi", q, one), from_left),
            *here.tensors,
        ]

    edges = [begin, middle, b.same("arith.subi", middle, one), b.same("arith.subi", end, one)]
    return pairs.of(ctx.loop(width, [*edges, *pairs.tensors], take)[4:])
