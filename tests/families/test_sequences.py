"""Sequences of tensors: of lengths known at conversion and of lengths that only the run knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.families.composite_models import I, Runs, graph, node, program_of, sequence, tensor


def made(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[Any]:
    """Arrays that count on from one to the next."""
    start, arrays = 0, []
    for shape in shapes:
        count = int(np.prod(shape))
        arrays.append(np.arange(start, start + count).reshape(shape).astype(dtype))
        start += count
    return arrays


LENGTHS = {
    "none": [],
    "one": made((2, 3)),
    "three": made((2, 3), (0, 4), (1, 1)),
    "long": made(*[(n % 3, n % 4) for n in range(20)]),
}


@pytest.fixture(scope="module")
def edits() -> Runs:
    """Length, and the sequence with an element inserted and one erased, at positions that the run knows."""
    nodes = [
        node("n = SequenceLength(s)"),
        node("inserted = SequenceInsert(s, x, i)"),
        node("back = SequenceInsert(s, x)"),
        node("erased = SequenceErase(inserted, e)"),
        node("short = SequenceErase(back)"),
        node("item = SequenceAt(inserted, e)"),
    ]
    inputs = [sequence("s", ["a", "b"]), tensor("x", ["c", "d"]), tensor("i", [], I), tensor("e", [1], I)]
    outputs = [tensor("n", [], I), sequence("inserted", None), sequence("back", None), sequence("erased", None)]
    return Runs(graph(nodes, inputs, [*outputs, sequence("short", None), tensor("item", [None, None])]))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("insert", "erase"), [(0, 0), (0, -1), (-1, 0), (1, -2), (99, 99), (-99, -99)])
def test_positions_known_at_run_time(edits: Runs, length: str, insert: int, erase: int) -> None:
    items = LENGTHS[length]
    count = len(items)
    insert, erase = max(-count, min(insert, count)), max(-count - 1, min(erase, count))
    x = np.full((3, 2), -1, np.float32)
    inserted = list(items)
    inserted.insert(insert if insert >= 0 else count + insert, x)
    erased = list(inserted)
    del erased[erase]
    expected = [np.array(count), inserted, [*items, x], erased, list(items), inserted[erase]]
    edits.gives([items, x, np.array(insert), np.array([erase])], expected)


@pytest.mark.parametrize(("insert", "erase"), [(4, 0), (-4, 0), (0, 4), (0, -5)])
def test_a_position_outside_is_a_finding(edits: Runs, insert: int, erase: int) -> None:
    values = [LENGTHS["three"], np.zeros((1, 1), np.float32), np.array(insert), np.array([erase])]
    for runnable in (edits.native, edits.eager):
        with pytest.raises(Refusal, match="position lies outside"):
            runnable.run(values)


@pytest.mark.parametrize(("axis", "new_axis"), [(0, 0), (1, 0), (-1, 0), (0, 1), (1, 1), (-1, 1)])
def test_concatenation(axis: int, new_axis: int) -> None:
    body = graph(
        [node("y = ConcatFromSequence(s)", axis=axis, new_axis=new_axis)],
        [sequence("s", ["a", "b", "c"])],
        [tensor("y", [None] * (3 + new_axis))],
    )
    runs = Runs(body)
    for sizes in ([2], [2, 2, 2], [1, 0, 3, 2]):
        if new_axis and len(set(sizes)) > 1:
            continue
        shapes = [[2, 3, 4] for _ in sizes]
        for shape, size in zip(shapes, sizes, strict=True):
            shape[axis if not new_axis else 0] = size
        items = made(*map(tuple, shapes))
        runs.gives([items], [np.stack(items, axis) if new_axis else np.concatenate(items, axis)])
    for bad in ([], made((2, 3, 4), (2, 9, 7))):
        with pytest.raises(Refusal):
            runs.native.run([bad])


SPLITS: dict[str, tuple[Any, int, int, list[int]]] = {
    # what is given as split, axis, keepdims, the sizes of the parts of an axis of size 5
    "singly": (None, 0, 1, [1] * 5),
    "singly without the axis": (None, 1, 0, [1] * 5),
    "chunks": (np.array(2), 1, 1, [2, 2, 1]),
    "one chunk": (np.array(9), 0, 1, [5]),
    "parts": (np.array([1, 0, 4]), -1, 0, [1, 0, 4]),
    "int32": (np.array([3, 2], np.int32), 0, 1, [3, 2]),
}


@pytest.mark.parametrize("case", SPLITS)
@pytest.mark.parametrize("known", ["all known", "sizes known", "nothing known"])
def test_split(case: str, known: str) -> None:
    split, axis, keepdims, sizes = SPLITS[case]
    dims = {"all known": ([5, 5], None), "sizes known": ([5, 5], "k"), "nothing known": (["m", "n"], "k")}[known][0]
    inputs, constants, more = [tensor("x", dims)], {}, []
    if split is not None and known == "all known":
        constants = {"split": split}
    elif split is not None:
        kind = I if split.dtype == np.int64 else 6
        inputs.append(tensor("split", ["k"] if split.ndim and known == "nothing known" else split.shape, kind))
        more = [split]
    attributes = {"axis": axis, "keepdims": keepdims}
    nodes = [node(f"s = SplitToSequence(x{', split' if split is not None else ''})", **attributes)]
    nodes += [node("n = SequenceLength(s)"), node("last = SequenceAt(s, at)")]
    rank = 2 - (split is None and not keepdims)
    outputs = [sequence("s", None), tensor("n", [], I), tensor("last", [None] * rank)]
    runs = Runs(graph(nodes, inputs, outputs, at=np.array(-1), **constants))
    x = made((5, 5))[0]
    parts = np.split(x, np.cumsum(sizes)[:-1], axis)
    if split is None and not keepdims:
        parts = [part.squeeze(axis) for part in parts]
    runs.gives([x, *more], [parts, np.array(len(parts)), parts[-1]])


def test_a_split_that_does_not_add_up_is_a_finding() -> None:
    body = graph(
        [node("s = SplitToSequence(x, k)")], [tensor("x", ["n"]), tensor("k", ["m"], I)], [sequence("s", None)]
    )
    engine = program_of(body).compile()
    for sizes in ([2, 2], [6, -1], [1, 1, 1, 1]):
        with pytest.raises(Refusal):
            engine.run([np.zeros(5, np.float32), np.array(sizes)])


def test_static_sequences_leave_nothing_behind() -> None:
    nodes = [
        node("e = SequenceEmpty()"),
        node("a = SequenceInsert(e, x)"),
        node("b = SequenceInsert(a, y, front)"),
        node("c = SequenceConstruct(x, y, x)"),
        node("d = SequenceErase(c, front)"),
        node("z = SequenceAt(b, last)"),
        node("w = ConcatFromSequence(d)", axis=0),
    ]
    outputs = [tensor("z", [2]), tensor("w", [None]), sequence("b", None)]
    body = graph(nodes, [tensor("x", [2]), tensor("y", [3])], outputs, front=np.array(0), last=np.array(-1))
    x, y = np.ones(2, np.float32), np.zeros(3, np.float32)
    runs = Runs(body)
    runs.gives([x, y], [x, np.concatenate([y, x]), [y, x]])
    called = [n.target for n in runs.program.exported.graph.nodes if n.op == "call_function"]
    assert len(called) == 1, called


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32, np.float16, np.float64, np.uint64])
def test_element_types(dtype: Any) -> None:
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [node("t = SequenceInsert(s, x, i)"), node("y = SequenceAt(t, i)")]
    inputs = [sequence("s", [None], kind), tensor("x", ["n"], kind), tensor("i", [], I)]
    runs = Runs(graph(nodes, inputs, [sequence("t", None, kind), tensor("y", [None], kind)]))
    items = made((2,), (0,), (3,), dtype=dtype)
    x = np.ones(4, dtype)
    runs.gives([items, x, np.array(-2)], [[items[0], x, *items[1:]], items[1]])


def test_elements_of_any_rank_pass_through() -> None:
    nodes = [node("t = Identity(s)"), node("u = SequenceInsert(t, x)")]
    runs = Runs(graph(nodes, [sequence("s", None), tensor("x", ["n"])], [sequence("t", None), sequence("u", None)]))
    x = np.ones(2, np.float32)
    for items in ([], made((), (2, 3), (4,), (1, 2, 3)), made((), ())):
        runs.gives([items, x], [items, [*items, x]])


def test_the_rank_of_an_element_must_be_known() -> None:
    body = graph([node("y = SequenceAt(s, i)")], [sequence("s", None), tensor("i", [], I)], [tensor("y", None)])
    with pytest.raises(Refusal) as caught:
        program_of(body)
    assert [finding.code for finding in caught.value.findings] == ["O2M-C004"]


@pytest.mark.parametrize(
    ("nodes", "result"),
    [
        (["y = SequenceAt(s, i)"], [None, None]),
        (["t = SequenceErase(s)", "y = SequenceAt(t, i)"], [None, None]),
        (["t = SequenceInsert(s, x)", "y = SequenceAt(t, i)"], None),
        (["y = ConcatFromSequence(s)"], [None, None]),
    ],
)
def test_the_rank_of_an_element_is_what_the_model_says_of_those_that_are_read(nodes: list[str], result: Any) -> None:
    inputs = [sequence("s", None), tensor("i", [], I), tensor("x", ["n", 3])]
    made_nodes = [node(text, **({"axis": 0} if "Concat" in text else {})) for text in nodes]
    runs = Runs(graph(made_nodes, inputs, [tensor("y", result)]))
    for items in (made((2, 3), (1, 3)), made((0, 3), (4, 3), (1, 3))):
        wanted = np.concatenate(items) if "Concat" in nodes[0] else items[0]
        runs.gives([items, np.array(0), np.zeros((1, 3), np.float32)], [wanted])


GROWING = graph(
    [
        node("go = Identity(go_in)"),
        node("one = Unsqueeze(end, axes)"),
        node("part = Slice(x, zero, one)"),
        node("out = SequenceInsert(in, part)"),
    ],
    [tensor("end", [], I), tensor("go_in", [], 9), sequence("in", None)],
    [tensor("go", [], 9), sequence("out", None)],
    axes=np.array([0]),
    zero=np.array([0]),
)


@pytest.mark.parametrize("start", ["empty", "input", "input of another rank"])
def test_a_loop_that_inserts(start: str) -> None:
    inputs = [tensor("x", ["n"]), tensor("trips", [], I)]
    nodes = [node("s = SequenceEmpty()")] if start == "empty" else []
    if start != "empty":
        inputs.append(sequence("s", [None] if start == "input" else []))
    nodes.append(node("y = Loop(trips, , s)", body=GROWING))
    runs = Runs(graph(nodes, inputs, [sequence("y", None)]))
    x = made((5,))[0]
    given = {"empty": [[]], "input": [[], made((2,), (0,))], "input of another rank": [[], made((), ())]}[start]
    for first in given:
        for trips in (0, 1, 4):
            more = [] if start == "empty" else [first]
            runs.gives([x, np.array(trips), *more], [[*first, *(x[:k] for k in range(trips))]])


def test_a_loop_of_a_known_number_of_trips_is_unrolled() -> None:
    nodes = [node("s = SequenceEmpty()"), node("y = Loop(trips, , s)", body=GROWING)]
    runs = Runs(graph(nodes, [tensor("x", ["n"])], [sequence("y", None)], trips=np.array(3)))
    x = made((5,))[0]
    runs.gives([x], [[x[:0], x[:1], x[:2]]])
    assert not any("while_loop" in str(n.target) for n in runs.program.exported.graph.nodes)


@pytest.mark.parametrize(
    ("then", "other"),
    [("a = SequenceConstruct(x, x)", "b = SequenceConstruct(x)"), ("a = SequenceErase(s)", "b = SequenceEmpty()")],
)
def test_branches_of_different_lengths(then: str, other: str) -> None:
    branches = {
        "then_branch": graph([node(then)], [], [sequence("a", None)]),
        "else_branch": graph([node(other)], [], [sequence("b", None)]),
    }
    nodes = [node("y = If(c)", **branches), node("n = SequenceLength(y)")]
    inputs = [tensor("c", [], 9), tensor("x", [2]), sequence("s", [None])]
    runs = Runs(graph(nodes, inputs, [sequence("y", None), tensor("n", [], I)]))
    x, items = np.ones(2, np.float32), made((1,), (3,))
    results = {"a = SequenceConstruct(x, x)": ([x, x], [x]), "a = SequenceErase(s)": (items[:1], [])}[then]
    for chosen, expected in zip((True, False), results, strict=True):
        runs.gives([np.array(chosen), x, items], [expected, np.array(len(expected))])


def test_map_over_a_run_time_sequence() -> None:
    body = graph(
        [node("y = Add(a, b)"), node("z = Shape(a)")],
        [tensor("a", ["n"]), tensor("b", ["n"])],
        [tensor("y", ["n"]), tensor("z", [1], I)],
    )
    nodes = [node("y z = SequenceMap(s, t)", body=body)]
    runs = Runs(graph(nodes, [sequence("s", ["n"]), sequence("t", ["n"])], [sequence("y", None), sequence("z", None, I)]))
    for items in ([], made((3,)), made((3,), (0,), (1,))):
        runs.gives([items, items], [[item + item for item in items], [np.array(item.shape) for item in items]])


def test_map_reads_a_value_from_outside() -> None:
    body = graph([node("y = Mul(a, b)")], [tensor("a", None)], [tensor("y", None)])
    nodes = [node("b = Neg(c)"), node("y = SequenceMap(s)", body=body)]
    runs = Runs(graph(nodes, [sequence("s", ["n"]), tensor("c", [1])], [sequence("y", None)]))
    for items in ([], made((3,), (0,), (1,))):
        runs.gives([items, np.full(1, 3, np.float32)], [[-3 * item for item in items]])


def test_map_over_a_sequence_without_elements() -> None:
    body = graph([node("y = Add(a, b)")], [tensor("a", None)], [tensor("y", None)])
    nodes = [node("s = SequenceEmpty()"), node("y = SequenceMap(s)", body=body)]
    Runs(graph(nodes, [tensor("b", ["n"])], [sequence("y", None)])).gives([made((2,))[0]], [[]])


@pytest.mark.parametrize("value", [np.zeros(3, np.float32), [np.zeros(3)], [np.zeros((1, 1, 1), np.float32)], None, "x"])
def test_what_is_no_list_of_fitting_arrays_is_refused(edits: Runs, value: Any) -> None:
    with pytest.raises(Refusal) as caught:
        edits.native.run([value, np.zeros((1, 1), np.float32), np.array(0), np.array([0])])
    assert caught.value.findings[0].code == "O2M-U003"
