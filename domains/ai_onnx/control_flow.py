"""If, Loop and Scan: folded or unrolled where everything is known, else one of torch's control-flow operators."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import maximum
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import SubGraph, SubProgramBuilder, while_loop
from onnx2torch_mlir.core.subprograms import cond as cond_operator
from onnx2torch_mlir.core.subprograms import scan as scan_operator
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

UNROLL_LIMIT = 16
"""A loop of a known trip count up to this is unrolled: then its carried values may change their shape."""


def if_(g: ProgramBuilder, cond: Value, *, then_branch: SubGraph, else_branch: SubGraph) -> list[Value]:
    """ONNX If; a condition that is known now selects its branch, and the other one is not looked at.

    Source: https://onnx.ai/onnx/operators/onnx__If.html
    """
    known = cond.known()
    if known is not None:
        chosen = known if isinstance(known, bool) else bool(cond.tensor.reshape(-1)[0])  # type: ignore[union-attr]
        return (then_branch if chosen else else_branch)(g)
    if cond.rank:
        cond = g.reshape(cond, [])
    return cond_operator(g, cond, (lambda b, _: then_branch(b), lambda b, _: else_branch(b)))


class _StopsEarly(Exception):
    """The body of a loop computes whether to go on."""


def loop(g: ProgramBuilder, m: Value | None, cond: Value | None, *initial: Value, body: SubGraph) -> list[Value]:
    """ONNX Loop.

    Source: https://onnx.ai/onnx/operators/onnx__Loop.html

    Raises:
        Refusal: O2M-C003 for a loop whose carried values change shape an unknown number of times.
    """
    start = True if cond is None else cond.known()
    if isinstance(start, list):
        start = start[0]
    if start is False:
        return _unrolled(g, 0, list(initial), body)
    trips = None if m is None else m.dims()
    if start is not None and trips is not None and isinstance(trips[0], int) and trips[0] <= UNROLL_LIMIT:
        with contextlib.suppress(_StopsEarly), g.table.attempt():
            return _unrolled(g, trips[0], list(initial), body)
    if m is not None:
        with contextlib.suppress(_StopsEarly), g.table.attempt():
            return _counted(g, _count(g, m, cond if start is None else None), list(initial), body)
    return _general(g, m, cond, list(initial), body)


def _unrolled(g: ProgramBuilder, trips: int, carried: list[Value], body: SubGraph) -> list[Value]:
    stacks: list[list[Value]] = []
    for trip in range(trips):
        go_on, *results = body(g, [g.scalar(trip, torch.int64), g.scalar(True, torch.bool), *carried])
        if go_on.known() is None:
            raise _StopsEarly
        outputs = results[len(carried) :]
        carried = results[: len(carried)]
        stacks = stacks or [[] for _ in outputs]
        for stack, output in zip(stacks, outputs, strict=True):
            stack.append(g.unsqueeze(output, 0))
        if not _truth(go_on):
            break
    if not stacks and body.outputs > len(carried) + 1:
        return [*carried, *_no_trips(g, carried, body)]
    return [*carried, *(g.cat(stack, 0) for stack in stacks)]


def _count(g: ProgramBuilder, m: Value, cond: Value | None) -> Dim:
    """How often the body runs if it does not stop by itself: not at all where ``cond`` is false at the start."""
    trips = g.reshape(m, [])
    if cond is not None:
        trips = g.where(g.reshape(cond, []), trips, 0)
    known = trips.dims()
    return maximum(known[0], 0) if known is not None else g.item(g.maximum(trips, 0))


def _truth(value: Value) -> bool:
    return bool(value.tensor.reshape(-1)[0])  # type: ignore[union-attr]


def _no_trips(g: ProgramBuilder, carried: list[Value], body: SubGraph) -> list[Value]:
    """The empty scan outputs of a loop that never runs: types from converting the body once, aside."""
    aside = SubProgramBuilder(g)
    trip = aside.parameter("trip", TensorType(torch.int64, ()))
    inside = [aside.parameter("carry", TensorType(value.dtype, value.shape)) for value in carried]
    _, *results = body(aside, [trip, aside.scalar(True, torch.bool), *inside])
    return [g.full([0, *value.shape], 0, value.dtype) for value in results[len(carried) :]]


def _counted(g: ProgramBuilder, count: Dim, carried: list[Value], body: SubGraph) -> list[Value]:
    def step(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        go_on, *results = body(b, [values[-1], b.scalar(True, torch.bool), *values[:-1]])
        if go_on.known() is None or not _truth(go_on):
            raise _StopsEarly
        return results

    carries, stacked = scan_operator(g, step, carried, [g.arange(0, count)], count)
    return [*carries, *stacked]


def _general(
    g: ProgramBuilder, m: Value | None, cond: Value | None, carried: list[Value], body: SubGraph
) -> list[Value]:
    if body.outputs > len(carried) + 1:
        raise refuse(
            "O2M-C003",
            "a loop that decides at run time when to stop and also has scan outputs, whose length is not known",
            case="scan outputs",
        )
    go_on = g.scalar(True, torch.bool) if cond is None else g.reshape(cond, [])
    limit = None if m is None else g.reshape(m, [])

    def test(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        trip, running = values[0], values[1]
        return [running if limit is None else b.binary("logical_and", running, b.binary("lt", trip, limit))]

    def step(b: ProgramBuilder, values: list[Value]) -> list[Value]:
        running, *results = body(b, values)
        for before, after in zip(values[2:], results, strict=True):
            if before.rank != after.rank:
                raise refuse("O2M-C003", f"a carried value changes its rank from {before.rank} to {after.rank}")
            for own, new in zip(before.shape, after.shape, strict=True):
                b.require_equal(own, new, "size of a value carried by a loop")
        return [b.add(values[0], 1), b.reshape(running, []), *results]

    types = [TensorType(torch.int64, ()), TensorType(torch.bool, ())]
    types += [TensorType(value.dtype, value.shape) for value in carried]
    return while_loop(g, test, step, [g.scalar(0, torch.int64), go_on, *carried], types)[2:]


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
    sequences = []
    for index, x in enumerate(inputs[len(states) :]):
        axis = (scan_input_axes[index] if scan_input_axes else 0) % x.rank
        x = g.permute(x, [axis, *(other for other in range(x.rank) if other != axis)])
        if scan_input_directions and scan_input_directions[index]:
            x = g.call("aten.flip.default", x, [0])
        sequences.append(x)
    length = sequences[0].shape[0]
    for other in sequences[1:]:
        g.require_equal(length, other.shape[0], "lengths of scan inputs")
    carries, stacked = scan_operator(g, lambda b, values: body(b, values), states, sequences, length)
    results = []
    for index, y in enumerate(stacked):
        if scan_output_directions and scan_output_directions[index]:
            y = g.call("aten.flip.default", y, [0])
        axis = (scan_output_axes[index] if scan_output_axes else 0) % y.rank
        order = list(range(1, y.rank))
        order.insert(axis, 0)
        results.append(g.permute(y, order))
    return [*carries, *results]


def scan_batched(
    g: ProgramBuilder,
    sequence_lens: Value | None,
    *inputs: Value,
    body: SubGraph,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
) -> list[Value]:
    """ONNX Scan of opset 8: a leading batch axis, one scan for each element of the batch.

    Raises:
        Refusal: O2M-C003 with sequence_lens, or where the batch size is not known.
    """
    if sequence_lens is not None:
        raise refuse("O2M-C003", "Scan-8 with sequence_lens", case="sequence_lens")
    batch = inputs[0].shape[0]
    if not isinstance(batch, int) or batch == 0:
        raise refuse("O2M-C003", "Scan-8 with a batch size that is not known", case="batch")
    rows = []
    for index in range(batch):
        row = [g.select(value, 0, index) for value in inputs]
        rows.append(
            scan(g, *row, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
        )
    return [g.cat([g.unsqueeze(item, 0) for item in column], 0) for column in zip(*rows, strict=True)]
