"""The loops of a pass over a row: element by element, or several vectors at once and then what is left, vector by vector."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import affine, arith, scf

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
from onnx2torch_mlir.engine.compiler.row_sums import Numbers, Sum, sums_of, together, total
from onnx2torch_mlir.engine.compiler.vector_unit import of_host


@dataclass(frozen=True)
class Spot:
    """Where an element is: the buffer, the first of its indices, and the rest of them over the loops of the pass."""

    array: ir.Value
    first: list[ir.Value]
    rest: tuple[ir.AffineExpr, ...]

    def indices(self, here: list[ir.Value]) -> list[ir.Value]:
        """The indices at one place of the loops."""
        return [*self.first, *(_applied(expression, here) for expression in self.rest)]


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

    def write(self, one: Pass, row: list[ir.Value]) -> None:
        """The loops of a pass over a row, whose place along each dim of the rows is given."""

        def loop(level: int, here: list[ir.Value]) -> None:
            if level == len(one.lengths):
                self._turn(one.steps, here, {}, One())
            elif level == len(one.lengths) - 1:
                self._innermost(one, here)
            else:
                made = scf.ForOp(self._zero, self._lengths[one.lengths[level]], self._one)
                with ir.InsertionPoint(made.body):
                    loop(level + 1, [*here, made.induction_variable])
                    scf.YieldOp([])

        loop(0, row)

    def _innermost(self, one: Pass, here: list[ir.Value]) -> None:
        """The innermost loop of a pass, at one place of the loops around it."""
        sums = [each for step in one.steps if step.reduces_innermost() for each in sums_of(step)]
        marked = [operation.attributes for each in sums for operation in each.any_of_nan]
        before = [attributes["fastmath"] for attributes in marked]
        for attributes in marked:
            attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<nnan, nsz>")
        # Not a position of the innermost loop is read here: what it adds up to does not depend on it.
        initial = [
            [self._load(each.step, place, [*here, self._zero], One())[0] for place in each.places] for each in sums
        ]
        write = self._by_vectors if self._is_by_lanes(one, sums) else self._by_elements
        for each, numbers in zip(sums, write(one, here, sums, initial), strict=True):
            for place, number in zip(each.places, numbers, strict=True):
                if each.any_of_nan:
                    # Some number, and the same one for all that read it.
                    number = ir.Operation.create("llvm.freeze", [number.type], [number]).results[0]
                self._store(each.step, place, (number,), [*here, self._zero], One())
        # The nests may stay beside the loop (attention_code.py), where nothing makes one number of what NaN leaves open.
        for attributes, relaxed in zip(marked, before, strict=True):
            attributes["fastmath"] = relaxed

    def _by_elements(self, one: Pass, here: list[ir.Value], sums: list[Sum], initial: list[Numbers]) -> list[Numbers]:
        bounds = (self._zero, self._lengths[one.lengths[-1]], self._one)
        return [_first(each) for each in self._loop(one, here, sums, _single(initial), bounds, lambda _: One())]

    def _by_vectors(self, one: Pass, here: list[ir.Value], sums: list[Sum], initial: list[Numbers]) -> list[Numbers]:
        """Several vectors at once as long as they are full, then one by one."""
        lanes, count = self._unit.lanes, vectors_at_once(self._unit)
        single, far = Vectors(lanes, 1), lanes * count
        length, combining = one.lengths[-1], [each.combining for each in sums if each.combining is not None]
        bound = self._lengths[length]
        begun = [each.begin(before) for each, before in zip(combining, initial, strict=True)]
        running = [[single.same(number)[0] for number in numbers] for numbers in begun]
        full = self._zero
        if not isinstance(length, int) or length >= far:
            full = index(length - length % far) if isinstance(length, int) else _multiple(bound, index(far))
            several = [[(vector,) * count for vector in vectors] for vectors in running]
            bounds = (self._zero, full, index(far))
            parts = self._loop(one, here, sums, several, bounds, lambda _: Vectors(lanes, count))
            running = [together(each, part) for each, part in zip(combining, parts, strict=True)]
        if not isinstance(length, int) or length % far:
            is_whole = isinstance(length, int) and length % lanes == 0

            def rest(place: ir.Value) -> Vectors:
                return Vectors(lanes, 1, None if is_whole else arith.SubIOp(bound, place).result)

            bounds = (full, bound, index(lanes))
            running = [_first(each) for each in self._loop(one, here, sums, _single(running), bounds, rest)]
        return [total(*each) for each in zip(combining, running, initial, strict=True)]

    def _loop(
        self,
        one: Pass,
        here: list[ir.Value],
        sums: list[Sum],
        initial: list[list[Values]],
        bounds: tuple[ir.Value, ir.Value, ir.Value],
        turn: Callable[[ir.Value], Lanes],
    ) -> list[list[Values]]:
        """A loop (from, to, step) whose turn at each place is for the lanes that ``turn`` gives; what the sums are after it."""
        made = scf.ForOp(*bounds, [value for numbers in initial for values in numbers for value in values])

        def of_sums(values: list[ir.Value]) -> list[list[Values]]:
            rest = iter(values)
            return [[tuple(next(rest) for _ in each) for each in numbers] for numbers in initial]

        with ir.InsertionPoint(made.body):
            lanes = turn(made.induction_variable)
            before = of_sums(list(made.inner_iter_args))
            places = [place for each in sums for place in each.places]
            running = [values for numbers in before for values in numbers]
            by_place = {id(place): values for place, values in zip(places, running, strict=True)}
            after = self._turn(one.steps, [*here, made.induction_variable], by_place, lanes)
            kept = [lanes.kept(*values) for values in zip(after, running, strict=True)]
            scf.YieldOp([value for values in kept for value in values])
        return of_sums(list(made.results))

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
        return lanes.load(spot.array, spot.indices(here), moves)

    def _store(self, step: Step, place: Place, values: Values, here: list[ir.Value], lanes: Lanes) -> None:
        spot = self._where(step, place)
        lanes.store(values, spot.array, spot.indices(here))


def _single(numbers: list[Numbers]) -> list[list[Values]]:
    """One vector, or element, of each."""
    return [[(number,) for number in each] for each in numbers]


def _first(numbers: list[Values]) -> Numbers:
    return [first for (first,) in numbers]


def _applied(expression: ir.AffineExpr, here: list[ir.Value]) -> ir.Value:
    if isinstance(expression, ir.AffineDimExpr):
        return here[expression.position]
    if isinstance(expression, ir.AffineConstantExpr):
        return index(expression.value)
    value: ir.Value = affine.AffineApplyOp(ir.AffineMap.get(len(here), 0, [expression]), here).result
    return value


def _multiple(number: ir.Value, of: ir.Value) -> ir.Value:
    """The largest multiple of ``of`` that is at most ``number``."""
    product: ir.Value = arith.MulIOp(arith.DivUIOp(number, of).result, of).result
    return product
