"""Models that are split: native parts and steps on the host, against onnxruntime."""

import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import onnx2torch_mlir as o2m
from onnx2torch_mlir import backend
from onnx2torch_mlir.cli.main import main
from onnx2torch_mlir.diagnostics import Refusal, Severity
from onnx2torch_mlir.hosting import HostStep, split
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, SplitProgram
from onnx2torch_mlir.verification import run_reference

WORDS = np.array(["cat", "dog", "", "fox", "cat"], object)
ML = "ai.onnx.ml"


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], held: dict[str, Any] | None = None) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in (held or {}).items()]
    declared = [item if not isinstance(item, str) else helper.make_empty_tensor_value_info(item) for item in outputs]
    graph = helper.make_graph(nodes, "g", inputs, declared, tensors)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)])


def tensor(name: str, kind: int, *shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"{op}_{outputs}", domain=domain, **attributes)


def agrees(proto: onnx.ModelProto, feeds: dict[str, Any], eager: bool = False) -> SplitProgram:
    program = o2m.convert(proto)
    assert isinstance(program, SplitProgram)
    check_run(program.eager() if eager else program.compile(), proto, feeds)
    return program


def check_run(engine: Any, proto: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    wanted = run_reference(proto, feeds).outputs
    results = engine.run(feeds)
    assert len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        if isinstance(want, list):
            assert result == want
            continue
        assert (result.shape, result.dtype) == (want.shape, want.dtype)
        if want.dtype == object:
            assert result.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(result, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "given"), [(T.INT64, np.array([0, 2, 7, -1])), (T.STRING, np.array(["c", "z", "a"], object))]
)
def test_the_first_label_encoder(kind: int, given: Any) -> None:
    encode = node("LabelEncoder", "x", "y", ML, classes_strings=["a", "b", "c"], default_string="?", default_int64=-5)
    other = T.INT64 if kind == T.STRING else T.STRING
    proto = model([encode], [tensor("x", kind, "n")], [tensor("y", other, "n")])
    proto.opset_import[1].version = 1
    agrees(proto, {"x": given})


def mixed() -> onnx.ModelProto:
    """Numbers to strings to numbers: a native part, a step on the host, and a native part that reads both."""
    nodes = [
        node("Relu", "x", "r"),
        node("ArgMax", "r", "best", axis=1, keepdims=0),
        node("LabelEncoder", "best", "label", ML, keys_int64s=[0, 1, 2], values_strings=["a", "b", "c"], default_string="?"),
        node("StringConcat", "label mark", "marked"),
        node("LabelEncoder", "marked", "back", ML, keys_strings=["a!", "b!", "c!"], values_int64s=[10, 20, 30]),
        node("Constant", "", "axes", value=numpy_helper.from_array(np.array([1]))),
        node("Unsqueeze", "back axes", "column"),
        node("Cast", "column", "weight", to=T.FLOAT),
        node("Mul", "weight r", "y"),
    ]
    held = {"mark": np.array(["!"], object)}
    return model(nodes, [tensor("x", T.FLOAT, "batch", 3)], [tensor("y", T.FLOAT, "batch", 3), "marked"], held)


@pytest.mark.parametrize("eager", [False, True])
def test_native_host_native_at_any_batch(eager: bool) -> None:
    proto = mixed()
    program = o2m.convert(proto)
    assert isinstance(program, SplitProgram)
    assert [isinstance(part, HostStep) for part in program.parts] == [False, True, False]
    engine = program.eager() if eager else program.compile()
    for batch in (4, 1, 0):
        check_run(engine, proto, {"x": np.random.default_rng(batch).standard_normal((batch, 3)).astype(np.float32)})


def test_the_report_says_what_runs_on_the_host_and_why() -> None:
    notes = [finding for finding in o2m.convert(mixed()).report.findings if finding.code == "O2M-C011"]
    assert [note.node.op_type for note in notes if note.node] == ["LabelEncoder", "StringConcat", "LabelEncoder"]
    assert all(note.severity is Severity.NOTE and note.case == "part 2 of 3" for note in notes)
    assert "label is a tensor of strings" in notes[0].reason and notes[1].reason == "tensors of strings cannot be compiled"
    assert [finding.code for finding in o2m.check(mixed())].count("O2M-C011") == 3


def test_what_needs_one_program_is_refused_with_the_nodes() -> None:
    program = o2m.convert(mixed())
    uses = (lambda: program.to_mlir("linalg"), lambda: program.exported, lambda: program.lowered, lambda: program.save("x.pt2"))
    for use in uses:
        with pytest.raises(Refusal) as caught:
            use()
        assert {finding.code for finding in caught.value.findings} == {"O2M-H005"}
        assert [f.node.name for f in caught.value.findings if f.node] == [
            "LabelEncoder_label", "StringConcat_marked", "LabelEncoder_back",
        ]  # fmt: skip


def test_pinned_dims_and_constants() -> None:
    program = o2m.convert(mixed(), dims={"batch": 2})
    x = np.array([[1, 2, 0], [0, -1, 3]], np.float32)
    assert program.compile().inputs[0].shape == (2, 3)
    wanted = run_reference(mixed(), {"x": x}).outputs
    np.testing.assert_array_equal(program.compile().run([x])[0], wanted[0])
    held = o2m.convert(mixed(), constants={"x": x}).compile()
    assert held.inputs == ()
    assert held.run([])[1].tolist() == wanted[1].tolist()
    with pytest.raises(Refusal, match="O2M-U002"):
        o2m.convert(mixed(), dims={"nothing": 2})


def test_movement_of_strings() -> None:
    nodes = [
        node("Reshape", "s shape", "a"),
        node("Transpose", "a", "b", perm=[1, 0]),
        node("Concat", "b b", "c", axis=1),
        node("Identity", "c", "d"),
        node("Gather", "d i", "e", axis=0),
        node("Unique", "s", "u ui uj uc"),
        node("Equal", "u first", "is_first"),
        node("Where", "is_first first u", "w"),
        node("Add", "uc uc", "twice"),
    ]
    held = {"shape": np.array([-1, 1]), "first": np.array(["cat"], object)}
    proto = model(nodes, [tensor("s", T.STRING, "N"), tensor("i", T.INT64, 1)], ["e", "u", "w", "twice"], held)
    agrees(proto, {"s": WORDS, "i": np.array([0])})


def test_strings_through_and_initializers_as_outputs() -> None:
    inputs = [tensor("s", T.STRING, "N"), tensor("x", T.FLOAT, 2)]
    proto = model([node("Neg", "x", "y")], inputs, ["y", "s", "k"], {"k": WORDS})
    program = agrees(proto, {"s": WORDS, "x": np.ones(2, np.float32)})
    assert [isinstance(part, CoreProgram) for part in program.parts] == [True]


def test_strings_inside_a_branch_put_the_whole_node_on_the_host() -> None:
    yes = helper.make_graph([node("Equal", "s word", "t")], "yes", [], [tensor("t", T.BOOL, "N")])
    no = helper.make_graph([node("Not", "m", "e")], "no", [], [tensor("e", T.BOOL, "N")])
    choice = node("If", "p", "z", then_branch=yes, else_branch=no)
    nodes = [node("Greater", "x zero", "m"), choice, node("Cast", "z", "y", to=1)]
    held = {"word": np.array("cat", object), "zero": np.zeros((), np.float32)}
    inputs = [tensor("s", T.STRING, "N"), tensor("x", T.FLOAT, "N"), tensor("p", T.BOOL)]
    proto = model(nodes, inputs, [tensor("y", T.FLOAT, "N")], held)
    feeds = {"s": WORDS, "x": np.arange(-2, 3, dtype=np.float32)}
    for taken in (True, False):
        program = agrees(proto, feeds | {"p": np.array(taken)})
    assert [isinstance(part, HostStep) for part in program.parts] == [False, True, False]
    assert "then_branch" in program.on_host[0].reason


def test_maps_as_outputs_and_inputs() -> None:
    zip_map = [node("Softmax", "x", "p"), node("ZipMap", "p", "z", ML, classlabels_strings=["a", "b"])]
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(T.STRING, helper.make_tensor_type_proto(T.FLOAT, [])))
    proto = model(zip_map, [tensor("x", T.FLOAT, "N", 2)], [helper.make_value_info("z", kind)])
    x = np.array([[0.5, 1], [2, 0]], np.float32)
    [maps] = o2m.compile(proto).run([x])
    [wanted] = run_reference(proto, {"x": x}).outputs
    assert [list(item) for item in maps] == [list(item) for item in wanted]
    np.testing.assert_allclose([list(item.values()) for item in maps], [list(item.values()) for item in wanted], rtol=1e-6)

    vector = [node("DictVectorizer", "m", "v", ML, string_vocabulary=["b", "a"]), node("Mul", "v v", "y")]
    kind = helper.make_map_type_proto(T.STRING, helper.make_tensor_type_proto(T.FLOAT, []))
    proto = model(vector, [helper.make_value_info("m", kind)], ["y"])
    agrees(proto, {"m": {"a": 3.0, "c": 7.0}})


MAPS: list[tuple[str, int, dict[Any, Any], dict[str, Any], list[Any]]] = [
    # the operator, the type of values, the map, the attributes, the row
    ("DictVectorizer", T.DOUBLE, {5: 0.1, 7: 2.0}, {"int64_vocabulary": [7, 1, 5]}, [2.0, 0.0, 0.1]),
    ("DictVectorizer", T.FLOAT, {}, {"int64_vocabulary": [7]}, [0.0]),
    ("DictVectorizer", T.STRING, {7: "a"}, {"int64_vocabulary": [1, 7]}, ["", "a"]),
    ("CastMap", T.STRING, {4: "1.5", 1: "-2"}, {}, [-2.0, 1.5]),
    ("CastMap", T.STRING, {4: "15", 1: "-2"}, {"cast_to": "TO_INT64", "map_form": "SPARSE", "max_map": 3}, [0, -2, 0]),
    ("CastMap", T.FLOAT, {0: 1.0}, {"cast_to": "TO_STRING", "map_form": "SPARSE", "max_map": 2}, ["1.000000", "0.f"]),
    ("CastMap", T.STRING, {0: "x"}, {"cast_to": "TO_STRING", "map_form": "SPARSE", "max_map": 2}, ["x", "0.f"]),
]


@pytest.mark.parametrize(("op", "kind", "held", "attributes", "row"), MAPS)
def test_maps_that_onnxruntime_does_not_take(op: str, kind: int, held: Any, attributes: Any, row: list[Any]) -> None:
    map_type = helper.make_map_type_proto(T.INT64, helper.make_tensor_type_proto(kind, []))
    proto = model([node(op, "m", "y", ML, **attributes)], [helper.make_value_info("m", map_type)], ["y"])
    [result] = o2m.compile(proto).run({"m": held})
    assert result.tolist() == [row if result.dtype != np.float32 else [np.float32(item) for item in row]]


def test_an_unknown_rank_is_a_finding() -> None:
    nodes = [node("Reshape", "s shape", "a"), node("Equal", "a a", "b"), node("Cast", "b", "y", to=1), node("Neg", "y", "z")]
    proto = model(nodes, [tensor("s", T.STRING, "N"), tensor("shape", T.INT64, "K")], ["z"])
    [finding] = [item for item in o2m.check(proto) if item.severity is Severity.ERROR]
    assert finding.code == "O2M-C004" and finding.node is not None and finding.node.op_type == "Equal"
    proto.graph.value_info.append(tensor("b", T.BOOL, "A", "B"))
    agrees(proto, {"s": WORDS, "shape": np.array([5, 1])})


def test_findings_of_native_parts_stand_at_the_nodes_of_the_model() -> None:
    proto = mixed()
    proto.graph.node[-1].op_type = "Nonsense"
    found = [finding for finding in o2m.check(proto) if finding.severity is Severity.ERROR]
    assert [(item.code, item.node.name, item.node.index) for item in found if item.node] == [("O2M-C001", "Mul_y", 8)]


def test_inputs_that_do_not_fit() -> None:
    proto = model([node("StringConcat", "s s", "y")], [tensor("s", T.STRING, "N", 2)], ["y"])
    engine = o2m.compile(proto)
    assert engine.run([[["a", "b"]]])[0].tolist() == [["aa", "bb"]]
    for wrong in ([np.ones((1, 2))], [np.array(["a"])], [], {"t": np.array([["a", "b"]])}, [np.array([[1, "a"]], object)]):
        with pytest.raises(Refusal, match="O2M-U003"):
            engine.run(wrong)


def test_weights_in_a_file_stay_there(tmp_path: Any) -> None:
    casts = [node("Cast", "m", "s", to=T.STRING), node("Cast", "s", "n", to=T.FLOAT)]
    nodes = [node("MatMul", "x w", "m"), *casts, node("MatMul", "n w", "y")]
    proto = model(nodes, [tensor("x", T.FLOAT, "N", 64)], ["y"], {"w": np.eye(64, dtype=np.float32)})
    path = tmp_path / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="m.data", size_threshold=0)
    x = np.arange(128, dtype=np.float32).reshape(2, 64)
    program = o2m.convert(path)
    assert [isinstance(part, HostStep) for part in program.parts] == [False, True, False]
    np.testing.assert_array_equal(program.compile().run([x])[0], x)


def test_a_model_without_strings_is_one_program() -> None:
    proto = model([node("Neg", "x", "y")], [tensor("x", T.FLOAT, 2)], ["y"])
    assert split(read(proto)) is None
    assert isinstance(o2m.convert(proto), CoreProgram)


def test_backend_and_commands(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    proto = mixed()
    assert backend.is_compatible(proto)
    assert backend.prepare(proto).run([np.eye(3, dtype=np.float32)])[1].tolist() == ["a!", "b!", "c!"]
    nodes = [node("StringNormalizer", "s", "y", case_change_action="NONE"), node("Shape", "y", "n")]
    words = model(nodes, [tensor("s", T.STRING, "N")], ["y", "n"])
    for name, item in (("mixed", proto), ("words", words)):
        path = str(tmp_path / f"{name}.onnx")
        onnx.save(item, path)
        assert main(["verify", path]) == 0
        assert main(["run", path, "-o", str(tmp_path / "out.npz")]) == 0
        assert main(["check", path]) == 0
        assert "on the host" in capsys.readouterr().out
        assert main(["explain", path, "--format", "json"]) == 0
        assert any(entry["by"].startswith("the host") for entry in json.loads(capsys.readouterr().out)["nodes"])
        assert main(["convert", path, "--emit", "linalg"]) == 6
        assert "O2M-H005" in capsys.readouterr().err


def test_what_a_part_knows_the_parts_after_it_know_too() -> None:
    """Axes computed from a shape before the strings decide a rank behind them."""
    nodes = [
        node("Relu", "x", "r"),
        node("Shape", "r", "s"),
        node("Gather", "s zero", "axes"),
        node("Cast", "r", "t", to=T.STRING),
        node("Cast", "t", "u", to=T.FLOAT),
        node("Neg", "u", "v"),
        node("Unsqueeze", "v axes", "y"),
    ]
    proto = model(nodes, [tensor("x", T.FLOAT, 1, 3)], [tensor("y", T.FLOAT, 1, 1, 3)], {"zero": np.array([0])})
    program = agrees(proto, {"x": np.array([[1, -2, 3]], np.float32)})
    assert [part.inputs for part in program.parts if isinstance(part, CoreProgram)][-1][0].name == "u"
    assert len(program.parts) == 3
