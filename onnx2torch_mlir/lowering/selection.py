"""The smallest keys of a row, in any order but that equal ones stay in theirs: what a sort of the first few has to look at.

A bound is the k-th smallest of the smallest in each of at least 4 k parts of the row: k elements or more are not above it, but
hardly many more. It, or one that does as well, is found bit by bit, by counting; then the elements up to it are collected. All
but that is loops over neighbours without branches, in O(n). Where the smallest lie in few of the parts, more elements are
collected, but none is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch_mlir import ir

from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.dtypes import int_range
from onnx2torch_mlir.lowering.merge_sort import Pairs

BLOCK = 16
"""Neighbours that are looked at together."""

SHORT = 32
"""Rows of at most so many are sorted as they are."""

_PARTS_OF_ONE = 4
_LONGEST_PART = 64
_MULTIPLE = 64
"""How many parts there are is one of it: what is done to neighbouring ones fills vectors."""


@dataclass(frozen=True)
class Row:
    """``count`` keys of ``dtype`` in ``keys``, of which the ``few`` smallest are wanted, at most all; ``parts`` is as large.

    Both tensors have room for a `BLOCK` more.
    """

    dtype: torch.dtype
    keys: ir.Value
    parts: ir.Value
    count: ir.Value
    few: ir.Value


def collect(ctx: Context, row: Row, pairs: Pairs) -> tuple[Pairs, ir.Value, Row]:
    """(``pairs`` that begin with the smallest keys of the row and their positions, how many these are, the row after it)."""
    b = ctx.b
    highest = b.constant(int_range(row.dtype)[1], row.dtype)
    behind = b.same("arith.addi", row.count, b.idx(BLOCK))
    # What fills the last block is behind all that is equal to it.
    (keys,) = ctx.loop(
        behind, [row.keys], lambda i, t: [b.make("tensor.insert", t.type, highest, t, i)], start=row.count
    )
    bound, parts = _bound(ctx, Row(row.dtype, keys, row.parts, row.count, row.few))
    zero = b.idx(0)

    def key_at(place: ir.Value) -> ir.Value:
        return b.make("tensor.extract", b.element(row.dtype), keys, place)

    def block(start: ir.Value, number: ir.Value, equal: ir.Value, *tensors: ir.Value) -> list[ir.Value]:
        smallest = ctx.loop(
            b.idx(BLOCK),
            [highest],
            lambda i, least: [b.same("arith.minsi", least, key_at(b.same("arith.addi", start, i)))],
        )[0]
        here = [number, equal, *tensors]
        types = [value.type for value in here]
        again = b.same("arith.andi", b.compare("eq", smallest, bound), b.compare("slt", equal, row.few))
        return ctx.branch(
            b.same("arith.ori", again, b.compare("slt", smallest, bound)),
            types,
            lambda: ctx.loop(b.idx(BLOCK), here, lambda i, *now: each(b.same("arith.addi", start, i), *now)),
            lambda: here,
        )

    def each(place: ir.Value, number: ir.Value, equal: ir.Value, *tensors: ir.Value) -> list[ir.Value]:
        key = key_at(place)
        like = b.same("arith.andi", b.compare("eq", key, bound), b.compare("slt", equal, row.few))
        taken = b.same("arith.ori", like, b.compare("slt", key, bound))
        after = pairs.of(tensors).written(ctx, number, key, b.from_index(place, torch.int64))
        counts = [(number, taken), (equal, like)]
        moved = [b.same("arith.addi", n, b.make("arith.index_castui", b.index, by)) for n, by in counts]
        return [*moved, *after.tensors]

    number, _, *tensors = ctx.loop(row.count, [zero, zero, *pairs.tensors], block, step=b.idx(BLOCK))
    return pairs.of(tensors), number, Row(row.dtype, keys, parts, row.count, row.few)


def _bound(ctx: Context, row: Row) -> tuple[ir.Value, ir.Value]:
    """(a key that at least ``few`` of the row are not above, the row's parts); the largest where the row is short."""
    b = ctx.b
    lowest, highest = (b.constant(number, row.dtype) for number in int_range(row.dtype))
    many = b.same("arith.muli", row.few, b.idx(_PARTS_OF_ONE))
    many = b.same("arith.maxui", many, b.same("arith.ceildivui", row.count, b.idx(_LONGEST_PART)))
    many = b.same("arith.muli", b.same("arith.ceildivui", many, b.idx(_MULTIPLE)), b.idx(_MULTIPLE))
    too_many = b.compare("ugt", b.same("arith.addi", many, many), row.count)
    parts = b.same("arith.maxui", b.select(too_many, row.count, many), b.idx(1))
    is_short = b.compare("ule", row.count, b.idx(SHORT))
    turns = b.select(is_short, b.idx(0), b.same("arith.divui", row.count, parts))

    def at(tensor: ir.Value, place: ir.Value) -> ir.Value:
        return b.make("tensor.extract", b.element(row.dtype), tensor, place)

    def smaller(start: ir.Value, i: ir.Value, least: ir.Value) -> list[ir.Value]:
        key = b.same("arith.minsi", at(least, i), at(row.keys, b.same("arith.addi", start, i)))
        return [b.make("tensor.insert", least.type, key, least, i)]

    def turn(number: ir.Value, least: ir.Value) -> list[ir.Value]:
        start = b.same("arith.muli", number, parts)
        return ctx.loop(parts, [least], lambda i, t: smaller(start, i, t))

    def first(i: ir.Value, t: ir.Value) -> list[ir.Value]:
        return [b.make("tensor.insert", t.type, at(row.keys, i), t, i)]

    (least,) = ctx.loop(b.select(is_short, b.idx(0), parts), [row.parts], first)
    (least,) = ctx.loop(turns, [least], turn, start=b.idx(1))

    def bit(one: ir.Value, known: ir.Value) -> list[ir.Value]:
        tried = b.same("arith.xori", known, one)
        below = ctx.loop(
            parts,
            [b.int_constant(0, b.i64)],
            lambda i, n: [b.same("arith.addi", n, b.make("arith.extui", b.i64, b.compare("slt", at(least, i), tried)))],
        )[0]
        found = b.to_index(below, torch.int64)
        enough = b.compare("eq", found, row.few)
        after = b.select(b.compare("slt", found, row.few), tried, known)
        after = b.select(enough, b.same("arith.subi", tried, b.constant(1, row.dtype)), after)
        return [b.select(enough, none, b.same("arith.shrui", one, b.constant(1, row.dtype))), after]

    none = b.constant(0, row.dtype)
    begun = _first_bit(ctx, row.dtype, *ctx.loop(parts, [highest, lowest], lambda i, *t: _extremes(ctx, at(least, i), *t)))
    begun = [b.select(is_short, *pair) for pair in zip((none, highest), begun, strict=True)]
    _, bound = ctx.repeat_while(begun, lambda one, _: b.compare("ne", one, none), bit)
    return bound, least


def _extremes(ctx: Context, key: ir.Value, least: ir.Value, most: ir.Value) -> list[ir.Value]:
    return [ctx.b.same("arith.minsi", least, key), ctx.b.same("arith.maxsi", most, key)]


def _first_bit(ctx: Context, dtype: torch.dtype, least: ir.Value, most: ir.Value) -> list[ir.Value]:
    """The highest bit that is not the same from ``least`` to ``most``, or 0; and the lowest number that begins as they do.

    Signed numbers have the order of unsigned ones with the first bit turned over, so that the lowest has it set.
    """
    b = ctx.b
    none, one = b.constant(0, dtype), b.constant(1, dtype)
    lowest, _ = (b.constant(number, dtype) for number in int_range(dtype))
    different = b.same("arith.xori", least, most)
    equal = b.compare("eq", different, none)
    first = b.same("arith.shrui", lowest, b.select(equal, none, b.same("math.ctlz", different)))
    rest = b.same("arith.subi", b.same("arith.shli", first, one), one)
    begins = b.same("arith.andi", least, b.same("arith.xori", rest, b.constant(-1, dtype)))
    begins = b.select(b.compare("eq", first, lowest), lowest, begins)
    return [b.select(equal, none, first), b.select(equal, least, begins)]
