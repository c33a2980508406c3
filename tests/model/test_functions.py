"""The model's functions expanded, ONNX's own bodies, and small models cut out of large ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import (
    LoadedModel,
    ValueType,
    array,
    expand_functions,
    extract,
    function_body,
    node_ref,
    one_node_model,
    read,
    value_type_of,
)  # fmt: skip
from tests.model.builders import MY, const, external, function, graph, info, model, node, refer
from tests.model.test_reading import FLAG, X, again, run

FLOAT = onnx.AttributeProto.FLOAT


def check(proto: onnx.ModelProto) -> LoadedModel:
    """Expand the functions of ``proto``: nothing of them is left, and the numbers are the same."""
    loaded = read(proto)
    expanded = expand_functions(loaded)
    assert not expanded.ir.functions and loaded.ir.functions
    assert all(n.domain != "my" for n in expanded.ir.graph.all_nodes())
    nodes = list(expanded.ir.graph.all_nodes())
    assert len({n.name for n in nodes}) == len(nodes)
    assert not any(a.is_ref() for n in nodes for a in n.attributes.values())
    cut = again(expanded)
    onnx.checker.check_model(cut)
    for ours, theirs in zip(run(cut), run(proto), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return expanded


INNER = function(
    "In", "a", "b", [refer(node("LeakyRelu", "a", "b", name="leaky"), "alpha", "slope")],
    attribute_protos=[helper.make_attribute("slope", 0.25)],
)  # fmt: skip
OUTER = function(
    "Out", "a", "b", [refer(node("In", "a", "t", domain="my", name="in"), "slope", "steep"), node("Neg", "t", "b")],
    attributes=["steep"],
)  # fmt: skip


def test_nested_calls_attributes_and_names() -> None:
    calls = [node("Out", "x", "t", domain="my", name="one", steep=0.5), node("Out", "t", "y", domain="my", name="two")]
    expanded = check(model(calls, functions=[OUTER, INNER], opsets=MY))
    found = {n.name: n for n in expanded.ir.graph}
    assert list(found) == ["one/in/leaky", "one/Neg_1", "two/in/leaky", "two/Neg_1"]
    assert found["one/in/leaky"].attributes["alpha"].as_float() == 0.5
    assert found["two/in/leaky"].attributes["alpha"].as_float() == 0.25
    assert [value.name for n in expanded.ir.graph for value in n.outputs] == ["one/t", "t", "two/t", "y"]
    assert (node_ref(found["two/in/leaky"]).place, node_ref(found["two/in/leaky"]).index) == ("main", 1)


def test_an_attribute_that_nobody_gives_is_left_out() -> None:
    plain = function("In", "a", "b", [refer(node("LeakyRelu", "a", "b"), "alpha", "slope")], attributes=["slope"])
    expanded = check(model([node("In", "x", "y", domain="my")], functions=[plain], opsets=MY))
    assert not expanded.ir.graph[0].attributes


def test_results_that_are_arguments_or_equal() -> None:
    both = function("F", "a", "b b2 a", [node("Relu", "a", "b"), node("Identity", "b", "b2")])
    call = node("F", "x", "y z w", domain="my")
    whole = model([call], outputs=[info("y"), info("z"), info("w")], functions=[both], opsets=MY)
    partly = model([node("F", "x", "_ z", domain="my")], outputs=[info("z")], functions=[both], opsets=MY)
    expanded = expand_functions(read(whole))  # onnxruntime has neither of these calls
    positive = np.maximum(X, 0)
    assert [value.name for value in expanded.ir.graph.outputs] == ["y", "z", "w"]
    for ours, wanted in zip(run(again(expanded)), (positive, positive, X), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    np.testing.assert_array_equal(run(again(expand_functions(read(partly))))[0], positive)


def test_absent_arguments() -> None:
    clip = function("F", "a lo hi", "b", [node("Clip", "a lo hi", "b")])
    proto = model([node("F", "x _ one", "y", domain="my")], functions=[clip], opsets=MY, initializers=[const("one", 1)])
    expanded = check(proto)
    assert expanded.ir.graph[0].inputs[1] is None
    short = model([node("F", "x", "y", domain="my")], functions=[clip], opsets=MY)
    np.testing.assert_array_equal(run(again(expand_functions(read(short))))[0], X)


def test_calls_in_branches_and_branches_in_functions() -> None:
    then = graph([node("Add", "a k", "t"), node("In", "t", "u", domain="my")], outputs=[info("u")])
    other = graph([node("Neg", "a", "u")], outputs=[info("u")])
    body = [
        node("Constant", "", "k", value=const("", [1, 2])),
        node("If", "c", "b", then_branch=then, else_branch=other),
    ]
    choose = function("F", "c a", "b", body)
    yes, no = (graph([node("F", "c x", name, domain="my")], outputs=[info(name)]) for name in ("yes", "no"))
    nodes = [node("If", "c", "q", then_branch=yes, else_branch=no), node("F", "c q", "y", domain="my")]
    expanded = check(model(nodes, functions=[choose, INNER], opsets=MY, initializers=[FLAG]))
    names = [value.name for n in expanded.ir.graph.all_nodes() for value in n.outputs]
    assert len(set(names)) == len(names)


def test_graphs_as_arguments() -> None:
    """A graph given as an attribute sees the values of the caller, not those of the function."""
    choice = node("If", "c", "b")
    refer(
        refer(choice, "then_branch", "body", onnx.AttributeProto.GRAPH),
        "else_branch",
        "body",
        onnx.AttributeProto.GRAPH,
    )
    hold = function("F", "c x", "b", [choice], attributes=["body"])
    body = graph([node("Add", "x k", "t"), node("In", "t", "u", domain="my")], outputs=[info("u")])
    proto = model(
        [node("F", "c z", "y", domain="my", body=body)], functions=[hold, INNER], opsets=MY,
        inputs=[info("x"), info("z")], initializers=[FLAG, const("k", [1, -2])],
    )  # fmt: skip
    loaded = read(proto)
    expanded = expand_functions(read(loaded.ir))
    assert [n.op_type for n in expanded.ir.graph] == ["If"]
    cut = again(expanded)
    onnx.checker.check_model(cut)
    assert [value.name for value in cut.graph.input] == ["x"]
    total = X + np.array([1, -2], np.float32)
    np.testing.assert_array_equal(run(cut)[0], np.maximum(total, np.float32(0.25) * total))


def test_overloads_pick_their_function() -> None:
    up, down = function("F", "a", "b", [node("Abs", "a", "b")]), function("F", "a", "b", [node("Neg", "a", "b")])
    up.overload, down.overload = "up", "down"
    first, second = node("F", "x", "t", domain="my"), node("F", "t", "y", domain="my")
    first.overload, second.overload = "up", "down"
    expanded = check(model([first, second], functions=[up, down], opsets=MY))
    assert [n.op_type for n in expanded.ir.graph] == ["Abs", "Neg"]


def test_functions_of_another_opset_keep_it() -> None:
    """Softmax of opset 11 flattens to two dims; the same operator at 17 does not."""
    old = function("F", "a", "b", [node("Softmax", "a", "b", axis=1, name="s")], opsets=[("", 11)])
    proto = model(
        [node("F", "x", "t", domain="my", name="f"), node("Softmax", "t", "y", axis=1)],
        inputs=[info("x", [2, 2, 3])], outputs=[info("y", [2, 2, 3])], functions=[old], opsets=MY,
    )  # fmt: skip
    expanded = expand_functions(read(proto))
    assert [n.version for n in expanded.ir.graph] == [11, 17]
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)

    def softmax(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        powers = np.exp(values - values.max(axis=axes, keepdims=True))
        return np.asarray(powers / powers.sum(axis=axes, keepdims=True))

    cut = extract(expanded, ["t"])
    (got,) = onnx.reference.ReferenceEvaluator(cut).run(None, {"x": x})
    assert got.shape == x.shape
    assert {entry.domain: entry.version for entry in cut.functions[0].opset_import}[""] == 11
    again_read = expand_functions(read(extract(expanded, ["y"])))
    assert [n.version for n in again_read.ir.graph] == [11, 17]
    single = one_node_model(expanded, expanded.ir.graph[0])
    assert {entry.domain: entry.version for entry in single.opset_import}[""] == 11
    np.testing.assert_allclose(run(single, x)[0], softmax(x, (1, 2)), rtol=1e-5)


def test_the_original_is_not_changed() -> None:
    loaded = read(model([node("In", "x", "y", domain="my")], functions=[INNER], opsets=MY))
    expand_functions(loaded)
    assert [n.op_type for n in loaded.ir.graph] == ["In"] and loaded.ir.functions
    plain = read(model())
    assert expand_functions(plain) is plain


BODIES: list[tuple[str, int, dict[str, object], list[np.ndarray]]] = [
    ("Elu", 10, {"alpha": 0.5}, [X]),
    ("Elu", 22, {}, [X]),
    ("HardSwish", 14, {}, [X]),
    (
        "LayerNormalization",
        17,
        {"axis": 1, "epsilon": 0.1},
        [np.ones((2, 3), np.float32) * X[:, None], np.ones(3, np.float32)],
    ),
    ("Softmax", 13, {"axis": 0}, [X]),
    ("MeanVarianceNormalization", 13, {"axes": [0]}, [X]),
    ("CastLike", 19, {}, [X, np.zeros(1, np.float16)]),
    ("Clip", 13, {}, [X, np.array(-1, np.float32)]),
]


@pytest.mark.parametrize("case", BODIES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_bodies_mean_what_the_operator_means(case: tuple[str, int, dict[str, object], list[np.ndarray]]) -> None:
    op, version, attributes, values = case
    names = [f"i{index}" for index in range(len(values))]
    inputs = [info(n, v.shape, helper.np_dtype_to_tensor_dtype(v.dtype)) for n, v in zip(names, values, strict=True)]
    proto = model(
        [node(op, " ".join(names), "y", **attributes)],
        inputs=inputs,
        outputs=[onnx.ValueInfoProto(name="y")],
        opsets=[("", version)],
    )
    call = read(proto).ir.graph[0]
    body = function_body("", op, version, call, [value_type_of(v) for v in call.inputs if v is not None])
    assert body is not None and all(n.version is not None for n in body.all_nodes())
    assert not any(a.is_ref() for n in body.all_nodes() for a in n.attributes.values())
    written = ir.serde.serialize_function(body)
    written.domain, written.output[:] = "my", [name for name in written.output if name]
    opsets = [*body.opset_imports.items(), ("my", 1)]
    calling = model(
        [node(op, " ".join(names), "y", domain="my")],
        inputs=inputs,
        outputs=proto.graph.output,
        functions=[written],
        opsets=opsets,
    )

    feeds = dict(zip(names, values, strict=True))
    results = [
        onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for m in (proto, calling)
    ]
    np.testing.assert_allclose(results[1].astype(np.float32), results[0].astype(np.float32), rtol=1e-5, atol=1e-6)


def test_operators_without_a_body() -> None:
    call = read(model()).ir.graph[0]
    assert function_body("", "Relu", 6, call, [None]) is None
    assert function_body("", "Nonsense", 17, call, [None]) is None
    assert function_body("weird", "Relu", 1, call, [None]) is None


def test_a_body_without_imports_of_its_own_has_versions() -> None:
    names = ["q", "k", "v"]
    proto = model(
        [node("FlexAttention", "q k v", "y", domain="ai.onnx.preview")],
        inputs=[info(n, [1, 2, 3, 4]) for n in names], opsets=[("", 26), ("ai.onnx.preview", 1)],
    )  # fmt: skip
    call = read(proto).ir.graph[0]
    types = [ValueType(n, dtype=ir.DataType.FLOAT, shape=(1, 2, 3, 4)) for n in names]
    body = function_body("ai.onnx.preview", "FlexAttention", 1, call, types)
    assert body is not None and all(n.version is not None for n in body.all_nodes())


@pytest.mark.parametrize(("element", "wide"), [(T.FLOAT16, T.FLOAT), (T.DOUBLE, T.DOUBLE)])
def test_the_body_of_attention_adds_infinities_to_an_integer_mask_as_a_float(element: int, wide: int) -> None:
    names = ["q", "k", "v", "mask"]
    proto = model(
        [node("Attention", "q k v mask", "y", is_causal=1)], inputs=[info(n) for n in names], opsets=[("", 24)]
    )
    types = [ValueType(n, dtype=ir.DataType(element), shape=(1, 1, 2, 2)) for n in names[:3]]
    types.append(ValueType("mask", dtype=ir.DataType.INT32, shape=(2, 2)))
    body = function_body("", "Attention", 24, read(proto).ir.graph[0], types)
    assert body is not None
    (reader,) = body.inputs[3].consumers()
    assert reader.op_type == "Cast" and reader.attributes["to"].value == wide


def test_extract_keeps_only_what_is_needed() -> None:
    then = graph([node("Add", "x w", "e")], outputs=[info("e")])
    proto = model(
        [
            node("Neg", "x", "a"), node("Abs", "z", "b"), node("If", "c", "d", then_branch=then, else_branch=then),
            node("In", "d", "y", domain="my"), node("Add", "b v", "unused"),
        ],
        inputs=[info("x"), info("z")], outputs=[info("y"), info("unused")], functions=[INNER, OUTER], opsets=MY,
        initializers=[FLAG, const("w", [1, 2]), const("v", [3, 4])],
    )  # fmt: skip
    loaded = read(proto)
    cut = extract(loaded, ["y", "a"])
    assert [n.op_type for n in cut.graph.node] == ["Neg", "If", "In"]
    assert [value.name for value in cut.graph.input] == ["x"]
    assert sorted(tensor.name for tensor in cut.graph.initializer) == ["c", "w"]
    assert [f.name for f in cut.functions] == ["In"]
    total = X + np.array([1, 2], np.float32)
    np.testing.assert_array_equal(run(cut)[0], np.maximum(total, np.float32(0.25) * total))
    part = extract(loaded, ["y"], inputs={"d": ValueType("d", dtype=ir.DataType.FLOAT, shape=("n",))})
    assert [n.op_type for n in part.graph.node] == ["In"]
    np.testing.assert_array_equal(run(part)[0], np.maximum(X, 0.25 * X))
    assert extract(loaded, ["x"]).graph.output[0].name == "x"
    with pytest.raises(Refusal, match="O2M-U001"):
        extract(loaded, ["nope"])


def test_extract_embeds_or_refers(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.array([1, 2], np.float32).tobytes())
    constant = node("Constant", "", "k", value=external("", location="w.bin"))
    proto = model([constant, node("Sum", "x k w", "y")], initializers=[external(location="w.bin")])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    loaded = read(tmp_path / "m.onnx")
    embedded = extract(loaded, ["y"])
    np.testing.assert_array_equal(run(embedded)[0], X + np.array([2, 4], np.float32))
    referring = extract(loaded, ["y"], weights="external")
    assert referring.graph.initializer[0].data_location == T.EXTERNAL
    again_read = read(referring, base_dir=loaded.base_dir)
    assert array(again_read.ir.graph.initializers["w"].const_value).tolist() == [1, 2]


def test_one_node_models() -> None:
    inner = graph([node("Add", "x w", "e"), node("Mul", "e s", "f")], outputs=[info("f")])
    proto = model(
        [node("Neg", "x", "s"), node("If", "c", "y", then_branch=inner, else_branch=inner)],
        initializers=[FLAG, const("w", [1, 2])],
    )
    loaded = read(proto)
    choice = loaded.ir.graph[1]
    single = one_node_model(loaded, choice, types={"s": ValueType("s", dtype=ir.DataType.FLOAT, shape=(2,))})
    assert sorted(value.name for value in single.graph.input) == ["s", "x"]
    np.testing.assert_array_equal(run(single)[0], (X + np.array([1, 2], np.float32)) * X)
    product = choice.attributes["then_branch"].as_graph()[1]
    types = {name: ValueType(name, dtype=ir.DataType.FLOAT, shape=(2,)) for name in "es"}
    single = one_node_model(loaded, product, types=types, contents={"s": np.array([2, 3], np.float32)})
    assert [value.name for value in single.graph.input] == ["e"]
    np.testing.assert_array_equal(run(single)[0], X * np.array([2, 3], np.float32))
