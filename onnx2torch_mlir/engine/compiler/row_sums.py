"""What the innermost loop of a pass adds up, and how that of parts of a row becomes that of the row: sums, extremes, and the
position of the first extreme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.loop_order import accumulations
from onnx2torch_mlir.engine.compiler.nests import Nest, Place
from onnx2torch_mlir.engine.compiler.row_lanes import lifted, part_of
from onnx2torch_mlir.engine.compiler.row_passes import Step
from onnx2torch_mlir.engine.compiler.scalar_code import constant
from onnx2torch_mlir.engine.compiler.walks import made_by
from onnx2torch_mlir.hints import ANY_OF_NAN, FIRST_OF_EQUAL

Numbers: TypeAlias = list[ir.Value]
"""What belongs together of a row or a part of it: a sum; or an extreme and its position. As numbers, or as vectors of parts."""

_IDENTITIES = {
    "arith.addf": -0.0, "arith.addi": 0, "arith.mulf": 1.0, "arith.muli": 1,
    "arith.maximumf": -math.inf, "arith.minimumf": math.inf,
}
"""What changes no number, for each operation that may take its terms in any order."""

_LARGER_OR_SMALLER = ("arith.maxsi", "arith.maxui", "arith.minsi", "arith.minui")

_OF_ANY_REPEATED = (*_LARGER_OR_SMALLER, "arith.andi", "arith.ori")
"""What gives the same if a term comes several times: each part may begin with what comes before all."""


class Combining(Protocol):
    """How results of parts become that of the whole, whichever elements are in which part."""

    def begin(self, initial: Numbers) -> Numbers:
        """Of no elements, where ``initial`` is what comes before all parts."""

    def joined(self, one: Numbers, other: Numbers) -> Numbers:
        """Of two parts."""


@dataclass(frozen=True)
class Operation:
    """One operation combines terms and results of parts alike."""

    operation: ir.Operation

    def begin(self, initial: Numbers) -> Numbers:
        """See `Combining`."""
        if self.operation.name in _OF_ANY_REPEATED:
            return initial
        return [constant(_IDENTITIES[self.operation.name], self.operation.results[0].type).value]

    def joined(self, one: Numbers, other: Numbers) -> Numbers:
        """See `Combining`."""
        return [lifted(self.operation, [*one, *other])]


@dataclass(frozen=True)
class FirstExtreme:
    """An element and its position are taken where ``takes`` says that the element comes before the best so far.

    Of two parts the one whose best is at the lower position is asked as if it were the best so far: equal ones leave it.
    """

    takes: ir.Value
    element: ir.Value
    best: ir.Value

    def begin(self, initial: Numbers) -> Numbers:
        """See `Combining`."""
        return initial

    def joined(self, one: Numbers, other: Numbers) -> Numbers:
        """See `Combining`."""
        swapped = arith.CmpIOp(arith.CmpIPredicate.slt, other[1], one[1]).result
        first = [arith.SelectOp(swapped, b, a).result for a, b in zip(one, other, strict=True)]
        second = [arith.SelectOp(swapped, a, b).result for a, b in zip(one, other, strict=True)]
        takes = self._again(self.takes, {self.element: second[0], self.best: first[0]})
        return [arith.SelectOp(takes, b, a).result for a, b in zip(first, second, strict=True)]

    def _again(self, value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
        if value not in known:
            operation = value.owner.operation
            known[value] = lifted(operation, [self._again(operand, known) for operand in operation.operands])
        return known[value]


@dataclass(frozen=True)
class Sum:
    """What a step adds up, where; ``combining`` is None if it has to go in order."""

    step: Step
    places: tuple[Place, ...]
    combining: Combining | None

    @property
    def is_extreme(self) -> bool:
        """Whether it is an extreme and its position."""
        return isinstance(self.combining, FirstExtreme)

    @property
    def any_of_nan(self) -> list[ir.Operation]:
        """The operation, if it may give any number where one of its terms is NaN."""
        one = self.combining.operation if isinstance(self.combining, Operation) else None
        return [one] if one is not None and ANY_OF_NAN in one.attributes else []


def sums_of(step: Step) -> list[Sum]:
    """What the innermost loop of a step that reduces adds up."""
    written = [place for place in step.nest.places if place.written]
    first = _first_extreme(step.nest, step.inside[-1])
    if first is not None:
        return [Sum(step, tuple(written), first)]
    found = accumulations(step.nest.operation)
    free = bool(found) and all(operation.name in (*_IDENTITIES, *_OF_ANY_REPEATED) for operation in found)
    combining = [Operation(operation) for operation in found] if free else [None] * len(written)
    return [Sum(step, (place,), each) for place, each in zip(written, combining, strict=True)]


def _first_extreme(nest: Nest, innermost: int) -> FirstExtreme | None:
    """The extreme, where a nest looks for one and for the position of the first like it along its ``innermost`` loop."""
    block = nest.operation.regions[0].blocks[0]
    yielded = list(list(block.operations)[-1].operation.operands)
    if len(yielded) != 2 or sum(nest.reductions) != 1:
        return None
    # Of integers, what is chosen by a comparison has become the larger or the smaller one.
    value, position = made_by(yielded[0], "arith.select", *_LARGER_OR_SMALLER), made_by(yielded[1], "arith.select")
    if value is None or position is None or FIRST_OF_EQUAL not in position.attributes:
        return None
    best, last = list(block.arguments)[-2:]
    takes, here, there = position.operands
    elements = [operand for operand in value.operands if operand not in (takes, best)]
    if len(elements) != 1 or best not in list(value.operands) or there != last or not _counts(here, innermost):
        return None
    return FirstExtreme(takes, elements[0], best) if _depends_only(takes, {elements[0], best}) else None


def _counts(value: ir.Value, dim: int) -> bool:
    """Whether a number is the place along a loop."""
    while (cast := made_by(value, "arith.index_cast")) is not None:
        value = cast.operands[0]
    made = made_by(value, "linalg.index")
    return made is not None and ir.IntegerAttr(made.attributes["dim"]).value == dim


def _depends_only(value: ir.Value, known: set[ir.Value]) -> bool:
    if value in known:
        return True
    made = made_by(value)
    return made is not None and len(made.operands) > 0 and all(_depends_only(operand, known) for operand in made.operands)


def together(combining: Combining, parts: Sequence[Sequence[ir.Value]]) -> Numbers:
    """What several vectors of each number are as one of each."""
    first, *others = (list(part) for part in zip(*parts, strict=True))
    for other in others:
        first = combining.joined(first, other)
    return first


def total(combining: Combining, running: Numbers, initial: Numbers) -> Numbers:
    """The lanes of vectors, and what came before them, as numbers: half of what is left is added to the other half."""
    (left,) = ir.VectorType(running[0].type).shape
    while left > 1:
        left //= 2
        low, high = ([part_of(each, half) for each in running] for half in (range(left), range(left, 2 * left)))
        running = combining.joined(low, high)
    first = {"static_position": ir.DenseI64ArrayAttr.get([0])}
    made = [
        ir.Operation.create("vector.extract", [before.type], [each], first).results[0]
        for each, before in zip(running, initial, strict=True)
    ]
    return combining.joined(initial, made)
