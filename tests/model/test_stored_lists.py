"""Long list attributes that stay in the model's bytes, against what protobuf reads."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import StoredList, expand_functions, read
from onnx2torch_mlir.model.stored_lists import _PART
from tests import resident
from tests.model.builders import MY, function, info, model, node, refer

A = onnx.AttributeProto
INTS = [0, 1, 63, 64, 127, 128, 2**14 - 1, 2**14, 2**31, -1, 2**63 - 1, -(2**63)]
LISTS: dict[str, list[Any]] = {
    "ints": INTS * 5000,
    "small": [0x40] * 70_000,
    "floats": [0.5, -1.0, float("inf"), 2.0**-149, np.finfo(np.float32).max.item()] * 4000,
    "strings": ["", "LEAF", "J\x04LEAF", "x" * 31] * 9000,
}


def tree(**lists: Any) -> onnx.ModelProto:
    return model([node("Tree", "x", "y", domain="my", **lists)], inputs=[info("x", ["n"])], opsets=MY)


def attributes(source: onnx.ModelProto | Path) -> dict[str, ir.Attr]:
    return dict(read(source).ir.graph[0].attributes)


@pytest.mark.parametrize("name", LISTS)
def test_elements_are_those_of_protobuf(name: str, tmp_path: Path) -> None:
    proto, expected = tree(**LISTS), LISTS[name]
    onnx.save(proto, tmp_path / "model.onnx")
    for source in (proto, proto.SerializeToString(), tmp_path / "model.onnx"):
        attribute = read(source).ir.graph[0].attributes[name]
        held = attribute.value
        assert isinstance(held, StoredList)
        assert len(held._data) > _PART
        assert len(held) == len(expected)
        assert list(held) == expected == list(held)
        assert held[7] == expected[7]
        assert held[-9:] == expected[-9:]
        assert {type(item) for item in held} == {type(item) for item in expected}
        np.testing.assert_array_equal(np.asarray(held), np.array(expected))
        assert ir.serde.serialize_attribute(attribute) == helper.make_attribute(name, expected)
    assert (np.asarray(held).dtype.kind, np.asarray(held, object).dtype) == (np.array(expected).dtype.kind, object)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what is in memory")
@pytest.mark.parametrize("name", ["ints", "floats"])
def test_what_was_taken_from_the_file_leaves_memory(name: str, tmp_path: Path) -> None:
    onnx.save(tree(**LISTS), tmp_path / "model.onnx")
    held = attributes(tmp_path / "model.onnx")[name].value
    assert resident.of_file(tmp_path / "model.onnx") == 0
    elements = np.frombuffer(held._data, np.uint8)
    assert elements.any()
    assert resident.of_file(tmp_path / "model.onnx") >= elements.nbytes
    found = np.asarray(held)
    assert resident.of_file(tmp_path / "model.onnx") == 0
    np.testing.assert_array_equal(found, np.array(LISTS[name]))
    assert list(held) == LISTS[name]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300), min_size=1), st.floats(width=32, allow_nan=False))
def test_any_numbers(ints: list[int], number: float) -> None:
    found = attributes(tree(ints=ints * 4200, floats=[number] * 900))
    assert list(found["ints"].value) == ints * 4200
    assert list(found["floats"].value) == [number] * 900
    assert all(isinstance(found[name].value, StoredList) for name in found)


def test_a_model_that_was_read_can_be_read_again() -> None:
    proto = tree(**LISTS)
    again = read(read(proto).ir)
    assert all(list(again.ir.graph[0].attributes[name].value) == LISTS[name] for name in LISTS)
    assert ir.serde.serialize_model(read(proto).ir).graph.node[0].attribute == proto.graph.node[0].attribute


@pytest.mark.parametrize(
    "attribute",
    [
        A(name="a", type=A.INTS, ints=range(100)),
        A(name="a", type=A.STRINGS, strings=[b"short"] * 999 + [b"l" * 32] + [b"short"] * 999),
        A(name="a", type=A.STRINGS, strings=["größer".encode()] * 999),
        A(name="a", ints=range(9999)),
    ],
    ids=["short", "with a long string", "not ASCII", "without a type"],
)
def test_others_are_tuples(attribute: A) -> None:
    proto = tree()
    proto.graph.node[0].attribute.append(attribute)
    held = attributes(proto)["a"]
    assert isinstance(held.value, tuple)
    assert ir.serde.serialize_attribute(held).ints == attribute.ints
    assert ir.serde.serialize_attribute(held).strings == attribute.strings


@pytest.mark.parametrize(
    "attribute",
    [
        A(name="a", type=A.INTS, ints=range(9999), f=1.0),
        A(name="a", type=A.INTS, ints=range(9999), floats=[1.0] * 9999),
        A(name="a", type=A.FLOATS, ints=range(9999)),
        A(name="a", type=A.INTS, ints=range(9999), ref_attr_name="b"),
        A(type=A.INTS, ints=range(9999)),
        A(name="a", type=A.STRINGS, strings=[b"\xff"] * 9999),
    ],
    ids=["a number too", "two lists", "of another type", "a reference too", "without a name", "no text"],
)
def test_what_is_wrong_with_them_is_told(attribute: A) -> None:
    proto = tree()
    proto.graph.node[0].attribute.append(attribute)
    with pytest.raises(Refusal, match=r"O2M-R0(17|04)"):
        read(proto)


def test_lists_of_functions() -> None:
    inner = refer(node("Tree", "a", "b", domain="my"), "ints", "of")
    inner.attribute[0].type = A.INTS
    held = function("F", "a", "b", [inner], attribute_protos=[helper.make_attribute("of", LISTS["ints"])])
    proto = model([node("F", "x", "y", domain="my")], inputs=[info("x", ["n"])], functions=[held], opsets=MY)
    loaded = expand_functions(read(proto))
    assert list(loaded.ir.graph[0].attributes["ints"].value) == LISTS["ints"]


def test_reading_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(tree(ints=list(range(1000, 400_000)), strings=["BRANCH_LEQ"] * 400_000), path)
    read(path)
    tracemalloc.start()
    try:
        loaded = read(path)
        assert tracemalloc.get_traced_memory()[1] < 500_000
        ints, strings = (loaded.ir.graph[0].attributes[name].value for name in ("ints", "strings"))
        assert np.asarray(ints).sum() == sum(range(1000, 400_000))
        assert sum(map(len, strings)) == 4_000_000
        assert tracemalloc.get_traced_memory()[1] < 8 * 400_000 + 5_000_000
    finally:
        tracemalloc.stop()
