"""Graphs as exporters leave them, read, converted and run: what onnxruntime takes gives its numbers here too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import parser

import onnx2torch_mlir as o2m
from tests.model.builders import const, function, graph, info, model, node
from tests.one_node import reference

X = np.array([-1.5, 2.0], np.float32)
FLAG = const("c", True, np.bool_)
NEGATED, POSITIVE = [node("Neg", "x", "t")], [node("Abs", "x", "t")]
MY = [("", 17), ("my", 1)]


def text(lines: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\ng {lines}')


def loop(body: str, outputs: str = "float[2] y", results: str = "y") -> onnx.ModelProto:
    call = f"{results} = Loop(n, , x)<body = {body}>"
    return text(f"(float[2] x) => ({outputs}) {{ n = Constant<value = int64 {{3}}>() {call} }}")


def branch(then: onnx.GraphProto, otherwise: onnx.GraphProto, *more: onnx.NodeProto, **keys: Any) -> onnx.ModelProto:
    chosen = node("If", "c", "u" if more else "y", then_branch=then, else_branch=otherwise)
    return model([chosen, *more], initializers=[FLAG, *keys.pop("held", ())], **keys)


def out(nodes: Sequence[onnx.NodeProto], name: str = "t", **keys: Any) -> onnx.GraphProto:
    return graph(nodes, outputs=[info(name)], **keys)


def sparse(dims: Sequence[int]) -> onnx.SparseTensorProto:
    return h.make_sparse_tensor(const("", [3.0, 4.0]), const("", [[0, 1], [1, 0]], np.int64), dims)


def with_sparse() -> onnx.ModelProto:
    proto = model([node("MatMul", "k x", "y")])
    proto.graph.sparse_initializer.append(sparse([2, 2]))
    proto.graph.sparse_initializer[0].values.name = "k"
    return proto


def between(*shape: int, dtype: int = T.FLOAT, times: int = 1) -> onnx.ModelProto:
    """A model that says of its inner value ``t`` what is not so."""
    proto = model([node("Neg", "x", "t"), node("Relu", "t", "y")])
    proto.graph.value_info.extend([info("t", shape, dtype)] * times)
    return proto


def changed(proto: onnx.ModelProto, change: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    change(proto)
    return proto


GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {
    "names of both branches and of the graph around": lambda: branch(out(NEGATED), out(POSITIVE), node("Neg", "u", "y")),
    "an initializer of a branch hides one around": lambda: branch(
        out([node("Add", "x w", "t")], initializers=[const("w", [10, 20])]),
        out(POSITIVE), node("Add", "w u", "y"), held=[const("w", [1, 2])],
    ),
    "a branch gives its own initializer": lambda: branch(graph([], [], [info("w")], [const("w", [5, 6])]), out(POSITIVE)),
    "results of branches without types": lambda: branch(
        graph(NEGATED, outputs=[onnx.ValueInfoProto(name="t")]), graph(POSITIVE, outputs=[onnx.ValueInfoProto(name="t")])
    ),
    "a loop's value of the name of one around": lambda: changed(
        loop("b (int64 i, bool k, float[2] v) => (bool d, float[2] w) { d = Identity(k) w = Add(v, v) }"),
        lambda proto: proto.graph.node.insert(0, node("Neg", "x", "unused")),
    ),
    "a loop that hands on what it is given": lambda: loop(
        "b (int64 i, bool k, float[2] v) => (bool k, float[2] v, float[2] v) {}", "float[2] y, float[3, 2] z", "y, z"
    ),
    "outputs that are input, initializer, and twice": lambda: model(
        outputs=[info("y"), info("x"), info("w"), info("y"), info("w")], initializers=[const("w", [1, 2])]
    ),
    "no nodes": lambda: changed(model(outputs=[info("x")]), lambda proto: proto.graph.ClearField("node")),
    "sparse constant": lambda: model(
        [node("Constant", "", "k", sparse_value=sparse([2, 2])), node("MatMul", "k x", "y")]
    ),
    "sparse initializer": with_sparse,
    "two opsets, the last counts": lambda: model(
        [node("Softmax", "x", "y")], inputs=[info("x", (1, 2, 1))], outputs=[info("y", None)], opsets=[("", 13), ("", 11)]
    ),
    "an import of an unknown domain": lambda: model(opsets=[("", 17), ("com.unknown", 5)]),
    "a function of another opset": lambda: model(
        [node("F", "x", "y", domain="my")], functions=[function("F", "a", "b", [node("Neg", "a", "b")])], opsets=MY
    ),
    "a function of an operator's name": lambda: model(
        [node("Relu", "x", "y")], functions=[h.make_function("", "Relu", ["a"], ["b"], [node("Neg", "a", "b")], MY_IMPORTS)]
    ),
    "a function that calls another of an operator's name": lambda: model(
        [node("F", "x", "y", domain="my")],
        functions=[
            h.make_function("", "Relu", ["a"], ["b"], [node("Neg", "a", "b")], MY_IMPORTS),
            function("F", "a", "b", [node("Relu", "a", "b")]),
        ],
        opsets=MY,
    ),
    "a function of a name that its domain has not": lambda: model(
        [node("Foo", "x", "y", domain="com.microsoft")],
        functions=[h.make_function("com.microsoft", "Foo", ["a"], ["b"], [node("Neg", "a", "b")], MY_IMPORTS)],
        opsets=[("", 17), ("com.microsoft", 1)],
    ),
    "an inner value of another size": lambda: between(3),
    "an inner value of another rank": lambda: between(2, 1),
    "an inner value described twice": lambda: between(2, times=2),
    "an output of another size": lambda: model(outputs=[info("y", (3,))]),
    "an output of another rank": lambda: model(outputs=[info("y", (2, 1))]),
    "an output of any rank": lambda: model(outputs=[info("y", None)]),
    "a scalar declared as [1]": lambda: model([node("ReduceSum", "x", "y", keepdims=0)], outputs=[info("y", [1])]),
    "initializers as inputs, IR 3": lambda: model(
        [node("Add", "x w", "y")], inputs=[info("x"), info("w")], initializers=[const("w", [1, 2])], ir_version=3
    ),
    "an initializer twice": lambda: model([node("Add", "x w", "y")], initializers=[const("w", [1, 2]), const("w", [3, 4])]),
    "what nobody reads": lambda: model(
        [node("Neg", "x", "y")], inputs=[info("x"), info("z", ["Q"])], initializers=[const("w", [1, 2])]
    ),
    "names that are no identifiers": lambda: model(
        [node("Neg", "1.x:0", "class")], inputs=[info("1.x:0")], outputs=[info("class")]
    ),
    "names that are equal as identifiers": lambda: model(
        [node("Add", "a.b w.1", "t"), node("Add", "t w_1", "u"), node("Sub", "u a_b", "y")],
        inputs=[info("a.b"), info("a_b")], initializers=[const("w.1", [1, 2]), const("w_1", [3, 4])],
    ),
    "absent inputs at the end": lambda: model([h.make_node("Clip", ["x", "", ""], ["y"])]),
    "a graph without a name": lambda: changed(model(), lambda proto: proto.graph.ClearField("name")),
}  # fmt: skip
MY_IMPORTS = [h.make_opsetid("", 17)]

REFUSED_BY_ORT: dict[str, tuple[Callable[[], onnx.ModelProto], Any]] = {
    "unsorted body": (
        lambda: loop("b (int64 i, bool k, float[2] v) => (bool d, float[2] w) { w = Add(t, v) t = Abs(v) d = Identity(k) }"),
        np.array([0, 16], np.float32),
    ),
    "a value of a branch hides one around": (
        lambda: model(
            [node("Abs", "x", "t"), node("If", "c", "u", then_branch=out(NEGATED), else_branch=out(NEGATED)),
             node("Add", "t u", "y")],
            initializers=[FLAG],
        ),
        np.abs(X) - X,
    ),
    "a node without outputs": (lambda: model([node("Relu", "x", "y"), h.make_node("Neg", ["x"], [])]), np.maximum(X, 0)),
    "a function that stands in for an operator of a later opset": (
        lambda: model(
            [node("Gelu", "x", "y")], functions=[h.make_function("", "Gelu", ["a"], ["b"], [node("Neg", "a", "b")], MY_IMPORTS)]
        ),
        -X,
    ),
}  # fmt: skip


def eager(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    return o2m.convert(proto).eager().run(feeds)


def feeds_of(proto: onnx.ModelProto) -> dict[str, Any]:
    held = {tensor.name for tensor in proto.graph.initializer}
    names = [value.name for value in proto.graph.input if value.name not in held]
    shapes = [[dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim] for value in proto.graph.input]
    return {name: (X * (n + 1)).reshape(shape) for n, (name, shape) in enumerate(zip(names, shapes, strict=False))}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_numbers_are_onnxruntimes(name: str) -> None:
    proto = GRAPHS[name]()
    feeds = feeds_of(proto)
    wanted, got = reference(proto, feeds), eager(proto, feeds)
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED_BY_ORT)
def test_what_has_one_meaning_although_onnxruntime_refuses_it(name: str) -> None:
    make, wanted = REFUSED_BY_ORT[name]
    assert np.array_equal(eager(make(), {"x": X})[0], wanted)


@pytest.mark.parametrize("proto", [between(2, dtype=T.INT64), model(outputs=[info("y", (2,), T.INT64)])])
def test_an_element_type_that_is_not_so_is_refused(proto: onnx.ModelProto) -> None:
    with pytest.raises(o2m.Refusal, match=r"O2M-C007.* is declared int64 but comes out as float"):
        o2m.convert(proto)


# --- dims -------------------------------------------------------------------------------------------------------------

DIMS = ["batch_size * 2", "unk__12", "größe", "past+seq", "a b", "1", "None", "s0", "u0", "x.shape[0]", "max(a,b)", "N "]


def test_names_of_dims_reach_the_engine_and_the_messages() -> None:
    """All names at once, and two dims without one: one engine, many sizes."""
    inputs = [info(f"in{n}", [name, 2]) for n, name in enumerate(DIMS)] + [info("p", ["", 2]), info("q", ["?", 2])]
    nodes = [node("Neg", value.name, f"out{n}") for n, value in enumerate(inputs)]
    outputs = [info(f"out{n}", [None, 2]) for n in range(len(inputs))]
    program = o2m.convert(model(nodes, inputs=inputs, outputs=outputs))
    engine, in_eager = program.compile(), program.eager()
    assert (in_eager.inputs, in_eager.outputs) == (engine.inputs, engine.outputs)
    assert [item.shape[0] for item in engine.inputs[: len(DIMS)]] == DIMS
    assert [item.shape[0] for item in engine.outputs[: len(DIMS)]] == DIMS
    assert all(isinstance(item.shape[0], str) for item in engine.inputs)
    assert engine.inputs[-1].shape[0] != engine.inputs[-2].shape[0]
    for size in (0, 1, 3):
        arrays = [np.ones((size + n % 3, 2), np.float32) for n in range(len(inputs))]
        assert [item.shape for item in engine.run(arrays)] == [array.shape for array in arrays]


def test_names_of_dims_beside_sequences() -> None:
    proto = text("(float[batch_size, 2] x) => (seq(float[batch_size, 2]) s) { s = SequenceConstruct(x, x) }")
    for runnable in (o2m.compile(proto), o2m.convert(proto).eager()):
        assert str(runnable.inputs[0]) == "x: float32[batch_size, 2]"
        assert [item.shape for item in runnable.run([np.ones((3, 2), np.float32)])[0]] == [(3, 2)] * 2


def test_a_wrong_size_names_input_dim_and_both_values() -> None:
    proto = model(
        [node("Concat", "a b", "y", axis=1)],
        inputs=[info("a", ["batch_size * 2", 3]), info("b", ["batch_size * 2", "n"])], outputs=[info("y", None)],
    )  # fmt: skip
    program = o2m.convert(proto)
    cases = [
        ([(2, 3), (4, 1)], r"dim 0 of input b \('batch_size \* 2'\) is 4, but dim 0 of input a has made it 2"),
        ([(2, 5), (2, 1)], r"dim 1 of input a is 5, the model takes 3"),
        ([(2, 3, 1), (2, 1)], r"(has rank 3|\[2, 3, 1\])"),
    ]
    for runnable in (program.compile(), program.eager()):
        for shapes, told in cases:
            with pytest.raises(o2m.Refusal, match=told):
                runnable.run([np.zeros(shape, np.float32) for shape in shapes])


def test_a_name_that_is_an_expression_is_a_dim_of_its_own() -> None:
    """As decoders declare it that are given a mask without the past: the name says more than is true."""
    proto = model(
        [node("ReduceSum", "past", "p"), node("ReduceSum", "mask", "m"), node("Add", "p m", "y")],
        inputs=[info("past", ["past"]), info("x", ["seq"]), info("mask", ["past + seq"])], outputs=[info("y", None)],
    )  # fmt: skip
    program = o2m.convert(proto).eager()
    for past, seq, mask in ((0, 3, 3), (2, 3, 5), (1, 3, 3)):
        arrays = [np.ones(size, np.float32) for size in (past, seq, mask)]
        assert program.run(arrays)[0] == past + mask


# --- one program at every size ----------------------------------------------------------------------------------------

DECODER = """<ir_version: 8, opset_import: ["": 17]>
g (float[batch, seq, 8] x, float[batch, 2, past, 4] keys, float[batch, 2, past, 4] values, int64[batch, total] mask)
  => (float[batch, seq, 8] y, float[batch, 2, total, 4] all_keys, float[batch, 2, total, 4] all_values)
  <float[8, 24] w = {}, int64[5] heads = {0, 0, 3, 2, 4}, float half = {0.5}, float one = {1}, float most = {-10000},
   int64[2] inner = {1, 2}, int64[3] merged = {0, 0, 8}, int64[1] first = {0}> {
  packed = MatMul(x, w)
  split = Reshape(packed, heads)
  turned = Transpose<perm = [2, 0, 3, 1, 4]>(split)
  q0, k0, v0 = Split<axis = 0>(turned)
  q = Squeeze(q0, first)
  k = Squeeze(k0, first)
  v = Squeeze(v0, first)
  all_keys = Concat<axis = 2>(keys, k)
  all_values = Concat<axis = 2>(values, v)
  across = Transpose<perm = [0, 1, 3, 2]>(all_keys)
  scores = MatMul(q, across)
  scaled = Mul(scores, half)
  seen = Cast<to = 1>(mask)
  hidden = Sub(one, seen)
  far = Mul(hidden, most)
  bias = Unsqueeze(far, inner)
  biased = Add(scaled, bias)
  weights = Softmax<axis = -1>(biased)
  mixed = MatMul(weights, all_values)
  back = Transpose<perm = [0, 2, 1, 3]>(mixed)
  y = Reshape(back, merged)
}"""


def compared_at(proto: onnx.ModelProto, cases: Sequence[dict[str, Any]]) -> None:
    """One compilation; every case against onnxruntime."""
    engine = o2m.compile(proto)
    for feeds in cases:
        for ours, theirs in zip(engine.run(feeds), reference(proto, feeds), strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_a_decoder_at_every_batch_sequence_and_past() -> None:
    rng = np.random.default_rng(0)
    w = ", ".join(f"{value:.4f}" for value in rng.normal(size=8 * 24))
    proto = parser.parse_model(DECODER.replace("w = {}", f"w = {{{w}}}"))

    def case(batch: int, seq: int, past: int) -> dict[str, Any]:
        shapes = {"x": (batch, seq, 8), "keys": (batch, 2, past, 4), "values": (batch, 2, past, 4)}
        feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        return {**feeds, "mask": rng.integers(0, 2, (batch, past + seq), np.int64)}

    sizes = [(1, 5, 0), (1, 1, 5), (3, 2, 1), (2, 1, 0), (1, 7, 9), (0, 3, 2), (2, 0, 3)]
    compared_at(proto, [case(*size) for size in sizes])


def test_an_image_network_at_every_size() -> None:
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", "x k", "a", auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Relu", "a", "b"),
        node("MaxPool", "b", "c", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        node("Resize", "c _ twice", "d", mode="linear"),
        node("Shape", "d", "s", start=2),
        node("Slice", "b starts s axes", "e"),
        node("Shape", "e", "size"),
        node("Resize", "c _ _ size", "f", mode="nearest"),
        node("Add", "e f", "g"),
        node("GlobalAveragePool", "g", "h"),
        node("Flatten", "h", "y"),
    ]
    held = [
        const("k", rng.normal(size=(4, 3, 3, 3))), const("twice", [1, 1, 2, 2]),
        const("starts", [0, 0], np.int64), const("axes", [2, 3], np.int64),
    ]  # fmt: skip
    inputs = [info("x", ["batch", 3, "height", "width"])]
    outputs = [info("y", ["batch", 4]), info("g", None)]
    proto = model(nodes, inputs=inputs, outputs=outputs, initializers=held)
    shapes = [(1, 8, 8), (2, 7, 9), (1, 1, 1), (3, 1, 6), (1, 16, 5), (0, 8, 8)]
    compared_at(proto, [{"x": rng.normal(size=(n, 3, h, w)).astype(np.float32)} for n, h, w in shapes])


# --- initializers that are inputs too ---------------------------------------------------------------------------------


def test_an_overridable_initializer_is_an_input_that_may_be_left_out(tmp_path: Any) -> None:
    proto = model(
        [node("Add", "x w", "t"), node("Mul", "t v", "y")],
        inputs=[info("x"), info("w"), info("v")], initializers=[const("w", [1, 2]), const("v", [3, 4])],
    )  # fmt: skip
    w = np.array([7, 8], np.float32)
    program = o2m.convert(proto, overridable=["w"])
    for runnable in (program.compile(), program.eager()):
        for feeds in ({"x": X}, {"x": X, "w": w}):
            assert np.array_equal(runnable.run(feeds)[0], reference(proto, feeds)[0])
        with pytest.raises(o2m.Refusal, match="O2M-U003"):
            runnable.run({"w": w})
    with pytest.raises(o2m.Refusal, match="O2M-U001"):
        o2m.convert(proto, overridable=["x"])
    # What the inputs of a verification give is given to both sides.
    np.savez(tmp_path / "in.npz", x=X, w=w)
    for inputs in ({"x": X, "w": w}, tmp_path / "in.npz"):
        report = o2m.verify(proto, inputs, eager=True)
        assert report.passed and list(report.inputs) == ["x", "w"]
        assert report.outputs[0].ours.maximum == 4 * (2 + 8)


def test_an_overridable_initializer_beside_strings() -> None:
    proto = model(
        [node("Add", "x w", "t"), node("Cast", "t", "s", to=T.STRING), node("Cast", "s", "y", to=T.FLOAT)],
        inputs=[info("x"), info("w")], initializers=[const("w", [1, 2])],
    )  # fmt: skip
    engine = o2m.convert(proto, overridable=["w"]).eager()
    for feeds in ({"x": X}, {"x": X, "w": X}):
        assert np.array_equal(engine.run(feeds)[0], reference(proto, feeds)[0])
