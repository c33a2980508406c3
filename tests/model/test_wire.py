"""The wire scanner against protobuf itself, and damaged models against everything."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto as T
from onnx import helper

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import expand_functions, read
from onnx2torch_mlir.model.wire import WireError, _Slimmer, slim
from tests.model.builders import MY, const, external, function, graph, info, model, node, refer, tensor


def rich() -> onnx.ModelProto:
    """A model with something of everything."""
    then = graph([node("Add", "x b", "t")], outputs=[info("t")], initializers=[const("b", np.arange(2))])
    inner = refer(node("LeakyRelu", "a", "b", doc_string="why"), "alpha", "slope")
    held = function("F", "a", "b", [inner], attribute_protos=[helper.make_attribute("slope", 0.25)])
    proto = model(
        [
            node("Constant", "", "k", value=const("", [1, 2])), node("Add", "x k", "s"),
            node("If", "c", "u", then_branch=then, else_branch=then), node("F", "u", "v", domain="my"),
            node("Sum", "s v w h", "y"), node("Constant", "", "z", value_ints=[1, 2], name="ints"),
        ],
        inputs=[info("x", ["n"])], functions=[held], opsets=MY,
        initializers=[
            const("c", True, np.bool_), const("w", [1, 2]), tensor("h", dims=[2], float_data=[1, 2]),
            tensor("q", T.INT4, [3], int32_data=[1, 2]), tensor("t8", T.STRING, [1], string_data=[b"s"]),
        ],
    )  # fmt: skip
    proto.graph.value_info.append(info("s", [2]))
    proto.metadata_props.add(key="k", value="v")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(const("sp", [3.0]), const("", [1], np.int64), [2]))
    return proto


RICH = rich().SerializeToString()
PLAIN = model(
    [node("Add", "x w", "y")], initializers=[external(location="w.bin", offset=0, length=8)]
).SerializeToString()


def survives(data: bytes) -> None:
    try:
        loaded = read(data)
    except Refusal as refusal:
        assert refusal.findings
        return
    try:
        expand_functions(loaded)
    except Refusal as refusal:
        assert refusal.findings


def test_the_rich_model_is_good() -> None:
    assert {f.code for f in read(RICH).findings} == set()
    with pytest.raises(Refusal, match="O2M-R012"):
        read(PLAIN)


def test_small_models_are_copied_byte_for_byte() -> None:
    assert slim(memoryview(RICH), "m")[0] == RICH


@pytest.mark.parametrize("threshold", [1, 5, 100])
def test_contents_left_behind_are_found_again(threshold: int) -> None:
    copy = onnx.ModelProto.FromString(slim(memoryview(RICH), "m", threshold)[0])
    original = onnx.ModelProto.FromString(RICH)

    def restore(proto: T) -> None:
        entries = {entry.key: entry.value for entry in proto.external_data}
        if entries.get("location") == "m":
            offset, length = int(entries["offset"]), int(entries["length"])
            data = RICH[offset : offset + length]
            proto.ClearField("external_data")
            proto.ClearField("data_location")
            if proto.name == "h":
                proto.float_data.extend(np.frombuffer(data, np.float32))
            else:
                proto.raw_data = data

    for proto in copy.graph.initializer:
        restore(proto)
    for sparse in copy.graph.sparse_initializer:
        restore(sparse.values)
        restore(sparse.indices)
    for call in copy.graph.node:
        for attribute in call.attribute:
            if attribute.HasField("t"):
                restore(attribute.t)
            if attribute.doc_string.startswith("m:"):
                start, stop = map(int, attribute.doc_string.split(":")[1:])
                attribute.MergeFromString(RICH[start:stop])
                attribute.ClearField("doc_string")
            for weight in attribute.g.initializer if attribute.HasField("g") else ():
                restore(weight)
    assert copy == original
    if threshold == 1:
        assert len(slim(memoryview(RICH), "m", 1)[0]) != len(RICH)


def test_messages_nested_without_end() -> None:
    data = b""
    for _ in range(3000):  # a graph in an attribute of a node of a graph ...
        for number in (6, 5, 1):
            length = len(data)
            encoded = bytearray()
            while length > 0x7F:
                encoded.append(length & 0x7F | 0x80)
                length >>= 7
            data = bytes([number << 3 | 2, *encoded, length]) + data
    head = b"\x08\x0a"
    survives(head + data)
    with pytest.raises(WireError):
        slim(memoryview(b"\x3a" + b"\xff" * 12), "m")


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([RICH, PLAIN]), st.data())
def test_flipped_bytes(model_bytes: bytes, data: st.DataObject) -> None:
    damaged = bytearray(model_bytes)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(damaged))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(RICH)), st.integers(0, 12), st.binary(max_size=12))
def test_truncated_cut_and_spliced(at: int, cut: int, insert: bytes) -> None:
    survives(RICH[:at])
    survives(RICH[:at] + insert + RICH[at + cut :])


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    survives(data)
    survives(b"\x08\x0a" + data)
    try:
        slim(memoryview(data), "m", 1)
    except WireError as error:
        assert 0 <= error.offset <= len(data)


def test_many_elements_are_stepped_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"ints": [-1, 0, 2**40, 127, 128] * 2000, "floats": [0.5, -1.0] * 5000}
    many["strings"] = ["", "BRANCH_LEQ", "x" * 31, "y" * 200] * 9
    proto = model([node("Tree", "x", "y", domain="my", **many)], inputs=[info("x", ["n"])], opsets=MY)
    proto.graph.node[0].attribute.append(helper.make_attribute("value", const("v", np.arange(9000))))
    data = proto.SerializeToString()
    steps: list[int] = []
    plain = _Slimmer.field_at
    monkeypatch.setattr(_Slimmer, "field_at", lambda self, at, end: steps.append(at) or plain(self, at, end))
    copy = onnx.ModelProto.FromString(slim(memoryview(data), "m")[0])
    assert len(steps) < 400
    floats, ints, strings, value = copy.graph.node[0].attribute
    assert strings == proto.graph.node[0].attribute[2]
    for left, name in ((ints, "ints"), (floats, "floats")):
        start, stop = map(int, left.doc_string.removeprefix("m:").split(":"))
        assert not getattr(left, name)
        assert list(getattr(onnx.AttributeProto.FromString(data[start:stop]), name)) == many[name]
    assert value.t.external_data[1].key == "offset"
