"""The runs of a node's sub-graph, one by one on the reference's values: which branch is taken, each turn of a loop."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx2torch_mlir.hosting import EvaluatorSession, OnnxruntimeSession
from onnx2torch_mlir.model import Kind, LoadedModel, ValueType, array, captured_by, graph_model, value_type_of, values_captured

Values = Mapping[str, Any]
Feeds = dict[str, Any]

MAX_TURNS = 100_000


@dataclass(frozen=True)
class BodyRun:
    """One run of ``graph``: its inputs and captured values, and what the reference makes of them."""

    graph: ir.Graph
    label: str
    feeds: Feeds
    outputs: list[Any]


def body_runs(loaded: LoadedModel, node: ir.Node, values: Values) -> Iterator[BodyRun]:
    """The runs of the sub-graph of ``node`` (If, Loop, Scan, SequenceMap) in the reference; none for another operator.

    ``values`` are the reference's values of what the node reads, by name. Raises whatever the reference raises.
    """
    driver = None if node.domain else _DRIVERS.get(node.op_type)
    if driver is None or (node.op_type == "Scan" and (node.version or 9) < 9):
        return
    held = {value.name or "": _contents(value, values) for value in node.inputs if value is not None}
    held |= {value.name or "": _contents(value, values) for value in values_captured(node)}
    steps = driver(node, held)
    captured: Feeds = {}
    session: Any = None
    outputs: list[Any] = []
    for count in range(MAX_TURNS):
        try:
            graph, label, feeds = next(steps) if count == 0 else steps.send(outputs)
        except StopIteration:
            return
        if session is None:
            captured = {value.name or "": held[value.name or ""] for value in captured_by(graph) if not value.is_initializer()}
            types = {name: type_of(name, value) for name, value in {**captured, **feeds}.items()}
            session = _session(graph_model(loaded, graph, types), loaded)
        outputs = session.run({**captured, **feeds})
        yield BodyRun(graph, label, {**captured, **feeds}, outputs)


def type_of(name: str, value: Any, shape: tuple[int | None, ...] | None = None) -> ValueType:
    """The type of a value that the reference gave, every size left open unless ``shape`` says it."""
    if isinstance(value, list):
        element = type_of("", value[0]) if value else ValueType("", Kind.TENSOR, ir.DataType.FLOAT)
        if len({np.ndim(item) for item in value}) > 1:
            element = ValueType("", Kind.TENSOR, element.dtype)
        return ValueType(name, Kind.SEQUENCE, element=element)
    value = np.asarray(value)
    dtype = ir.DataType.STRING if value.dtype.kind in "OUT" else ir.DataType.from_numpy(value.dtype)
    return ValueType(name, Kind.TENSOR, dtype, (None,) * value.ndim if shape is None else shape)


def _contents(value: ir.Value, values: Values) -> Any:
    if value.name in values:
        return values[value.name or ""]
    return array(value.const_value) if value.const_value is not None else None


def _session(model: Any, loaded: LoadedModel) -> Any:
    try:
        return OnnxruntimeSession(model, loaded.base_dir)
    except Exception:
        return EvaluatorSession(model, loaded.base_dir)


# --- how each operator runs its sub-graph -----------------------------------------------------------------------------

_Step = tuple[ir.Graph, str, Feeds]
_Steps = Generator[_Step, list[Any], None]


def _names(graph: ir.Graph) -> list[str]:
    return [value.name or "" for value in graph.inputs]


def _input(node: ir.Node, index: int, held: Values) -> Any:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else held[value.name or ""]


def _if(node: ir.Node, held: Values) -> _Steps:
    name = "then_branch" if bool(np.asarray(_input(node, 0, held)).reshape(())) else "else_branch"
    yield node.attributes[name].as_graph(), name, {}


def _loop(node: ir.Node, held: Values) -> _Steps:
    graph = node.attributes["body"].as_graph()
    trips, going = _input(node, 0, held), _input(node, 1, held)
    limit = MAX_TURNS if trips is None else int(np.asarray(trips).reshape(()))
    goes_on = going is None or bool(np.asarray(going).reshape(()))
    carried = [_input(node, index, held) for index in range(2, len(node.inputs))]
    shapes = [value_type_of(value).shape for value in graph.inputs[:2]]
    for turn in range(limit):
        if not goes_on:
            return
        head = [np.asarray(turn, np.int64), np.asarray(goes_on, np.bool_)]
        head = [item.reshape([1] * len(shape or ())) for item, shape in zip(head, shapes, strict=True)]
        outputs = yield graph, f"iteration {turn}", dict(zip(_names(graph), [*head, *carried], strict=True))
        goes_on = bool(np.asarray(outputs[0]).reshape(()))
        carried = outputs[1 : 1 + len(carried)]


def _scan(node: ir.Node, held: Values) -> _Steps:
    graph = node.attributes["body"].as_graph()
    count = int(node.attributes["num_scan_inputs"].as_int())
    inputs = [_input(node, index, held) for index in range(len(node.inputs))]
    state, sequences = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    axes = _integers(node, "scan_input_axes", count)
    backwards = _integers(node, "scan_input_directions", count)
    length = sequences[0].shape[axes[0]]
    for turn in range(length):
        slices = [
            np.take(x, length - 1 - turn if back else turn, axis)
            for x, axis, back in zip(sequences, axes, backwards, strict=True)
        ]
        outputs = yield graph, f"iteration {turn}", dict(zip(_names(graph), [*state, *slices], strict=True))
        state = outputs[: len(state)]


def _sequence_map(node: ir.Node, held: Values) -> _Steps:
    graph = node.attributes["body"].as_graph()
    inputs = [_input(node, index, held) for index in range(len(node.inputs))]
    for turn in range(len(inputs[0])):
        items = [value[turn] if isinstance(value, list) else value for value in inputs]
        yield graph, f"element {turn}", dict(zip(_names(graph), items, strict=True))


def _integers(node: ir.Node, name: str, count: int) -> list[int]:
    attribute = node.attributes.get(name)
    return [0] * count if attribute is None else list(attribute.as_ints())


_DRIVERS = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
