"""Loops that collect a result of every turn, however many turns there are.

Rows of known sizes are written into room that doubles: an outer loop makes room for as many turns as there were so far, an
inner one runs them. So n turns copy about 2 n rows, and never more room is held than twice what is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import product as product_of
from onnx2torch_mlir.core.loops import Turn
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import Body, known_around, require_same, while_loop
from onnx2torch_mlir.core.values import Value

Push = Callable[[ProgramBuilder, Value, list[Value], list[Value]], list[Value]]
"""The collected state after a turn: of the trip number, the state before it, and the turn's further results."""


def repeat(
    g: ProgramBuilder, limit: Value | None, start: Value, body: Body, init: Sequence[Value], turn: Turn
) -> tuple[list[Value], list[Value]]:
    """Run ``body`` while it says so, at most ``limit`` times, and not at all unless ``start`` holds.

    ``body`` and ``turn`` are as for `loops.settle`; ``limit`` is a 0-d int64, ``start`` a 0-d bool. Gives the last carries,
    and the further results stacked along a new first axis (of size 0 if the body never runs).

    Raises:
        Refusal: what the body raises.
    """
    return _Repetition(g, limit, body, init, turn).run(start)


class _Repetition:
    """One loop. Its state: the number of the turn, whether there is one more, the carries, and what is collected."""

    def __init__(
        self, g: ProgramBuilder, limit: Value | None, body: Body, init: Sequence[Value], turn: Turn
    ) -> None:
        self.g, self.limit, self.body, self.init, self.turn = g, limit, body, list(init), turn
        self.kept = [all(known_around(g, size) for size in row.shape) for row in turn.extras]

    def run(self, start: Value) -> tuple[list[Value], list[Value]]:
        """The last carries, and all rows."""
        g, count = self.g, len(self.init)
        empty = [value for row, even in zip(self.turn.extras, self.kept, strict=True) for value in _empty(g, row, even)]
        initial = [g.scalar(0, torch.int64), start, *self.init, *empty]
        step = self._batch if any(self.kept) else lambda b, values: self._step(b, values, self._joined)
        inside = self._types(lambda row: g.table.new_symbol(f"trips of {g.origin}"))
        outside = [_renamed(g, type_, value) for type_, value in zip(inside, initial, strict=True)]
        trips, _, *last = while_loop(g, self._goes_on, step, initial, inside, outside)
        state, stacked = last[count:], []
        for row, even in zip(self.turn.extras, self.kept, strict=True):
            stacked.append(state[0] if even else _unflattened(g, row, trips, state))
            state = state[1 if even else 2 :]
        return last[:count], stacked

    def _types(self, room: Callable[[TensorType], Dim]) -> list[TensorType]:
        """The types of the state at the start of a turn: rows collected so far in tensors of the size ``room`` gives."""
        types = [TensorType(torch.int64, ()), TensorType(torch.bool, ()), *self.turn.carries]
        for row, even in zip(self.turn.extras, self.kept, strict=True):
            if even:
                types.append(TensorType(row.dtype, (room(row), *row.shape), row.element))
            else:
                elements = self.g.table.new_symbol("collected elements")
                types.append(TensorType(row.dtype, (elements,), row.element))
                types.append(TensorType(torch.int64, (len(row.shape),)))
        return types

    def _goes_on(self, b: ProgramBuilder, values: list[Value]) -> list[Value]:
        trip, running = values[:2]
        limit = self.limit
        return [running if limit is None else b.binary("logical_and", running, b.binary("lt", trip, limit))]

    def _step(self, b: ProgramBuilder, values: list[Value], push: Push) -> list[Value]:
        """One turn of the loop's body."""
        count = len(self.init)
        trip, carries = values[0], values[2 : 2 + count]
        with b.turn(trip):
            go_on, *results = self.body(b, [trip, *carries])
        if self.turn.pinned:
            for before, after in zip(carries, results, strict=False):
                require_same(b, before, after)
        collected = push(b, trip, values[2 + count :], results[count:])
        return [b.add(trip, 1), b.reshape(go_on, []), *results[:count], *collected]

    def _batch(self, b: ProgramBuilder, values: list[Value]) -> list[Value]:
        """As many turns as there were so far, or the first one."""
        first, count = values[0], len(self.init)
        number = b.item(b.maximum(first, 1))
        end = b.add(first, b.maximum(first, 1))

        def test(inner: ProgramBuilder, now: list[Value]) -> list[Value]:
            return [inner.binary("logical_and", self._goes_on(inner, now)[0], inner.binary("lt", now[0], end))]

        def push(inner: ProgramBuilder, trip: Value, state: list[Value], rows: list[Value]) -> list[Value]:
            return self._pushed(inner, trip, state, rows, lambda room, row: _written(inner, room, inner.sub(trip, first), row))

        joined = values[2 + count :]
        rooms, given = [], list(joined)
        for row, even in zip(self.turn.extras, self.kept, strict=True):
            rooms += [b.full([number, *row.shape], 0, row.dtype).tagged(row.element)] if even else given[:2]
            given = given[1 if even else 2 :]
        initial = [*values[: 2 + count], *rooms]
        kinds = self._types(lambda row: number)
        outer = [*values[:2], *self.init]
        kinds[: 2 + count] = [_renamed(b, type_, value) for type_, value in zip(kinds, outer, strict=False)]
        outside = [_renamed(b, type_, value) for type_, value in zip(kinds, [*outer, *initial[2 + count :]], strict=True)]
        last = while_loop(
            b, test, lambda inner, now: self._step(inner, now, push), initial, kinds, outside
        )
        ran = b.item(b.sub(last[0], first))
        filled = iter(last[2 + count :])
        given, results = list(joined), last[: 2 + count]
        for even in self.kept:
            if even:
                results.append(b.cat([given[0], b.slice(next(filled), 0, 0, ran)], 0))
            else:
                results += [next(filled), next(filled)]
            given = given[1 if even else 2 :]
        return results

    def _joined(self, b: ProgramBuilder, trip: Value, state: list[Value], rows: list[Value]) -> list[Value]:
        return self._pushed(b, trip, state, rows, lambda so_far, row: b.cat([so_far, b.unsqueeze(row, 0)], 0))

    def _pushed(
        self,
        b: ProgramBuilder,
        trip: Value,
        state: list[Value],
        rows: list[Value],
        keep: Callable[[Value, Value], Value],
    ) -> list[Value]:
        pushed: list[Value] = []
        for row, even in zip(rows, self.kept, strict=True):
            pushed += [keep(state[0], row)] if even else _appended(b, trip, state[:2], row)
            state = state[1 if even else 2 :]
        return pushed


def _written(b: ProgramBuilder, room: Value, place: Value, row: Value) -> Value:
    result: Value = b.call("aten.index_put.default", room, [b.reshape(place, [1])], b.unsqueeze(row, 0))
    return result


def _renamed(g: ProgramBuilder, type_: TensorType, init: Value) -> TensorType:
    """The type after a loop of what has the type ``type_`` inside: symbols of its own for sizes that change."""
    shape = [
        size if size is own or size == own else g.table.new_symbol(f"size after {g.origin}")
        for size, own in zip(type_.shape, init.shape, strict=True)
    ]
    return TensorType(type_.dtype, tuple(shape), type_.element)


def _empty(g: ProgramBuilder, row: TensorType, even: bool) -> list[Value]:
    """What is collected before the first turn: rows or, where a turn decides their sizes, elements and the sizes.

    ONNX wants all rows to have one size; where that is only known inside the loop, it is asserted there.
    """
    if even:
        return [g.full([0, *row.shape], 0, row.dtype).tagged(row.element)]
    sizes = g.known(torch.zeros(len(row.shape), dtype=torch.int64))
    return [g.full([0], 0, row.dtype).tagged(row.element), sizes]


def _appended(b: ProgramBuilder, trip: Value, state: Sequence[Value], row: Value) -> list[Value]:
    """Elements and sizes after a turn."""
    rows, sizes = state
    number = b.item(trip)
    for axis, size in enumerate(row.shape):
        before = b.item(b.select(sizes, 0, axis))
        same = sympy.Or(sympy.Eq(number, 0), sympy.Eq(before, size))
        b.require(same, f"every trip of {b.origin} must give a scan output of the same size")
    return [b.cat([rows, b.reshape(row, [product_of(row.shape)])], 0), b.sizes(row.shape)]


def _unflattened(g: ProgramBuilder, row: TensorType, trips: Value, state: Sequence[Value]) -> Value:
    """All rows, after the loop."""
    rows, sizes = state[:2]
    shape: list[Dim] = [
        size if known_around(g, size) else g.item(g.select(sizes, 0, axis)) for axis, size in enumerate(row.shape)
    ]
    return g.reshape(rows, [g.item(trips), *shape])
