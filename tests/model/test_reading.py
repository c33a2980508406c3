"""Files that onnxruntime loads, however odd, load here, and mean the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import Kind, LoadedModel, array, extract, node_ref, read
from tests.model.builders import const, function, graph, info, model, node, tensor

A = onnx.AttributeProto
X = np.array([-1.5, 2.0], np.float32)


def run(proto: onnx.ModelProto, x: np.ndarray = X) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {value.name: x for value in session.get_inputs()}))


def again(loaded: LoadedModel) -> onnx.ModelProto:
    """What was read, as a model of its own."""
    return extract(loaded, [value.name for value in loaded.outputs])


def untyped(proto: onnx.ModelProto) -> onnx.ModelProto:
    proto.graph.output[0].ClearField("type")
    return proto


def bare(**fields: object) -> onnx.ModelProto:
    call = node("LeakyRelu", "x", "y")
    call.attribute.append(A(name="alpha", **fields))
    return model([call])


def dims(*sizes: int) -> onnx.ModelProto:
    proto = model(inputs=[info("x", [None] * len(sizes))])
    for dim, size in zip(proto.graph.input[0].type.tensor_type.shape.dim, sizes, strict=True):
        dim.dim_value = size
    return proto


THREE = const("", [3.0])
FLAG = const("c", True, np.bool_)
NEGATED = graph([node("Neg", "x", "e")], outputs=[info("e")])
LATE = graph([node("Abs", "late", "t"), node("Relu", "t", "u")], outputs=[info("u")])
UNSORTED = graph(LATE.node[::-1], outputs=[info("u")])

ODD: dict[str, Callable[[], onnx.ModelProto]] = {
    "nodes in any order": lambda: model([node("Relu", "t", "y"), node("Neg", "u", "t"), node("Abs", "x", "u")]),
    "branch reads a later node": lambda: model(
        [node("If", "c", "y", then_branch=LATE, else_branch=NEGATED), node("Neg", "x", "late")],
        initializers=[FLAG],
    ),
    "repeated opset": lambda: model(opsets=[("", 17), ("", 17), ("ai.onnx", 17)]),
    "ai.onnx spelled out": lambda: model([node("Relu", "x", "y", domain="ai.onnx")], opsets=[("ai.onnx", 17)]),
    "contrib domain not imported": lambda: model([node("Gelu", "x", "y", domain="com.microsoft")]),
    "ml domain not imported": lambda: model([node("Binarizer", "x", "y", domain="ai.onnx.ml")]),
    "dim -1": lambda: dims(-1),
    "output dims that lie": lambda: model(outputs=[info("y", ["n"])]),
    "output without type": lambda: untyped(model()),
    "weights as Constant nodes": lambda: model([
        node("Constant", "", "k", value=const("", [1, 2])), node("Add", "x k", "y"),
    ]),
    "overridable initializer": lambda: model(
        [node("Add", "x w", "y")], inputs=[info("x"), info("w")], initializers=[const("w", [1, 2])]
    ),
    "initializers as inputs, IR 3": lambda: model(
        [node("Add", "x w", "y")], inputs=[info("x"), info("w")], initializers=[const("w", [1, 2])], ir_version=3
    ),
    "two initializers of one name": lambda: model(
        [node("Add", "x w", "y")], initializers=[const("w", [1, 2]), const("w", [3, 4])]
    ),
    "initializer without name": lambda: model(initializers=[const("", [1, 2])]),
    "output is an input": lambda: model(outputs=[info("y"), info("x")]),
    "output is an initializer": lambda: model(outputs=[info("y"), info("w")], initializers=[const("w", [1, 2])]),
    "output twice": lambda: model(outputs=[info("y"), info("y")]),
    "absent optional input": lambda: model([node("Clip", "x _ hi", "y")], initializers=[const("hi", 1)]),
    "absent optional output": lambda: model([node("Dropout", "x", "y _")]),
    "float_data": lambda: model([node("Add", "x w", "y")], initializers=[tensor(float_data=[1, 2])]),
    "int32_data as float16": lambda: model(
        [node("Cast", "w", "k", to=1), node("Add", "x k", "y")],
        initializers=[tensor(data_type=T.FLOAT16, int32_data=[0x3C00, 0x4000])],
    ),
    "scalar in a list": lambda: model([node("Add", "x w", "y")], initializers=[tensor(dims=[], float_data=[1])]),
    "empty tensor": lambda: model([node("Concat", "x w", "y", axis=0)], initializers=[tensor(dims=[0])]),
    "attribute without value is 0": lambda: bare(type=A.FLOAT),
    "unused input": lambda: model(inputs=[info("x"), info("z")]),
    "function": lambda: model(
        [node("F", "x", "y", domain="my")],
        functions=[function("F", "a", "b", [node("Neg", "a", "t"), node("Relu", "t", "b")])],
        opsets=[("", 17), ("my", 1)],
    ),
    "sparse constant": lambda: model([
        node("Constant", "", "k", sparse_value=helper.make_sparse_tensor(THREE, const("", [1], np.int64), [2])),
        node("Add", "x k", "y"),
    ]),
    "large weights": lambda: model(
        [node("Gather", "w i", "k"), node("Add", "x k", "y")],
        initializers=[const("w", np.arange(5000)), const("i", [7, 4999], np.int64)],
    ),
    "large float_data": lambda: model(
        [node("Gather", "w i", "k"), node("Add", "x k", "y")],
        initializers=[tensor(dims=[5000], float_data=range(5000)), const("i", [7, 4999], np.int64)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_models_load_and_mean_the_same(name: str, tmp_path: Path) -> None:
    proto = ODD[name]()
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    expected = run(proto)
    for source in (proto, path, path.read_bytes()):
        got = run(again(read(source)))
        assert len(got) == len(expected)
        for ours, theirs in zip(got, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    loaded = read(path)
    np.testing.assert_array_equal(run(again(read(loaded.ir)))[0], expected[0])


def test_nothing_given_is_changed() -> None:
    proto = ODD["branch reads a later node"]()
    before = proto.SerializeToString(deterministic=True)
    loaded = read(proto)
    assert proto.SerializeToString(deterministic=True) == before
    names = [n.name for n in loaded.ir.graph.all_nodes()]
    read(loaded.ir)
    assert [n.name for n in loaded.ir.graph.all_nodes()] == names


def test_what_onnxruntime_refuses_and_still_has_one_meaning() -> None:
    outer = graph([], outputs=[info("x")])  # a branch that returns a value of the outer graph as it is
    choice = node("If", "c", "y", then_branch=outer, else_branch=NEGATED)
    loaded = read(model([choice], initializers=[FLAG]))
    np.testing.assert_array_equal(run(again(loaded))[0], X)
    call = node("LeakyRelu", "x", "y")
    call.attribute.append(A(name="alpha", f=0.5))  # IR version 1 had no attribute types
    np.testing.assert_array_equal(run(again(read(model([call])))), [[-0.75, 2.0]])
    unsorted = model([node("If", "c", "y", then_branch=UNSORTED, else_branch=NEGATED), node("Neg", "x", "late")])
    unsorted.graph.initializer.append(FLAG)
    np.testing.assert_array_equal(run(again(read(unsorted)))[0], -np.minimum(X, -X))
    backwards = function("F", "a", "b", [node("Relu", "t", "b"), node("Neg", "a", "t")])
    calling = model([node("F", "x", "y", domain="my")], functions=[backwards], opsets=[("", 17), ("my", 1)])
    np.testing.assert_array_equal(run(again(read(calling)))[0], np.maximum(-X, 0))
    same = model([node("Neg", "x", "t", name="n"), node("Relu", "t", "y", name="n")])
    np.testing.assert_array_equal(run(again(read(same)))[0], np.maximum(-X, 0))
    proto = model(ir_version=2, opsets=[])
    assert read(proto).opsets == {"": 1}


def test_sparse_initializer() -> None:
    proto = model([node("Add", "x w", "y")])
    for indices in (const("", [1], np.int64), const("", [[1]], np.int64)):
        del proto.graph.sparse_initializer[:]
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(const("w", [3.0]), indices, [2]))
        loaded = read(proto)
        np.testing.assert_array_equal(array(loaded.ir.graph.initializers["w"].const_value), [0, 3])


@pytest.mark.parametrize(("indices", "shape"), [([2], [2]), ([-1], [2]), ([[0, 3]], [2, 3]), ([0], [1 << 50])])
def test_indices_of_sparse_tensors_are_checked_when_they_are_used(indices: list[object], shape: list[int]) -> None:
    proto = model([node("Add", "x w", "y")])
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(const("w", [3.0]), const("", indices, np.int64), shape)
    )
    with pytest.raises(Refusal, match="O2M-R015"):
        array(read(proto).ir.graph.initializers["w"].const_value)


def test_comments_that_are_not_utf8_are_left_out() -> None:
    proto = model([node("Relu", "x", "y", doc_string="plain")])
    proto.producer_name = "plain"
    data = proto.SerializeToString().replace(b"plain", b"pl\xe9in")
    assert onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    again(read(data))
    read(read(data).ir)


def test_a_newest_model() -> None:
    loaded = read(model(opsets=[("", 28)], ir_version=14))
    assert (loaded.opsets, loaded.ir.graph[0].version) == ({"": 28}, 28)


def test_inputs_and_outputs() -> None:
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(T.INT64, ["k"]))
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(T.FLOAT16, None))
    mapping = helper.make_map_type_proto(T.INT64, helper.make_tensor_type_proto(T.FLOAT, []))
    proto = model(
        inputs=[
            info("x", ["batch", 2, None, "", "?"]), info("rank"), info("s", ()),
            *(helper.make_value_info(n, t) for n, t in (("seq", sequence), ("opt", optional), ("map", mapping))),
        ],
    )  # fmt: skip
    proto.graph.input[1].type.tensor_type.ClearField("shape")
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    loaded = read(proto)
    x, rank, scalar, seq, opt, mapped = loaded.inputs
    assert (x.dtype, x.shape) == (ir.DataType.FLOAT, ("batch", None, None, None, None))
    assert (rank.shape, scalar.shape) == (None, ())
    assert seq.kind is Kind.SEQUENCE and seq.element is not None
    assert (seq.element.dtype, seq.element.shape) == (ir.DataType.INT64, ("k",))
    assert opt.kind is Kind.OPTIONAL and opt.element is not None and opt.element.shape is None
    assert mapped.kind is Kind.MAP and mapped.dtype is ir.DataType.INT64
    assert [value.name for value in loaded.ir.graph.inputs] == ["x", "rank", "s", "seq", "opt", "map"]
    shape = loaded.ir.graph.inputs[0].shape
    assert shape is not None
    assert [dim.value if isinstance(dim, ir.SymbolicDim) else dim for dim in shape] == ["batch", None, None, None, None]
    for value in loaded.inputs:
        assert value.to_proto().WhichOneof("value") is not None


def test_overridable_initializers() -> None:
    proto = ODD["overridable initializer"]()
    constant = read(proto)
    assert constant.overridable == ("w",)
    assert [value.name for value in constant.inputs] == ["x"]
    assert list(constant.ir.graph.initializers) == ["w"]
    kept = read(proto, keep_overridable=["w"])
    assert [value.name for value in kept.inputs] == ["x", "w"]
    assert not kept.ir.graph.initializers
    assert read(ODD["initializers as inputs, IR 3"]()).overridable == ()
    with pytest.raises(Refusal, match="O2M-U001"):
        read(proto, keep_overridable=["x"])


def test_reading_imports_no_compiler() -> None:
    script = (
        "import sys, onnx2torch_mlir.model\n"
        "print([name for name in ('torch', 'torch_mlir', 'onnxruntime', 'onnxscript') if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=True)
    assert run.stdout.strip() == "[]"


def test_initializers_have_their_own_shape() -> None:
    proto = model([node("Add", "x w", "y")], inputs=[info("x"), info("w", ("n",))], initializers=[const("w", [1, 2])])
    value = read(proto).ir.graph.initializers["w"]
    assert value.shape == ir.Shape([2])


def test_names_of_nodes_are_unique_and_stable() -> None:
    inner = graph([node("Neg", "x", "e", name="n")], outputs=[info("e")])
    proto = model(
        [
            node("Abs", "x", "t"), node("Abs", "t", "u", name="n"), node("Abs", "u", "v", name="n"),
            node("Abs", "v", "w", name="Abs_0"), node("If", "c", "y", then_branch=inner, else_branch=inner),
        ],
        initializers=[FLAG],
    )  # fmt: skip
    names = [n.name for n in read(proto).ir.graph.all_nodes()]
    assert len(set(names)) == len(names)
    assert names[1:4] == ["n", "n_1", "Abs_0"]
    assert names == [n.name for n in read(proto).ir.graph.all_nodes()]


def test_places() -> None:
    loaded = read(ODD["branch reads a later node"]())
    places = {n.op_type: (node_ref(n).place, node_ref(n).index) for n in loaded.ir.graph.all_nodes()}
    choice = next(n for n in loaded.ir.graph if n.op_type == "If")
    assert places["If"] == ("main", 0)
    assert places["Relu"] == (f"main/{choice.name}.then_branch", 1)
    assert [n.op_type for n in loaded.ir.graph] == ["Neg", "If"]


def test_warnings_are_kept() -> None:
    loaded = read(ODD["contrib domain not imported"]())
    assert loaded.opsets["com.microsoft"] == 1
    assert [finding.code for finding in loaded.findings] == ["O2M-R007"]
    trained = model()
    trained.training_info.add()
    assert [finding.code for finding in read(trained).findings] == ["O2M-R020"]


def test_strings() -> None:
    proto = model(outputs=[info("y"), info("s", dtype=T.STRING)])
    proto.graph.initializer.append(numpy_helper.from_array(np.array(["a", "bé"], object), "s"))
    values = array(read(proto).ir.graph.initializers["s"].const_value)
    assert values.tolist() == [b"a", "bé".encode()]
