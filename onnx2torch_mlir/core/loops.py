"""Loops whose carried values may change their sizes, and whose stacked results may be of any number.

Everything works on plain lists of values: what a caller carries beyond tensors (a sequence, an optional) it takes apart
before and puts together again inside its body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import known_equal
from onnx2torch_mlir.core.dims import product as product_of
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import Body, SubProgramBuilder, check_carried, known_around, require_same, while_loop
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Refusal


@dataclass(frozen=True)
class Turn:
    """What is known of every turn of a loop before it is built.

    ``carries`` are the types at its start (a size that changes is a symbol of its own); ``goes_on`` is True where the
    first result is known to be true; ``extras`` are the types of the results after the carries; ``pinned`` says that the
    body only converts with the carries' first sizes, which are asserted to stay.
    """

    carries: tuple[TensorType, ...]
    goes_on: bool
    extras: tuple[TensorType, ...]
    pinned: bool

    def grows(self, init: Sequence[Value]) -> bool:
        """Whether a carry changes its size."""
        return any(type_.shape != value.shape for type_, value in zip(self.carries, init, strict=True))

    def stacks_evenly(self, g: ProgramBuilder) -> bool:
        """Whether the sizes of all extras are known in ``g``, the program around the loop."""
        return all(known_around(g, size) for type_ in self.extras for size in type_.shape)


def settle(g: ProgramBuilder, body: Body, init: Sequence[Value]) -> Turn:
    """The types of every turn: those of ``init``, widened until the body gives back what it takes.

    ``body`` takes the trip number and the carries, and gives whether to go on, the new carries, and more results. It is
    converted aside, once or more often, and nothing of that stays in the program.

    Raises:
        Refusal: O2M-C003 where a carry changes its dtype or rank; what the body raises.
    """
    types = [TensorType(value.dtype, value.shape, value.element) for value in init]
    turn = None
    while True:
        try:
            widened, goes_on, extras = _attempt(g, body, types, [value.shape for value in init])
        except Refusal:
            if turn is None:
                raise
            return turn
        if widened == types:
            return Turn(tuple(types), goes_on, extras, pinned=False)
        if turn is None:
            first = tuple(TensorType(value.dtype, value.shape, value.element) for value in init)
            turn = Turn(first, goes_on, extras, pinned=True)
        types = widened


def _attempt(
    g: ProgramBuilder, body: Body, types: Sequence[TensorType], first: Sequence[tuple[Dim, ...]]
) -> tuple[list[TensorType], bool, tuple[TensorType, ...]]:
    aside = SubProgramBuilder(g)
    with g.table.inside():
        trip = aside.parameter("trip", TensorType(torch.int64, ()))
        carries = [aside.parameter("carry", type_) for type_ in types]
        go_on, *results = body(aside, [trip, *carries])
        widened = []
        for type_, result, sizes in zip(types, results, first, strict=False):
            check_carried(g, type_, result)
            shape = [
                own if own is not start or known_equal(g.simplify(own), g.simplify(new)) else g.table.new_symbol("carried size")
                for own, new, start in zip(type_.shape, result.shape, sizes, strict=True)
            ]
            widened.append(TensorType(type_.dtype, tuple(shape), type_.element))
        extras = [TensorType(v.dtype, tuple(map(g.simplify, v.shape)), v.element) for v in results[len(types) :]]
    known = go_on.tensor
    return widened, known is not None and bool(known.reshape(-1)[0]), tuple(extras)


def no_trips(g: ProgramBuilder, turn: Turn) -> list[Value]:
    """The extras of a loop that never runs: a first axis of size 0, and 0 for every size that only a turn would know."""
    return [
        g.full([0, *(size if known_around(g, size) else 0 for size in type_.shape)], 0, type_.dtype).tagged(type_.element)
        for type_ in turn.extras
    ]


def repeat(
    g: ProgramBuilder, limit: Value | None, start: Value, body: Body, init: Sequence[Value], turn: Turn
) -> tuple[list[Value], list[Value]]:
    """Run ``body`` while it says so, at most ``limit`` times, and not at all unless ``start`` holds.

    ``body`` and ``turn`` are as for `settle`; ``limit`` is a 0-d int64, ``start`` a 0-d bool. Gives the last carries, and
    the further results stacked along a new first axis (of size 0 if the body never runs).

    Raises:
        Refusal: what the body raises.
    """
    stacks = [_Stack(g, type_) for type_ in turn.extras]
    count = len(init)

    def test(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        trip, running = values[0], values[1]
        return [running if limit is None else b.binary("logical_and", running, b.binary("lt", trip, limit))]

    def step(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        trip, carries = values[0], values[2 : 2 + count]
        with b.turn(trip):
            go_on, *results = body(b, [trip, *carries])
        if turn.pinned:
            for before, after in zip(carries, results, strict=False):
                require_same(b, before, after)
        state = values[2 + count :]
        pushed: list[Value] = []
        for stack, result in zip(stacks, results[count:], strict=True):
            pushed += stack.push(b, trip, state[: stack.width], result)
            state = state[stack.width :]
        return [b.add(trip, 1), b.reshape(go_on, []), *results[:count], *pushed]

    initial = [g.scalar(0, torch.int64), start, *init, *(value for stack in stacks for value in stack.empty())]
    inside = [TensorType(torch.int64, ()), TensorType(torch.bool, ()), *turn.carries]
    trips = g.table.new_symbol(f"trips of {g.origin}")
    inside += [type_ for stack in stacks for type_ in stack.types(trips)]
    outside = [_renamed(g, type_, value) for type_, value in zip(inside, initial, strict=True)]
    last = while_loop(g, test, step, initial, inside, outside)
    state, stacked = last[2 + count :], []
    for stack in stacks:
        stacked.append(stack.result(last[0], state[: stack.width]))
        state = state[stack.width :]
    return last[2 : 2 + count], stacked


def _renamed(g: ProgramBuilder, type_: TensorType, init: Value) -> TensorType:
    """The type after a loop of what has the type ``type_`` inside: symbols of its own for sizes that change."""
    shape = [
        size if size is own or size == own else g.table.new_symbol(f"size after {g.origin}")
        for size, own in zip(type_.shape, init.shape, strict=True)
    ]
    return TensorType(type_.dtype, tuple(shape), type_.element)


class _Stack:
    """One result of every turn, collected in carried values: rows joined, or flat elements where a turn decides sizes.

    ONNX wants all rows to have one size; where that is only known inside the loop, it is asserted there.
    """

    def __init__(self, g: ProgramBuilder, row: TensorType) -> None:
        self.g = g
        self.row = row
        self.flat = not all(known_around(g, size) for size in row.shape)
        self.width = 2 if self.flat else 1

    def empty(self) -> list[Value]:
        """The state before the first turn."""
        if not self.flat:
            return [self.g.full([0, *self.row.shape], 0, self.row.dtype).tagged(self.row.element)]
        sizes = self.g.known(torch.zeros(len(self.row.shape), dtype=torch.int64))
        return [self.g.full([0], 0, self.row.dtype).tagged(self.row.element), sizes]

    def types(self, trips: Dim) -> list[TensorType]:
        """The types of the state."""
        if not self.flat:
            return [TensorType(self.row.dtype, (trips, *self.row.shape), self.row.element)]
        elements = self.g.table.new_symbol("collected elements")
        return [TensorType(self.row.dtype, (elements,), self.row.element), TensorType(torch.int64, (len(self.row.shape),))]

    def push(self, b: ProgramBuilder, trip: Value, state: Sequence[Value], row: Value) -> list[Value]:
        """The state after a turn."""
        if not self.flat:
            return [b.cat([state[0], b.unsqueeze(row, 0)], 0)]
        rows, sizes = state
        number = b.item(trip)
        for axis, size in enumerate(row.shape):
            before = b.item(b.select(sizes, 0, axis))
            same = sympy.Or(sympy.Eq(number, 0), sympy.Eq(before, size))
            b.require(same, f"every trip of {b.origin} must give a scan output of the same size")
        return [b.cat([rows, b.reshape(row, [product_of(row.shape)])], 0), b.sizes(row.shape)]

    def result(self, trips: Value, state: Sequence[Value]) -> Value:
        """All rows, after the loop."""
        if not self.flat:
            return state[0]
        rows, sizes = state
        shape: list[Dim] = [
            size if known_around(self.g, size) else self.g.item(self.g.select(sizes, 0, axis))
            for axis, size in enumerate(self.row.shape)
        ]
        return self.g.reshape(rows, [self.g.item(trips), *shape])
