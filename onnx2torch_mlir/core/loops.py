"""Loops whose carried values may change their sizes, and whose stacked results may be of any number.

Everything works on plain lists of values: what a caller carries beyond tensors (a sequence, an optional) it takes apart
before and puts together again inside its body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import known_equal
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import Body, SubProgramBuilder, check_carried, known_around
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Refusal


@dataclass(frozen=True)
class Turn:
    """What is known of every turn of a loop before it is built.

    ``carries`` are the types at its start (a size that changes is a symbol of its own); ``goes_on`` is True where the
    first result is known to be true; ``extras`` are the types of the results after the carries; ``pinned`` says that the
    body only converts with the carries' first sizes, which are asserted to stay; ``peeled`` that the first turns broadcast
    sizes of 1 to those that every later turn has, or that the first one gives a carry the rank that it keeps: they have to be
    built apart from these.
    """

    carries: tuple[TensorType, ...]
    goes_on: bool
    extras: tuple[TensorType, ...]
    pinned: bool
    peeled: bool = False

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
            widened, goes_on, extras, after = _attempt(g, body, types, [value.shape for value in init])
        except Refusal:
            if turn is None:
                raise
            return turn
        changed = [pair for pair in zip(types, after, strict=True) if len(pair[0].shape) != len(pair[1].shape)]
        if changed:
            if turn is None and _keeps_ranks(g, body, after, extras):
                return Turn(tuple(types), goes_on, extras, pinned=False, peeled=True)
            check_carried(g, *changed[0])
        if widened == types:
            return Turn(tuple(types), goes_on, extras, pinned=False)
        if turn is None and _broadcasts_at_first(g, body, types, after, extras):
            return Turn(tuple(types), goes_on, extras, pinned=False, peeled=True)
        if turn is None:
            first = tuple(TensorType(value.dtype, value.shape, value.element) for value in init)
            turn = Turn(first, goes_on, extras, pinned=True)
        types = widened


def _broadcasts_at_first(
    g: ProgramBuilder, body: Body, types: list[TensorType], after: list[TensorType], extras: tuple[TensorType, ...]
) -> bool:
    """Whether turns change nothing but sizes of 1, into sizes known around the loop, and soon nothing more.

    ``after`` and ``extras`` are the types of the first turn's results; the further ones have to stay the same.
    """
    while True:
        changed = [
            (before, now)
            for type_, result in zip(types, after, strict=True)
            for before, now in zip(type_.shape, result.shape, strict=True)
            if not known_equal(before, now)
        ]
        if not changed:
            return True
        if not all(before == 1 and known_around(g, now) for before, now in changed):
            return False
        types = after
        try:
            _, _, later, after = _attempt(g, body, types, [type_.shape for type_ in types])
        except Refusal:
            return False
        if not _alike(later, extras):
            return False


def _keeps_ranks(g: ProgramBuilder, body: Body, types: Sequence[TensorType], extras: tuple[TensorType, ...]) -> bool:
    """Whether a turn that starts with ``types`` leaves their ranks as they are, and gives ``extras`` too."""
    try:
        _, _, later, after = _attempt(g, body, types, [type_.shape for type_ in types])
    except Refusal:
        return False
    return _alike(later, extras) and all(len(a.shape) == len(b.shape) for a, b in zip(types, after, strict=True))


def _alike(some: Sequence[TensorType], others: Sequence[TensorType]) -> bool:
    pairs = list(zip(some, others, strict=True))
    return all(len(a.shape) == len(b.shape) for a, b in pairs) and all(
        known_equal(one, other) for a, b in pairs for one, other in zip(a.shape, b.shape, strict=True)
    )


def _attempt(
    g: ProgramBuilder, body: Body, types: Sequence[TensorType], first: Sequence[tuple[Dim, ...]]
) -> tuple[list[TensorType], bool, tuple[TensorType, ...], list[TensorType]]:
    """The carries' types widened by a turn, whether it goes on, the types of its further results, and of its carries.

    A carry whose rank changes is not widened.
    """
    aside = SubProgramBuilder(g)
    with g.table.inside():
        trip = aside.parameter("trip", TensorType(torch.int64, ()))
        carries = [aside.parameter("carry", type_) for type_ in types]
        go_on, *results = body(aside, [trip, *carries])
        widened = []
        for type_, result, sizes in zip(types, results, first, strict=False):
            if len(type_.shape) != result.rank and (type_.dtype, type_.element) == (result.dtype, result.element):
                widened.append(type_)
                continue
            check_carried(g, type_, result)
            shape = [
                own if own is not start or known_equal(g.simplify(own), g.simplify(new)) else g.table.new_symbol("carried size")
                for own, new, start in zip(type_.shape, result.shape, sizes, strict=True)
            ]
            widened.append(TensorType(type_.dtype, tuple(shape), type_.element))
        given = [TensorType(v.dtype, tuple(map(g.simplify, v.shape)), v.element) for v in results]
    known = go_on.tensor
    goes_on = known is not None and bool(known.reshape(-1)[0])
    return widened, goes_on, tuple(given[len(types) :]), given[: len(types)]


def no_trips(g: ProgramBuilder, turn: Turn) -> list[Value]:
    """The extras of a loop that never runs: a first axis of size 0, and 0 for every size that only a turn would know."""
    return [
        g.full([0, *(size if known_around(g, size) else 0 for size in type_.shape)], 0, type_.dtype).tagged(type_.element)
        for type_ in turn.extras
    ]
