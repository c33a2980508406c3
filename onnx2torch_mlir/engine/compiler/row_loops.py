"""The loops of a pass over a row: element by element, or several vectors at once and then what is left, vector by vector."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import TypeAlias

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from onnx2torch_mlir.engine.compiler.extents import Length, index
from onnx2torch_mlir.engine.compiler.nests import Place, uses
from onnx2torch_mlir.engine.compiler.row_lanes import (
    Lanes,
    One,
    Position,
    Values,
    Vectors,
    is_by_lanes,
    is_dense,
    vectors_at_once,
)
from onnx2torch_mlir.engine.compiler.row_passes import Element, Pass, Step
from onnx2torch_mlir.engine.compiler.row_spots import Asking, Spot
from onnx2torch_mlir.engine.compiler.row_sums import Numbers, Sum, sums_of, together, total
from onnx2torch_mlir.engine.compiler.vector_unit import of_host

Running: TypeAlias = list[list[Values]]
"""What sums are so far: of each, of each of its numbers, one element or some vectors."""


class Loops:
    """Emits passes over rows of ``dims`` dims; made before the loop over rows.

    ``lengths`` are the loops' bounds, ``where`` tells where an element of a buffer is, ``kept`` are buffers without memory:
    what is written there is only needed in the same turn. A pass that is ``alone`` and looks for a position among less than a
    vector's elements goes one by one: LLVM writes them out, and takes several rows at once.
    """

    def __init__(
        self,
        dims: int,
        lengths: dict[Length, ir.Value],
        kept: Container[ir.Value],
        where: Callable[[Step, Place], Spot],
        *,
        alone: bool = False,
    ) -> None:
        self._dims, self._lengths, self._kept, self._where = dims, lengths, kept, where
        self._unit, self._alone = of_host(), alone
        self._zero, self._one = index(0), index(1)
        self._asking = Asking()

    def write(self, one: Pass, row: list[ir.Value]) -> None:
        """The loops of a pass over a row, whose place along each dim of the rows is given."""

        innermost = len(one.lengths) - 1
        summed, added = self._summed_from(one), self._added_up(one)

        def loop(level: int, here: list[ir.Value]) -> None:
            if level > innermost:
                self._turn(one.steps, here, {}, One())
            elif level == summed:
                self._summed(one, here)
            elif added and level == innermost - 1:
                self._in_registers(one, here, added)
            else:
                made = scf.ForOp(self._zero, self._lengths[one.lengths[level]], self._one)
                with ir.InsertionPoint(made.body):
                    loop(level + 1, [*here, made.induction_variable])
                    scf.YieldOp([])

        loop(0, row)

    def _summed_from(self, one: Pass) -> int:
        """The outermost of the last loops that all belong to what the innermost one adds up: the innermost, at least."""
        sums = [step for step in one.steps if step.reduces_innermost()]
        level = len(one.lengths) - 1
        while sums and level > 0 and all(step.nest.reductions[step.inside[level - 1]] for step in sums):
            level -= 1
        return level

    def _added_up(self, one: Pass) -> list[tuple[Step, Place]]:
        """What the loop around the innermost one of a pass adds up, if registers hold a narrow row of it; else nothing."""
        if len(one.lengths) < 2 or any(step.reduces_innermost() for step in one.steps):
            return []
        columns = one.lengths[-1]
        summing = [step for step in one.steps if step.nest.reductions[step.inside[-2]]]
        added = [(step, place) for step in summing for place in step.nest.places if place.written]
        if not isinstance(columns, int) or not self._unit.holds(columns, len(added)):
            return []
        return added if self._is_by_lanes(one, []) else []

    def _in_registers(self, one: Pass, here: list[ir.Value], added: list[tuple[Step, Place]]) -> None:
        """The two innermost loops of a pass, where the outer one adds something up for each column."""
        lanes, columns = self._unit.lanes, one.lengths[-1]
        assert isinstance(columns, int)
        far = lanes * vectors_at_once(self._unit)
        parts = [(index(first), Vectors.covering(lanes, min(far, columns - first))) for first in range(0, columns, far)]
        begun = [[self._load(*each, [*here, self._zero, first], vectors) for each in added] for first, vectors in parts]
        made = scf.ForOp(self._zero, self._lengths[one.lengths[-2]], self._one, _flat(begun))
        with ir.InsertionPoint(made.body):
            after = []
            for (first, vectors), values in zip(parts, _like(begun, made.inner_iter_args), strict=True):
                sums = {id(place): value for (_, place), value in zip(added, values, strict=True)}
                after.append(self._turn(one.steps, [*here, made.induction_variable, first], sums, vectors))
            scf.YieldOp(_flat(after))
        for (first, vectors), values in zip(parts, _like(begun, made.results), strict=True):
            for (step, place), value in zip(added, values, strict=True):
                self._store(step, place, value, [*here, self._zero, first], vectors)

    def _summed(self, one: Pass, here: list[ir.Value]) -> None:
        """The last loops of a pass (`_summed_from`), at one place of the loops around them."""
        sums = [each for step in one.steps if step.reduces_innermost() for each in sums_of(step)]
        marked = [operation.attributes for each in sums for operation in each.any_of_nan]
        before = [attributes["fastmath"] for attributes in marked]
        for attributes in marked:
            attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<nnan, nsz>")
        # Not a position of these loops is read here: what they add up to does not depend on it.
        first = [*here, *([self._zero] * (self._dims + len(one.lengths) - len(here)))]
        initial = [[self._load(each.step, place, first, One())[0] for place in each.places] for each in sums]
        write = self._by_vectors if self._is_by_lanes(one, sums) else self._by_elements
        for each, numbers in zip(sums, write(one, here, sums, initial), strict=True):
            for place, number in zip(each.places, numbers, strict=True):
                if each.any_of_nan:
                    # Some number, and the same one for all that read it.
                    number = ir.Operation.create("llvm.freeze", [number.type], [number]).results[0]
                self._store(each.step, place, (number,), first, One())
        # The nests may stay beside the loop (attention_code.py), where nothing makes one number of what NaN leaves open.
        for attributes, relaxed in zip(marked, before, strict=True):
            attributes["fastmath"] = relaxed

    def _by_elements(self, one: Pass, here: list[ir.Value], sums: list[Sum], initial: list[Numbers]) -> list[Numbers]:
        bounds = (self._zero, self._lengths[one.lengths[-1]], self._one)

        def innermost(here: list[ir.Value], running: Running) -> Running:
            return self._loop(one, here, sums, running, bounds, lambda _: One())

        return [_first(each) for each in self._around(one, here, _single(initial), innermost)]

    def _by_vectors(self, one: Pass, here: list[ir.Value], sums: list[Sum], initial: list[Numbers]) -> list[Numbers]:
        """Several vectors at once as long as they are full; then what is left, at once if it is known, else one by one."""
        lanes, count = self._unit.lanes, vectors_at_once(self._unit)
        single, far = Vectors(lanes, 1), lanes * count
        length, combining = one.lengths[-1], [each.combining for each in sums if each.combining is not None]
        bound = self._lengths[length]
        known = length if isinstance(length, int) else None
        whole = _multiple(bound, index(far)) if known is None else index(known - known % far)
        left = None if known is None or not known % far else Vectors.covering(lanes, known % far)
        at_once = count if known is None or known >= far or left is None else left.count

        def masked(place: ir.Value) -> Vectors:
            return Vectors(lanes, 1, arith.SubIOp(bound, place).result)

        def innermost(here: list[ir.Value], running: Running) -> Running:
            if known is None or known >= far:
                bounds = (self._zero, whole, index(far))
                running = self._loop(one, here, sums, running, bounds, lambda _: Vectors(lanes, count))
            if known is not None and left is None:
                return running
            some = 1 if left is None else left.count
            first, others = (
                [[values[taken] for values in numbers] for numbers in running] for taken in (slice(some), slice(some, None))
            )
            bounds = (whole, bound, index(lanes if left is None else far))
            done = self._loop(one, here, sums, first, bounds, masked if left is None else lambda _: left)
            return [[(*a, *b) for a, b in zip(*both, strict=True)] for both in zip(done, others, strict=True)]

        begun = [
            [single.same(number) * at_once for number in each.begin(before)]
            for each, before in zip(combining, initial, strict=True)
        ]
        parts = self._around(one, here, begun, innermost)
        running = [together(each, part) for each, part in zip(combining, parts, strict=True)]
        return [total(*each) for each in zip(combining, running, initial, strict=True)]

    def _around(
        self, one: Pass, here: list[ir.Value], running: Running, innermost: Callable[[list[ir.Value], Running], Running]
    ) -> Running:
        """The loops from the place ``here`` to the ``innermost``, through which sums are handed; what these are after them."""
        level = len(here) - self._dims
        if level == len(one.lengths) - 1:
            return innermost(here, running)
        made = scf.ForOp(self._zero, self._lengths[one.lengths[level]], self._one, _flat(running))
        with ir.InsertionPoint(made.body):
            there = [*here, made.induction_variable]
            scf.YieldOp(_flat(self._around(one, there, _like(running, made.inner_iter_args), innermost)))
        return _like(running, made.results)

    def _loop(
        self,
        one: Pass,
        here: list[ir.Value],
        sums: list[Sum],
        initial: Running,
        bounds: tuple[ir.Value, ir.Value, ir.Value],
        turn: Callable[[ir.Value], Lanes],
    ) -> Running:
        """A loop (from, to, step) whose turn at each place is for the lanes that ``turn`` gives; what the sums are after it."""
        made = scf.ForOp(*bounds, _flat(initial))
        with ir.InsertionPoint(made.body):
            lanes = turn(made.induction_variable)
            places = [place for each in sums for place in each.places]
            running = [values for numbers in _like(initial, made.inner_iter_args) for values in numbers]
            by_place = {id(place): values for place, values in zip(places, running, strict=True)}
            after = self._turn(one.steps, [*here, made.induction_variable], by_place, lanes)
            kept = [lanes.kept(*values) for values in zip(after, running, strict=True)]
            scf.YieldOp([value for values in kept for value in values])
        return _like(initial, made.results)

    def _is_by_lanes(self, one: Pass, sums: list[Sum]) -> bool:
        """Whether vectors of neighbours along the innermost loop do what their elements do."""
        if any(each.combining is None for each in sums) or not all(is_by_lanes(step.nest.operation) for step in one.steps):
            return False
        length = one.lengths[-1]
        if self._alone and isinstance(length, int) and length < self._unit.lanes and any(each.is_extreme for each in sums):
            return False
        summed = {id(place) for each in sums for place in each.places}
        innermost = self._dims + len(one.lengths) - 1
        for step in one.steps:
            for place in step.nest.buffers:
                spot = self._where(step, place)
                moving = [uses(expression, [innermost]) for expression in spot.rest]
                if id(place) in summed or place.root in self._kept or not any(moving):
                    continue
                if not isinstance(spot.rest[-1], ir.AffineDimExpr) or any(moving[:-1]) or not is_dense(spot.array):
                    return False
        return True

    def _turn(self, steps: list[Step], here: list[ir.Value], sums: dict[int, Values], lanes: Lanes) -> list[Values]:
        """The bodies of the steps at one place of the loops; what the sums are after it."""
        known: dict[Element, Values] = {}
        after = []
        for step in steps:
            block = step.nest.operation.regions[0].blocks[0]
            given: list[Values | None] = []
            for place in step.nest.places:
                if id(place) in sums:
                    given.append(sums[id(place)])
                elif not place.read:
                    given.append(None)
                elif place.root is None:
                    given.append(lanes.same(place.value))
                elif step.element(place) in known:
                    given.append(known[step.element(place)])
                else:
                    given.append(self._load(step, place, here, lanes))
            results = lanes.body(block, given, self._positions(step, here))
            for place, values in zip([p for p in step.nest.places if p.written], results, strict=True):
                if id(place) in sums:
                    after.append(values)
                    continue
                known[step.element(place)] = values
                if place.root not in self._kept:
                    self._store(step, place, values, here, lanes)
        return after

    def _positions(self, step: Step, here: list[ir.Value]) -> Position:
        loops = [*step.rows, *step.inside]
        return lambda dim: (here[loops.index(dim)], dim == loops[-1]) if dim in loops else (self._zero, False)

    def _load(self, step: Step, place: Place, here: list[ir.Value], lanes: Lanes) -> Values:
        spot = self._where(step, place)
        moves = any(uses(expression, [len(here) - 1]) for expression in spot.rest)
        if moves:
            self._asking.at(spot, here, lanes, writes=False)
        return lanes.load(spot.array, spot.indices(here), moves)

    def _store(self, step: Step, place: Place, values: Values, here: list[ir.Value], lanes: Lanes) -> None:
        spot = self._where(step, place)
        self._asking.at(spot, here, lanes, writes=True)
        lanes.store(values, spot.array, spot.indices(here))


def _flat(running: Running) -> list[ir.Value]:
    """All values one after the other, as a loop hands them on."""
    return [value for numbers in running for values in numbers for value in values]


def _like(running: Running, values: Iterable[ir.Value]) -> Running:
    """Such values for what is ``running``."""
    rest = iter(values)
    return [[tuple(next(rest) for _ in each) for each in numbers] for numbers in running]


def _single(numbers: list[Numbers]) -> Running:
    """One vector, or element, of each."""
    return [[(number,) for number in each] for each in numbers]


def _first(numbers: list[Values]) -> Numbers:
    return [first for (first,) in numbers]


def _multiple(number: ir.Value, of: ir.Value) -> ir.Value:
    """The largest multiple of ``of`` that is at most ``number``."""
    product: ir.Value = arith.MulIOp(arith.DivUIOp(number, of).result, of).result
    return product
