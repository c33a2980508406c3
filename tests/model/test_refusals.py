"""Every kind of broken model gives its own finding, never another exception."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

from onnx2torch_mlir.diagnostics import Refusal, Severity
from onnx2torch_mlir.model import expand_functions, read
from tests.model.builders import MY, const, external, function, graph, info, model, node, refer, tensor

A = onnx.AttributeProto


def findings_of(source: object, **options: object) -> list[tuple[str, str]]:
    with pytest.raises(Refusal) as caught:
        read(source, **options)  # type: ignore[arg-type]
    return [(f.code, f.reason) for f in caught.value.findings if f.severity is Severity.ERROR]


def with_attribute(**fields: object) -> onnx.ModelProto:
    call = node("LeakyRelu", "x", "y")
    call.attribute.append(A(**fields))
    return model([call])


def weighted(*initializers: T) -> onnx.ModelProto:
    return model([node("Add", "x w", "y")], initializers=initializers)


def branching(then: onnx.GraphProto, **more: object) -> onnx.ModelProto:
    other = graph([node("Neg", "x", "e")], outputs=[info("e")])
    flag = const("c", True, np.bool_)
    return model([node("If", "c", "y", then_branch=then, else_branch=other)], initializers=[flag], **more)  # type: ignore[arg-type]


def cleared(proto: onnx.ModelProto, field: str) -> onnx.ModelProto:
    proto.ClearField(field)
    return proto


def typed(proto: onnx.TypeProto) -> onnx.ModelProto:
    return model(inputs=[onnx.ValueInfoProto(name="x", type=proto)])


def called(*functions: onnx.FunctionProto, inputs: str = "x", outputs: str = "y") -> onnx.ModelProto:
    return model([node("F", inputs, outputs, domain="my")], functions=functions, opsets=MY)


RELU = [node("Relu", "a", "b")]
SELF = [node("F", "a", "b", domain="my")]
SUB_LOOP = graph([node("Neg", "p", "q"), node("Neg", "q", "p")], outputs=[info("p")])
SUB_SHADOW = graph([node("Neg", "y0", "t"), node("Neg", "x", "y0"), node("Add", "t y0", "u")], outputs=[info("u")])

MODELS: dict[str, tuple[str, str, Callable[[], onnx.ModelProto]]] = {
    "no graph": ("O2M-R005", "no graph", lambda: cleared(model(), "graph")),
    "no outputs": ("O2M-R005", "no outputs", lambda: model(outputs=[])),
    "no IR version": ("O2M-R006", "no IR version", lambda: cleared(model(), "ir_version")),
    "newer IR version": ("O2M-R006", "IR version 99", lambda: model(ir_version=99)),
    "negative IR version": ("O2M-R006", "IR version -1", lambda: model(ir_version=-1)),
    "no opset": ("O2M-R007", "imports no opset", lambda: model(opsets=[])),
    "unimported": ("O2M-R007", "'weird'", lambda: model([node("Relu", "x", "y", domain="weird")])),
    "unimported function": (
        "O2M-R007", "'my'",
        lambda: model([node("F", "x", "y", domain="my")], functions=[function("F", "a", "b", RELU)]),
    ),
    "newer opset": ("O2M-R008", "version 9999 of ai.onnx", lambda: model(opsets=[("", 9999)])),
    "opset 0": ("O2M-R008", "version 0 of ai.onnx", lambda: model(opsets=[("", 0)])),
    "newer ml opset": ("O2M-R008", "version 77 of ai.onnx.ml", lambda: model(opsets=[("", 17), ("ai.onnx.ml", 77)])),
    "circle": ("O2M-R009", "needs the one before", lambda: model([node("Add", "x z", "y"), node("Neg", "y", "z")])),
    "self loop": ("O2M-R009", "needs the one before", lambda: model([node("Add", "x y", "y")])),
    "circle in a branch": ("O2M-R009", "needs the one before", lambda: branching(SUB_LOOP)),
    "circle through a capture": (
        "O2M-R009", "needs the one before",
        lambda: branching(graph([node("Neg", "y", "t")], outputs=[info("t")])),
    ),
    "circle in a function": (
        "O2M-R009", "needs the one before",
        lambda: called(function("F", "a", "b", [node("Add", "a c", "b"), node("Neg", "b", "c")])),
    ),
    "dangling input": ("O2M-R010", "'nope'", lambda: model([node("Add", "x nope", "y")])),
    "dangling output": ("O2M-R010", "output 'nope'", lambda: model(outputs=[info("y"), info("nope")])),
    "dangling in a branch": ("O2M-R010", "'q'", lambda: branching(graph([node("Neg", "q", "t")], outputs=[info("t")]))),
    "dangling output of a branch": ("O2M-R010", "output 'q'", lambda: branching(graph([], outputs=[info("q")]))),
    "branch's value used outside": (
        "O2M-R010", "'t'",
        lambda: branching(graph([node("Neg", "x", "t")], outputs=[info("t")]), outputs=[info("y"), info("t")]),
    ),
    "dangling in a function": ("O2M-R010", "'x'", lambda: called(function("F", "a", "b", [node("Neg", "x", "b")]))),
    "two producers": ("O2M-R011", "'y'", lambda: model([node("Relu", "x", "y"), node("Neg", "x", "y")])),
    "one node twice": ("O2M-R011", "'y'", lambda: model([node("Split", "x", "y y")])),
    "two inputs": ("O2M-R011", "two inputs", lambda: model(inputs=[info("x"), info("x")])),
    "output is an input": ("O2M-R011", "'x'", lambda: model([node("Relu", "x", "x"), node("Relu", "x", "y")])),
    "output is an initializer": ("O2M-R011", "'y'", lambda: model(initializers=[const("y", [1, 2])])),
    "redefined after use": (
        "O2M-R011", "redefines",
        lambda: model(
            [node("Neg", "x", "y0"), *branching(SUB_SHADOW).graph.node], initializers=[const("c", True, np.bool_)]
        ),
    ),
    "raw data too short": ("O2M-R015", "needs 8 bytes", lambda: weighted(tensor(raw_data=b"1234"))),
    "raw data too long": ("O2M-R015", "needs 8 bytes", lambda: weighted(tensor(raw_data=b"1" * 9))),
    "large raw data too short": ("O2M-R015", "ask for", lambda: weighted(tensor(dims=[4000], raw_data=b"1" * 15999))),
    "odd int4": ("O2M-R015", "needs 2 bytes", lambda: weighted(tensor(data_type=T.INT4, dims=[3], raw_data=b"1"))),
    "too many floats": ("O2M-R015", "it has 3", lambda: weighted(tensor(float_data=[1, 2, 3]))),
    "large float data": ("O2M-R015", "ask for", lambda: weighted(tensor(dims=[3], float_data=[0.0] * 5000))),
    "wrong field": ("O2M-R015", "cannot be stored in", lambda: weighted(tensor(int64_data=[1, 2]))),
    "no data": ("O2M-R015", "it has 0", lambda: weighted(tensor())),
    "two data": ("O2M-R015", "and in", lambda: weighted(tensor(float_data=[1, 2], raw_data=b"12345678"))),
    "negative size": ("O2M-R015", "negative size", lambda: weighted(tensor(dims=[-2], float_data=[1, 2]))),
    "huge shape": ("O2M-R015", "needs", lambda: weighted(tensor(dims=[1 << 40, 1 << 40], float_data=[1]))),
    "raw strings": ("O2M-R015", "Strings cannot", lambda: weighted(tensor(data_type=T.STRING, raw_data=b"ab"))),
    "segments": (
        "O2M-R015", "segments", lambda: weighted(tensor(segment=T.Segment(begin=0, end=1), float_data=[1, 2])),
    ),
    "bad constant": ("O2M-R015", "'value'", lambda: model([node("Constant", "", "y", value=tensor(raw_data=b"1"))])),
    "input of another type": (
        "O2M-R015", "different element types",
        lambda: model(inputs=[info("x"), info("w", (2,), T.INT8)], initializers=[const("w", [1, 2])]),
    ),
    "bad tensor in a branch": (
        "O2M-R015", "needs 8 bytes",
        lambda: branching(graph([node("Add", "x k", "t")], [], [info("t")], [tensor("k", raw_data=b"1")])),
    ),
    "sparse does not fit": (
        "O2M-R015", "do not fit together",
        lambda: model([node("Constant", "", "y", sparse_value=helper.make_sparse_tensor(
            const("v", [1.0, 2.0]), const("i", [[0, 0, 0]], np.int64), [3]))]),
    ),
    "unknown element type": ("O2M-R016", "99", lambda: weighted(tensor(data_type=99, raw_data=b"12345678"))),
    "no element type": ("O2M-R016", "no element type", lambda: weighted(tensor(data_type=0, raw_data=b"12345678"))),
    "unknown type of an input": ("O2M-R016", "77", lambda: typed(helper.make_tensor_type_proto(77, [1]))),
    "unknown type in a sequence": (
        "O2M-R016", "77", lambda: typed(helper.make_sequence_type_proto(helper.make_tensor_type_proto(77, [1]))),
    ),
    "attribute without value": ("O2M-R017", "neither", lambda: with_attribute(name="alpha")),
    "attribute without name": ("O2M-R017", "no name", lambda: with_attribute(f=1.0, type=A.FLOAT)),
    "attribute of other type": ("O2M-R017", "in the field i", lambda: with_attribute(name="alpha", i=1, type=A.FLOAT)),
    "attribute with two values": ("O2M-R017", "2 values", lambda: with_attribute(name="a", i=1, f=1.0, type=A.FLOAT)),
    "tensor attribute without one": ("O2M-R017", "no value", lambda: with_attribute(name="alpha", type=A.TENSOR)),
    "reference outside": ("O2M-R017", "in no function", lambda: model([refer(node("Elu", "x", "y"), "alpha", "p")])),
    "reference to nothing": (
        "O2M-R017", "no attribute of the function",
        lambda: called(function("F", "a", "b", [refer(node("Elu", "a", "b"), "alpha", "p")])),
    ),
    "attribute twice": (
        "O2M-R017", "more than once",
        lambda: model([refer(node("Elu", "x", "y", alpha=1.0), "alpha", "p")]),
    ),
    "sparse attribute": (
        "O2M-R017", "only Constant",
        lambda: model([node("Relu", "x", "y", s=helper.make_sparse_tensor(
            const("v", [1.0]), const("i", [0], np.int64), [3]))]),
    ),
    "recursive function": ("O2M-R018", "circle", lambda: called(function("F", "a", "b", SELF))),
    "mutual recursion": (
        "O2M-R018", "circle",
        lambda: called(function("F", "a", "b", [node("G", "a", "b", domain="my")]), function("G", "a", "b", SELF)),
    ),
    "function twice": ("O2M-R018", "defined twice", lambda: called(*[function("F", "a", "b", RELU)] * 2)),
    "function without name": ("O2M-R018", "no name", lambda: called(function("", "a", "b", RELU))),
    "function without result": ("O2M-R018", "produces its output 'c'", lambda: called(function("F", "a", "c", RELU))),
    "formal inputs alike": ("O2M-R018", "inputs have one name", lambda: called(function("F", "a a", "b", RELU))),
    "too many arguments": ("O2M-R018", "with 2 inputs", lambda: called(function("F", "a", "b", RELU), inputs="x x")),
    "too many results": ("O2M-R018", "and 2 outputs", lambda: called(function("F", "a", "b", RELU), outputs="y z")),
    "input without name": ("O2M-R019", "no name", lambda: model(inputs=[info("x"), info("")])),
    "output without name": ("O2M-R019", "no name", lambda: model(outputs=[info("y"), info("")])),
    "input without type": ("O2M-R019", "no usable type", lambda: typed(onnx.TypeProto())),
    "input without element type": ("O2M-R019", "no usable type", lambda: typed(helper.make_tensor_type_proto(0, [1]))),
    "sequence of nothing": (
        "O2M-R019", "no usable type", lambda: typed(helper.make_sequence_type_proto(onnx.TypeProto())),
    ),
    "no operator": ("O2M-R021", "no operator", lambda: model([node("", "x", "y")])),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_broken_models(name: str, tmp_path: Path) -> None:
    code, words, build = MODELS[name]
    proto = build()
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for source in (proto, path):
        found = findings_of(source)
        assert any(c == code and words in reason for c, reason in found), found


def test_all_findings_at_once() -> None:
    proto = model(
        [node("Add", "x nope", "y"), node("Neg", "x", "y"), node("", "x", "z")],
        initializers=[tensor(raw_data=b"1")],
        ir_version=99,
        outputs=[info("y"), info("gone")],
    )
    codes = {code for code, _ in findings_of(proto)}
    assert codes == {"O2M-R006", "O2M-R010", "O2M-R011", "O2M-R015", "O2M-R021"}


def test_findings_name_the_node_and_its_place() -> None:
    then = graph([node("Neg", "q", "t", name="inner")], outputs=[info("t")])
    proto = branching(then)
    proto.graph.node[0].name = "choice"
    with pytest.raises(Refusal) as caught:
        read(proto)
    place = caught.value.findings[0].node
    assert place is not None
    assert (place.name, place.op_type, place.since_version, place.place, place.index) == (
        "inner", "Neg", 13, "main/choice.then_branch", 0,
    )  # fmt: skip


GOOD = model().SerializeToString()
FILES: dict[str, tuple[str, bytes]] = {
    "empty": ("O2M-R002", b""),
    "text": ("O2M-R003", b"Hello, this is not a model at all.\n"),
    "json": ("O2M-R003", b'{"graph": {}}'),
    "html": ("O2M-R003", b"<!DOCTYPE html><html></html>"),
    "zip": ("O2M-R003", b"PK\x03\x04\x00\x00\x08\x08\x00\x00archive/data.pkl"),
    "pickle": ("O2M-R003", b"\x80\x02}q\x00X\x04\x00\x00\x00"),
    "lfs pointer": ("O2M-R003", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
    "zeros": ("O2M-R003", b"\x00" * 64),
    "ones": ("O2M-R003", b"\xff" * 64),
    "random": ("O2M-R003", np.random.default_rng(0).bytes(500)),
    "half": ("O2M-R004", GOOD[: len(GOOD) // 2]),
    "one byte short": ("O2M-R004", GOOD[:-1]),
    "trailing rubbish": ("O2M-R004", GOOD + b"\xff\xff\xff"),
    "bad inside": ("O2M-R004", GOOD.replace(b"\x0a\x01x", b"\x0a\x7fx", 1)),
    "not utf-8": ("O2M-R004", GOOD.replace(b"Relu", b"\xff\xfe\xfd\xfc")),
}


@pytest.mark.parametrize("name", FILES)
def test_broken_files(name: str, tmp_path: Path) -> None:
    code, data = FILES[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert {found[0] for found in findings_of(path)} == {code}
    assert {found[0] for found in findings_of(data)} == {code}


def test_hints_name_what_the_file_looks_like(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as caught:
        read(FILES["zip"][1])
    assert "zip" in caught.value.findings[0].hint


def test_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent.onnx", tmp_path, tmp_path / "pipe", "nul\0byte", "x" * 5000, ""):
        assert [code for code, _ in findings_of(path)] == ["O2M-R001"]


def test_other_types() -> None:
    with pytest.raises(TypeError, match="not int"):
        read(3)  # type: ignore[arg-type]


EXTERNAL: dict[str, tuple[str, T]] = {
    "no location": ("O2M-R012", external()),
    "missing file": ("O2M-R012", external(location="gone.bin")),
    "directory": ("O2M-R012", external(location="sub")),
    "pipe": ("O2M-R012", external(location="pipe")),
    "memory address": ("O2M-R012", external(location="*/_ORT_MEM_ADDR_/*", offset=4096)),
    "nul byte": ("O2M-R012", external(location="a\0b")),
    "beyond the end": ("O2M-R013", external(location="w.bin", offset=12)),
    "offset far out": ("O2M-R013", external(location="w.bin", offset=1 << 62)),
    "negative offset": ("O2M-R013", external(location="w.bin", offset=-4)),
    "negative length": ("O2M-R013", external(location="w.bin", length=-8)),
    "length too long": ("O2M-R013", external(location="w.bin", length=12)),
    "length too short": ("O2M-R013", external(location="w.bin", length=4)),
    "no number": ("O2M-R013", external(location="w.bin", offset="four")),
    "larger than the file": ("O2M-R013", external(location="w.bin", dims=[5])),
    "empty file": ("O2M-R013", external(location="empty.bin")),
    "absolute": ("O2M-R014", external(location="/etc/hostname")),
    "windows absolute": ("O2M-R014", external(location="C:\\w.bin")),
    "climbing": ("O2M-R014", external(location="../secret.bin")),
    "climbing later": ("O2M-R014", external(location="sub/../../secret.bin")),
    "climbing by backslash": ("O2M-R014", external(location="..\\secret.bin")),
    "link out": ("O2M-R014", external(location="link.bin")),
    "folder link out": ("O2M-R014", external(location="up/secret.bin")),
    "strings": ("O2M-R015", external(location="w.bin", data_type=T.STRING)),
}


def external_folder(tmp_path: Path) -> Path:
    """A model's folder with files, links and traps for external data; gives the model's path."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(b"12345678")
    (folder / "w.bin").write_bytes(b"0123456789abcdef")
    (folder / "empty.bin").write_bytes(b"")
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    return folder / "m.onnx"


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data(name: str, tmp_path: Path) -> None:
    code, weight = EXTERNAL[name]
    path = external_folder(tmp_path)
    for proto in (weighted(weight), model([node("Constant", "", "y", value=weight)])):
        path.write_bytes(proto.SerializeToString())
        assert {found[0] for found in findings_of(path)} == {code}


def test_external_data_of_a_model_without_a_folder() -> None:
    assert [code for code, _ in findings_of(weighted(external(location="w.bin")))] == ["O2M-R012"]


def test_a_result_that_is_an_absent_input() -> None:
    proto = called(function("F", "a opt", "b opt", RELU), outputs="y z")
    with pytest.raises(Refusal, match="O2M-R018"):
        expand_functions(read(proto))
