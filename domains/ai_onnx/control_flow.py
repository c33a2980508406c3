"""If, Loop and Scan: folded or unrolled where everything is known, else one of torch's control-flow operators."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.carrying import Carried, Step, branch
from onnx2torch_mlir.core.composites import Anything
from onnx2torch_mlir.core.dims import maximum
from onnx2torch_mlir.core.loops import Turn, no_trips, settle
from onnx2torch_mlir.core.repetition import repeat
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import Body, SubGraph
from onnx2torch_mlir.core.subprograms import cond as either
from onnx2torch_mlir.core.subprograms import scan as scan_operator
from onnx2torch_mlir.core.values import Value

UNROLL_LIMIT = 16
"""A loop of a known trip count up to this is unrolled: then its carried values may change their shape."""


def if_(g: ProgramBuilder, cond: Value, *, then_branch: SubGraph, else_branch: SubGraph) -> list[Any]:
    """ONNX If; a condition that is known now selects its branch, and the other one is not looked at.

    Source: https://onnx.ai/onnx/operators/onnx__If.html
    """
    known = cond.known()
    if known is not None:
        chosen = known if isinstance(known, bool) else bool(cond.tensor.reshape(-1)[0])  # type: ignore[union-attr]
        return (then_branch if chosen else else_branch)(g)
    if cond.rank:
        cond = g.reshape(cond, [])
    return branch(g, cond, (lambda b, _: then_branch(b), lambda b, _: else_branch(b)))


class _StopsEarly(Exception):
    """The body of a loop computes whether to go on."""


def loop(
    g: ProgramBuilder, m: Value | None = None, cond: Value | None = None, *initial: Anything, body: SubGraph
) -> list[Any]:
    """ONNX Loop: unrolled if it makes few trips, as is known now; else a scan over the trips or, where sizes change or the
    body decides when to stop, a while loop.

    Source: https://onnx.ai/onnx/operators/onnx__Loop.html

    Raises:
        Refusal: O2M-C003 for a loop whose carried values change their dtype or rank an unknown number of times.
    """

    def step(b: ProgramBuilder, values: list[Any]) -> list[Any]:
        return body(b, [values[0], b.scalar(True, torch.bool), *values[1:]])

    carried = list(initial)
    start = g.scalar(True, torch.bool) if cond is None else g.reshape(cond, [])
    limit = None if m is None else g.reshape(m, [])
    if start.known() is False:
        limit = g.scalar(0, torch.int64)
    trips = None if limit is None else limit.dims()
    if trips is not None and isinstance(trips[0], int) and trips[0] <= 0 and body.outputs == 1 + len(carried):
        return carried
    if start.tensor is not None and trips is not None and isinstance(trips[0], int) and 0 < trips[0] <= UNROLL_LIMIT:
        with contextlib.suppress(_StopsEarly), g.table.attempt():
            return _unrolled(g, trips[0], carried, step)
    flat = Carried(g, step, carried)
    return flat.restored(_rolled(g, limit, start, flat.tensors, flat.step))


def _rolled(g: ProgramBuilder, limit: Value | None, start: Value, carried: list[Value], step: Body) -> list[Value]:
    trips = None if limit is None else limit.dims()
    turn = settle(g, step, carried)
    if trips is not None and isinstance(trips[0], int) and trips[0] <= 0:
        return [*carried, *no_trips(g, turn)]
    if turn.peeled:
        return _peeled(g, limit, start, carried, step, turn)
    if limit is not None and turn.goes_on and not turn.grows(carried) and not turn.pinned and turn.stacks_evenly(g):
        return _counted(g, _count(g, limit, start), carried, step)
    carries, stacked = repeat(g, limit, start, step, carried, turn)
    if limit is not None and turn.goes_on and stacked:
        g.require_equal(stacked[0].shape[0], _count(g, limit, start), f"trips of {g.origin}")
    return [*carries, *stacked]


def _peeled(
    g: ProgramBuilder, limit: Value | None, start: Value, carried: list[Value], step: Body, turn: Turn
) -> list[Value]:
    """The first turn, in which sizes of 1 are broadcast, then a loop of the others; or none at all."""
    runs = start if limit is None else g.binary("logical_and", start, g.binary("gt", limit, 0))

    def later(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        with b.turn(b.scalar(1, torch.int64)):
            return step(b, [b.add(values[0], 1), *values[1:]])

    def some(b: ProgramBuilder, _: list[Value]) -> list[Value]:
        number = b.scalar(0, torch.int64)
        with b.turn(number):
            go_on, *results = step(b, [number, *carried])
        now, rows = results[: len(carried)], results[len(carried) :]
        others = _rolled(b, None if limit is None else b.sub(limit, 1), b.reshape(go_on, []), now, later)
        stacked = zip(rows, others[len(carried) :], strict=True)
        return [*others[: len(carried)], *(b.cat([b.unsqueeze(row, 0), rest], 0) for row, rest in stacked)]

    if runs.known() is True:
        return some(g, [])
    return either(g, runs, (some, lambda b, _: [*carried, *no_trips(b, turn)]))


def _unrolled(g: ProgramBuilder, trips: int, carried: list[Any], step: Step) -> list[Any]:
    stacks: list[list[Value]] = []
    for trip in range(trips):
        number = g.scalar(trip, torch.int64)
        with g.turn(number):
            go_on, *results = step(g, [number, *carried])
        if go_on.known() is None:
            raise _StopsEarly
        outputs = results[len(carried) :]
        carried = results[: len(carried)]
        stacks = stacks or [[] for _ in outputs]
        for stack, output in zip(stacks, outputs, strict=True):
            stack.append(g.unsqueeze(output, 0))
        if not bool(go_on.tensor.reshape(-1)[0]):
            break
    return [*carried, *(g.cat(stack, 0) for stack in stacks)]


def _count(g: ProgramBuilder, limit: Value, start: Value) -> Dim:
    """How often the body runs if it does not stop by itself: not at all where ``start`` is false."""
    trips = limit if start.tensor is not None else g.where(start, limit, 0)
    known = trips.dims()
    return maximum(known[0], 0) if known is not None else g.item(g.maximum(trips, 0))


def _counted(g: ProgramBuilder, count: Dim, carried: list[Value], step: Body) -> list[Value]:
    def turn(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        with b.turn(values[-1]):
            return step(b, [values[-1], *values[:-1]])[1:]

    carries, stacked = scan_operator(g, turn, carried, [g.arange(0, count)], count)
    return [*carries, *stacked]


def scan(
    g: ProgramBuilder,
    *inputs: Value,
    body: SubGraph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> list[Value]:
    """ONNX Scan of opset 9 and later.

    Source: https://onnx.ai/onnx/operators/onnx__Scan.html
    """
    states = list(inputs[: len(inputs) - num_scan_inputs])
    sequences = _forward(g, inputs[len(states) :], scan_input_axes or [0] * num_scan_inputs, scan_input_directions)
    length = sequences[0].shape[0]

    def step(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        with b.turn(values[-1]):
            return body(b, values[:-1])

    carries, stacked = scan_operator(g, step, states, [*sequences, g.arange(0, length)], length)
    results = []
    for index, y in enumerate(stacked):
        if scan_output_directions and scan_output_directions[index]:
            y = g.call("aten.flip.default", y, [0])
        axis = (scan_output_axes[index] if scan_output_axes else 0) % y.rank
        order = list(range(1, y.rank))
        order.insert(axis % y.rank, 0)
        results.append(g.permute(y, order))
    return [*carries, *results]


def _forward(
    g: ProgramBuilder, inputs: Sequence[Value], axes: Sequence[int], directions: Sequence[int] | None
) -> list[Value]:
    """Scan inputs with the axis of the steps first and in the order of the steps; their lengths are asserted to be equal."""
    sequences = []
    for index, x in enumerate(inputs):
        axis = axes[index] % x.rank
        x = g.permute(x, [axis, *(other for other in range(x.rank) if other != axis)])
        if directions and directions[index]:
            x = g.call("aten.flip.default", x, [0])
        sequences.append(x)
    for other in sequences[1:]:
        g.require_equal(sequences[0].shape[0], other.shape[0], "lengths of scan inputs")
    return sequences


def scan_batched(
    g: ProgramBuilder,
    sequence_lens: Value | None,
    *inputs: Value,
    body: SubGraph,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> list[Value]:
    """ONNX Scan of opset 8: a leading batch axis, one scan for each element of the batch.

    A sequence that ``sequence_lens`` says to be shorter leaves the states alone after its end, and its outputs 0; one that
    is taken backwards starts at its own end.

    Source: https://onnx.ai/onnx/operators/text_diff_Scan_8_9.html
    """
    lengths = [] if sequence_lens is None else [g.cast(sequence_lens, torch.int64)]
    states = len(inputs) - num_scan_inputs

    def element(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        rows, number = values[len(lengths) : -1], values[-1]
        sequences = _forward(b, rows[states:], [0] * num_scan_inputs, None if lengths else directions)
        steps = sequences[0].shape[0]
        if lengths:
            order = b.arange(0, steps)
            back = b.where(b.binary("lt", order, values[0]), b.sub(b.sub(values[0], 1), order), order)
            for index, backwards in enumerate(directions or ()):
                if backwards:
                    sequences[index] = b.call("aten.index_select.default", sequences[index], 0, back)

        def step(inner: ProgramBuilder, now: list[Value]) -> list[Value]:
            before, step_number = now[:states], now[-1]
            with inner.turn(number), inner.turn(step_number):
                results = body(inner, now[:-1])
            if not lengths:
                return results
            inside = inner.binary("lt", step_number, values[0])
            zeros = [inner.full(result.shape, 0, result.dtype) for result in results[states:]]
            olds = [*before, *zeros]
            return [inner.where(inside, result, old) for result, old in zip(results, olds, strict=True)]

        carries, stacked = scan_operator(b, step, rows[:states], [*sequences, b.arange(0, steps)], steps)
        return [*carries, *stacked]

    batch = inputs[0].shape[0]
    return scan_operator(g, element, [], [*lengths, *inputs, g.arange(0, batch)], batch)[1]
