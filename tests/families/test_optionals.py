"""Optional values: present or absent at conversion, or as only the run knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx2torch_mlir.diagnostics import Refusal
from tests.families.composite_models import F, I, Runs, graph, node, optional, program_of, sequence, tensor

X = np.arange(3, dtype=np.float32)
TENSOR = optional(tensor("o", ["n"]))
SEQUENCE = optional(sequence("o", ["n"]))


def type_of(value: onnx.ValueInfoProto) -> onnx.TypeProto:
    """The type of what is inside an optional."""
    return value.type.optional_type.elem_type


@pytest.mark.parametrize(("declared", "values"), [(TENSOR, [X, X[:0]]), (SEQUENCE, [[X, X[:1]], []])])
def test_an_optional_input(declared: onnx.ValueInfoProto, values: list[Any]) -> None:
    body = graph(
        [node("y = Identity(o)"), node("has = OptionalHasElement(y)")],
        [declared],
        [optional(onnx.ValueInfoProto(name="y", type=type_of(declared))), tensor("has", [], 9)],
    )
    runs = Runs(body)
    for value in values:
        runs.gives([value], [value, np.array(True)])
    runs.gives([None], [None, np.array(False)])
    assert runs.native.run({})[0] is None


def branches(then: str, other: str) -> dict[str, onnx.GraphProto]:
    """The branches of an If, of one node each."""
    return {
        "then_branch": graph([node(f"a = {then}")], [], [helper.make_empty_tensor_value_info("a")]),
        "else_branch": graph([node(f"b = {other}")], [], [helper.make_empty_tensor_value_info("b")]),
    }


def test_a_default_for_an_absent_tensor() -> None:
    nodes = [node("has = OptionalHasElement(o)"), node("y = If(has)", **branches("OptionalGetElement(o)", "Neg(x)"))]
    runs = Runs(graph(nodes, [TENSOR, tensor("x", ["n"])], [tensor("y", [None])]))
    runs.gives([X, X], [X])
    runs.gives([None, X], [-X])


def test_a_default_for_an_absent_sequence() -> None:
    default = branches("OptionalGetElement(o)", "SequenceConstruct(x, x)")
    nodes = [node("has = OptionalHasElement(o)"), node("y = If(has)", **default), node("n = SequenceLength(y)")]
    runs = Runs(graph(nodes, [SEQUENCE, tensor("x", ["n"])], [sequence("y", None), tensor("n", [], I)]))
    for items in ([], [X], [X, X[:1], X]):
        runs.gives([items, X], [items, np.array(len(items))])
    runs.gives([None, X], [[X, X], np.array(2)])


@pytest.mark.parametrize("declared", [TENSOR, SEQUENCE])
def test_taking_what_is_absent_is_a_finding(declared: onnx.ValueInfoProto) -> None:
    inside = type_of(declared)
    body = graph([node("y = OptionalGetElement(o)")], [declared], [onnx.ValueInfoProto(name="y", type=inside)])
    runs = Runs(body)
    value: Any = X if declared is TENSOR else [X]
    runs.gives([value], [value])
    for runnable in (runs.native, runs.eager):
        with pytest.raises(Refusal, match="absent"):
            runnable.run([None])


@pytest.mark.parametrize("inside", [TENSOR, SEQUENCE])
def test_a_value_that_only_one_branch_has(inside: onnx.ValueInfoProto) -> None:
    value = "x" if inside is TENSOR else "s"
    there = graph([node(f"a = Optional({value})")], [], [helper.make_empty_tensor_value_info("a")])
    absent = graph([node("b = Optional()", type=type_of(inside))], [], [helper.make_empty_tensor_value_info("b")])
    nodes = [node("y = If(c)", then_branch=there, else_branch=absent), node("has = OptionalHasElement(y)")]
    result = optional(onnx.ValueInfoProto(name="y", type=type_of(inside)))
    inputs = [tensor("c", [], 9), tensor("x", ["n"]), sequence("s", ["n"])]
    runs = Runs(graph(nodes, inputs, [result, tensor("has", [], 9)]))
    for items in ([], [X, X[:2]]):
        runs.gives([np.array(True), X, items], [X if inside is TENSOR else items, np.array(True)])
        runs.gives([np.array(False), X, items], [None, np.array(False)])


KNOWN = {
    "Optional(x)": (X, True),
    "Optional(s)": ([X], True),
    "Identity(x)": (X, True),
}


@pytest.mark.parametrize("text", KNOWN)
def test_what_is_known_to_be_there(text: str) -> None:
    nodes = [
        node("s = SequenceConstruct(x)"),
        node(f"o = {text}"),
        node("has = OptionalHasElement(o)"),
        node("y = OptionalGetElement(o)"),
    ]
    value, has = KNOWN[text]
    result = sequence("y", None) if isinstance(value, list) else tensor("y", [None])
    runs = Runs(graph(nodes, [tensor("x", ["n"])], [tensor("has", [], 9), result]))
    runs.gives([X], [np.array(has), value])
    assert not [n for n in runs.program.exported.graph.nodes if n.op == "call_function" and "item" in str(n.target)]


@pytest.mark.parametrize("inside", [TENSOR, SEQUENCE])
def test_what_is_known_to_be_absent(inside: onnx.ValueInfoProto) -> None:
    absent = [node("o = Optional()", type=type_of(inside)), node("has = OptionalHasElement(o)")]
    result = optional(onnx.ValueInfoProto(name="o", type=type_of(inside)))
    Runs(graph(absent, [], [result, tensor("has", [], 9)])).gives([], [None, np.array(False)])
    taken = onnx.ValueInfoProto(name="y", type=type_of(inside))
    with pytest.raises(Refusal, match="absent"):
        program_of(graph([*absent, node("y = OptionalGetElement(o)")], [], [taken]))


def test_a_loop_begins_with_an_absent_sequence() -> None:
    """The value is an optional before the first trip and a sequence after it."""
    first = branches("OptionalGetElement(in)", "SequenceConstruct(zero)")
    body = graph(
        [
            node("go = Identity(go_in)"),
            node("has = OptionalHasElement(in)"),
            node("now = If(has)", **first),
            node("out = SequenceInsert(now, x)"),
        ],
        [tensor("k", [], I), tensor("go_in", [], 9), optional(sequence("in", []))],
        [tensor("go", [], 9), sequence("out", None)],
        zero=np.zeros((), np.float32),
    )
    nodes = [node("y = Loop(trips, , o)", body=body)]
    inputs = [tensor("trips", [], I), optional(sequence("o", [])), tensor("x", ["n"])]
    runs = Runs(graph(nodes, inputs, [sequence("y", None)]))
    zero = np.zeros((), np.float32)
    for trips in (1, 3):
        runs.gives([np.array(trips), None, X], [[zero, *[X] * trips]])
        runs.gives([np.array(trips), [zero, zero], X], [[zero, zero, *[X] * trips]])
    runs.gives([np.array(0), [zero], X], [[zero]])
    with pytest.raises(Refusal, match="absent"):
        runs.native.run([np.array(0), None, X])


def test_named_sizes_of_an_absent_tensor_follow_the_other_inputs() -> None:
    nodes = [node("has = OptionalHasElement(o)"), node("y = If(has)", **branches("OptionalGetElement(o)", "Identity(x)"))]
    nodes.append(node("z = Add(y, x)"))
    runs = Runs(graph(nodes, [TENSOR, tensor("x", ["n"])], [tensor("z", ["n"])]))
    for size in (0, 1, 3):
        runs.gives([None, X[:size]], [2 * X[:size]])
        runs.gives([X[:size], X[:size]], [2 * X[:size]])


@pytest.mark.parametrize("value", [X.astype(np.float64), X.reshape(1, 3), [X], "x"])
def test_what_does_not_fit_is_refused(value: Any) -> None:
    engine = program_of(graph([node("y = OptionalGetElement(o)")], [TENSOR], [tensor("y", ["n"])])).compile()
    with pytest.raises(Refusal) as caught:
        engine.run([value])
    assert caught.value.findings[0].code == "O2M-U003"


def test_a_sequence_where_a_tensor_is_wanted_is_refused() -> None:
    body = graph([node("y = Relu(s)")], [sequence("s", [None], F)], [tensor("y", None)])
    with pytest.raises(Refusal):
        program_of(body)
