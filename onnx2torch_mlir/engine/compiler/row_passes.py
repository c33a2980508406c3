"""Which nests of a group share a pass over the row: those that meet at the same element, as if they were one nest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.extents import Equal, Length
from onnx2torch_mlir.engine.compiler.loop_order import substitute
from onnx2torch_mlir.engine.compiler.nests import Nest, Place, row_loops, turning

MERGED = "merged"
"""What begins the `Length` that is the product of those that follow."""

Element = tuple[Any, tuple[str, ...]]
"""A buffer and the indices of an element in the loops of the pass, as text."""


@dataclass
class Step:
    """One nest in a pass: its loops over rows, and those of more than one turn inside the row, from the outside in; of these
    the ones ``along`` the innermost are one with it (merged_loops.py)."""

    nest: Nest
    rows: list[int]
    inside: list[int]
    along: list[int] = field(default_factory=list)

    def expressions(self, indices: tuple[ir.AffineExpr, ...]) -> tuple[ir.AffineExpr, ...]:
        """Indices over the loops of the pass: rows first, then the loops inside; loops of one turn, or along the innermost one,
        are at 0."""
        names: list[ir.AffineExpr] = [ir.AffineConstantExpr.get(0)] * len(self.nest.reductions)
        for position, dim in enumerate([*self.rows, *self.inside]):
            names[dim] = ir.AffineDimExpr.get(position)
        return tuple(substitute(expression, names) for expression in indices)

    def element(self, place: Place) -> Element:
        """What the step touches there, comparable between the steps of a pass."""
        indices = place.indices if place.indices is not None else place.results
        return place.root, tuple(str(expression) for expression in self.expressions(indices))

    def is_one_per_turn(self, place: Place) -> bool:
        """Whether every turn of the pass has an element of its own."""
        indices = place.indices if place.indices is not None else place.results
        positions = {e.position for e in self.expressions(indices) if isinstance(e, ir.AffineDimExpr)}
        return positions == set(range(len(self.rows) + len(self.inside)))

    def reduces_innermost(self) -> bool:
        """Whether the innermost loop adds up to what stays the same in it."""
        return bool(self.inside) and self.nest.reductions[self.inside[-1]]


@dataclass
class Pass:
    """Steps in the same loops over a row, of these ``lengths``; of those that it had ``before`` some may be merged."""

    lengths: tuple[Length, ...]
    steps: list[Step] = field(default_factory=list)
    before: tuple[Length, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.lengths


def passes_of(rows: list[Length], nests: list[Nest], equal: Equal) -> list[Pass]:
    """The fewest passes that this finds; each step follows all that it depends on."""
    passes: list[Pass] = []
    for nest in nests:
        outer = row_loops(nest, rows, equal)
        assert outer is not None
        inside = [dim for dim in turning(nest, equal) if dim not in outer]
        step = Step(nest, outer, inside)
        lengths = tuple(equal.find(nest.lengths[dim]) for dim in inside)
        last = max((number for number, there in enumerate(passes) if _depends(step, there)), default=-1)
        joined = None
        if inside:
            same = [number for number in range(max(last, 0), len(passes)) if passes[number].lengths == lengths]
            joined = next((number for number in same if number > last or _meets(step, passes[number])), None)
        if joined is not None:
            passes[joined].steps.append(step)
        else:
            # Single elements (where sums begin) come early, so that they are not in the way of passes that join.
            passes.insert(len(passes) if inside else last + 1, Pass(lengths, [step]))
    return passes


def _conflicts(step: Step, there: Pass) -> list[tuple[Place, Step, Place]]:
    return [
        (place, other, its)
        for place in step.nest.buffers
        for other in there.steps
        for its in other.nest.buffers
        if place.root == its.root and (place.written or its.written)
    ]


def _depends(step: Step, there: Pass) -> bool:
    return bool(_conflicts(step, there))


def _meets(step: Step, there: Pass) -> bool:
    """Whether what the step shares with the pass is the element of the same turn."""
    return all(
        step.element(place) == other.element(its) and step.is_one_per_turn(place) and other.is_one_per_turn(its)
        for place, other, its in _conflicts(step, there)
    )
