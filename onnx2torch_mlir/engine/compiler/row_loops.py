"""The loops of a pass over a row: element by element, or several vectors at once and then what is left, vector by vector."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import affine, arith, scf

from onnx2torch_mlir.engine.compiler.extents import Length, index
from onnx2torch_mlir.engine.compiler.nests import Place, uses
from onnx2torch_mlir.engine.compiler.row_lanes import Lanes, One, Values, Vectors, combining_of, is_by_lanes, is_dense
from onnx2torch_mlir.engine.compiler.row_passes import Element, Pass, Step
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.hints import ANY_OF_NAN

_REGISTERS_OF_A_VECTOR = 8
"""What a body holds of one: as many vectors take turns as there are registers for."""


@dataclass(frozen=True)
class Spot:
    """Where an element is: the buffer, the first of its indices, and the rest of them over the loops of the pass."""

    array: ir.Value
    first: list[ir.Value]
    rest: tuple[ir.AffineExpr, ...]

    def indices(self, here: list[ir.Value]) -> list[ir.Value]:
        """The indices at one place of the loops."""
        return [*self.first, *(_applied(expression, here) for expression in self.rest)]


@dataclass(frozen=True)
class _Sum:
    """What the innermost loop of a pass adds up, and the operation that does; None if it has to go in order."""

    step: Step
    place: Place
    combining: ir.Operation | None

    @property
    def is_any_of_nan(self) -> bool:
        """Whether it may be any number where one of its terms is NaN."""
        return self.combining is not None and ANY_OF_NAN in self.combining.attributes


class Loops:
    """Emits passes over rows of ``dims`` dims; made before the loop over rows.

    ``lengths`` are the loops' bounds, ``where`` tells where an element of a buffer is, ``kept`` are buffers without memory:
    what is written there is only needed in the same turn.
    """

    def __init__(
        self,
        dims: int,
        lengths: dict[Length, ir.Value],
        kept: Container[ir.Value],
        where: Callable[[Step, Place], Spot],
    ) -> None:
        self._dims, self._lengths, self._kept, self._where = dims, lengths, kept, where
        self._unit = of_host()
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
        sums = [each for step in one.steps if step.reduces_innermost() for each in _sums_of(step)]
        marked = [each.combining.attributes for each in sums if each.combining is not None and each.is_any_of_nan]
        before = [attributes["fastmath"] for attributes in marked]
        for attributes in marked:
            attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<nnan, nsz>")
        # Not a position of the innermost loop is read here: what it adds up to does not depend on it.
        initial = [self._load(each.step, each.place, [*here, self._zero], One())[0] for each in sums]
        write = self._by_vectors if self._is_by_lanes(one, sums) else self._by_elements
        for each, total in zip(sums, write(one, here, sums, initial), strict=True):
            if each.is_any_of_nan:
                # Some number, and the same one for all that read it.
                total = ir.Operation.create("llvm.freeze", [total.type], [total]).results[0]
            self._store(each.step, each.place, (total,), [*here, self._zero], One())
        # The nests may stay beside the loop (attention_code.py), where nothing makes one number of what NaN leaves open.
        for attributes, relaxed in zip(marked, before, strict=True):
            attributes["fastmath"] = relaxed

    def _by_elements(self, one: Pass, here: list[ir.Value], sums: list[_Sum], initial: list[ir.Value]) -> list[ir.Value]:
        after = self._loop(one, here, sums, initial, (self._zero, self._lengths[one.lengths[-1]], self._one), lambda _: One())
        return [total for (total,) in after]

    def _by_vectors(self, one: Pass, here: list[ir.Value], sums: list[_Sum], initial: list[ir.Value]) -> list[ir.Value]:
        """Several vectors at once as long as they are full, then one by one."""
        lanes, count = self._unit.lanes, max(self._unit.registers // _REGISTERS_OF_A_VECTOR, 1)
        single, far = Vectors(lanes, 1), lanes * count
        length, combining = one.lengths[-1], [each.combining for each in sums if each.combining is not None]
        bound = self._lengths[length]
        running = [single.begin(operation) for operation in combining]
        full = self._zero
        if not isinstance(length, int) or length >= far:
            full = index(length - length % far) if isinstance(length, int) else _multiple(bound, index(far))
            begun = [value for value in running for _ in range(count)]
            bounds = (self._zero, full, index(far))
            parts = self._loop(one, here, sums, begun, bounds, lambda _: Vectors(lanes, count))
            running = [single.together(operation, part) for operation, part in zip(combining, parts, strict=True)]
        if not isinstance(length, int) or length % far:
            is_whole = isinstance(length, int) and length % lanes == 0

            def rest(place: ir.Value) -> Vectors:
                return Vectors(lanes, 1, None if is_whole else arith.SubIOp(bound, place).result)

            running = [total for (total,) in self._loop(one, here, sums, running, (full, bound, index(lanes)), rest)]
        return [single.total(*each) for each in zip(combining, running, initial, strict=True)]

    def _loop(
        self,
        one: Pass,
        here: list[ir.Value],
        sums: list[_Sum],
        initial: list[ir.Value],
        bounds: tuple[ir.Value, ir.Value, ir.Value],
        turn: Callable[[ir.Value], Lanes],
    ) -> list[Values]:
        """A loop (from, to, step) whose turn at each place is for the lanes that ``turn`` gives; what the sums are after it."""
        made = scf.ForOp(*bounds, initial)
        count = len(initial) // len(sums) if sums else 0

        def of_sums(values: list[ir.Value]) -> list[Values]:
            return [tuple(values[number * count : (number + 1) * count]) for number in range(len(sums))]

        with ir.InsertionPoint(made.body):
            place = made.induction_variable
            lanes = turn(place)
            before = of_sums(list(made.inner_iter_args))
            after = self._turn(one.steps, [*here, place], {id(s.place): v for s, v in zip(sums, before, strict=True)}, lanes)
            kept = [lanes.kept(*values) for values in zip(after, before, strict=True)]
            scf.YieldOp([value for values in kept for value in values])
        return of_sums(list(made.results))

    def _is_by_lanes(self, one: Pass, sums: list[_Sum]) -> bool:
        """Whether vectors of neighbours along the innermost loop do what their elements do."""
        if any(each.combining is None for each in sums) or not all(is_by_lanes(step.nest) for step in one.steps):
            return False
        summed = {id(each.place) for each in sums}
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

    def _positions(self, step: Step, here: list[ir.Value]) -> Callable[[int], ir.Value]:
        loops = [*step.rows, *step.inside]
        return lambda dim: here[loops.index(dim)] if dim in loops else self._zero

    def _load(self, step: Step, place: Place, here: list[ir.Value], lanes: Lanes) -> Values:
        spot = self._where(step, place)
        moves = any(uses(expression, [len(here) - 1]) for expression in spot.rest)
        return lanes.load(spot.array, spot.indices(here), moves)

    def _store(self, step: Step, place: Place, values: Values, here: list[ir.Value], lanes: Lanes) -> None:
        spot = self._where(step, place)
        lanes.store(values, spot.array, spot.indices(here))


def _sums_of(step: Step) -> list[_Sum]:
    """What the innermost loop of a step that reduces adds up."""
    written = [place for place in step.nest.places if place.written]
    combining = combining_of(step.nest) or [None] * len(written)
    return [_Sum(step, *each) for each in zip(written, combining, strict=True)]


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
