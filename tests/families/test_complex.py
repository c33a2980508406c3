"""Complex numbers: what ONNX allows on them, which is moving, choosing and combining where scattered, on both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import node_model, reference

Array = np.ndarray[Any, Any]


def _ints(*values: Any) -> Array:
    return np.array(values, np.int64)


HELD: dict[str, Array] = {
    "i2": _ints(2, 1), "i1": _ints(1), "i4": _ints(4), "i03": _ints(0, 3), "swap": _ints(-1, 1), "pads": _ints(1, 0, 1, 2),
    "split": _ints(1, 3), "axis0": _ints(0), "places": _ints([0, 1, 0], [3, 0, 1]), "pairs": _ints([0, 1], [3, -1]),
    "rows": _ints([0], [0]), "lengths": _ints(1, 4, 2), "image": _ints(4, 3), "kernel": _ints(2, 2),
    "scales": np.array([2.0, 1.0], np.float32), "keep": np.array([True, False, True, True]), "depth": np.array(4),
    "reversed": _ints(-1), "end": _ints(-9), "zero": _ints(0), "flat": _ints(-1, 2),
}  # fmt: skip

# x is [4, 3], y is [2, 3], s is a scalar, mask is [4, 3] of bool; every node gives an output of the one model.
NODES: Sequence[tuple[str, list[str], dict[str, Any]]] = (
    ("Concat", ["x", "y"], {"axis": 0}),
    ("Expand", ["s", "i2"], {}),
    ("Flatten", ["x"], {"axis": 0}),
    ("Gather", ["x", "swap"], {"axis": 0}),
    ("GatherElements", ["x", "places"], {"axis": 0}),
    ("GatherND", ["x", "pairs"], {}),
    ("Identity", ["x"], {}),
    ("Where", ["mask", "x", "s"], {}),
    ("Compress", ["x", "keep"], {"axis": 0}),
    ("NonZero", ["x"], {}),
    ("Pad", ["x", "pads", "s"], {}),
    ("Reshape", ["x", "flat"], {}),
    ("ReverseSequence", ["x", "lengths"], {}),
    ("ScatterElements", ["x", "places", "y"], {}),
    ("ScatterElements", ["x", "places", "y"], {"reduction": "add"}),
    ("ScatterND", ["x", "rows", "y"], {"reduction": "mul"}),
    ("Shape", ["x"], {}),
    ("Size", ["x"], {}),
    ("Slice", ["x", "reversed", "end", "zero", "reversed"], {}),
    ("Squeeze", ["column"], {}),
    ("Tile", ["y", "i2"], {}),
    ("Transpose", ["x"], {}),
    ("Trilu", ["x"], {"upper": 0}),
    ("Unsqueeze", ["x", "i1"], {}),
    ("Constant", [], {"value": numpy_helper.from_array(np.array([[1 - 2j]], np.complex64))}),
    ("OneHot", ["swap", "depth", "onoff"], {"axis": 0}),
    ("Split", ["x", "split"], {"axis": 0}),
    ("CenterCropPad", ["y", "image"], {}),
)


def _complex(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def _model(dtype: type, dynamic: bool) -> tuple[onnx.ModelProto, dict[str, Array]]:
    rng = np.random.default_rng(0)
    feeds: dict[str, Array] = {name: _complex(rng, *shape) for name, shape in (("x", (4, 3)), ("y", (2, 3)), ("s", ()))}
    feeds = {name: value.astype(dtype) for name, value in feeds.items()}
    feeds["x"][1, 2] = 0
    feeds["mask"] = rng.random((4, 3)) < 0.5
    held = {"onoff": _complex(rng, 2).astype(dtype), "column": _complex(rng, 1, 3, 1).astype(dtype), **HELD}
    sizes = {3: "width"} if dynamic else {}
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), [sizes.get(size, size) for size in value.shape]
        )
        for name, value in feeds.items()
    ]
    nodes = [
        helper.make_node(op, names, [f"out{index}", f"more{index}"][: 1 + (op == "Split")], **attributes)
        for index, (op, names, attributes) in enumerate(NODES)
        if not (dynamic and op in _OF_KNOWN_WIDTH)
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for node in nodes for name in node.output]
    initializers = [numpy_helper.from_array(value, name) for name, value in held.items()]
    graph = helper.make_graph(nodes, "complex", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), feeds


_OF_KNOWN_WIDTH = {"ReverseSequence", "GatherElements", "ScatterElements"}


@pytest.mark.parametrize("dtype, dynamic", [(np.complex64, True), (np.complex128, False)])
def test_moving_and_choosing(dtype: type, dynamic: bool) -> None:
    model, feeds = _model(dtype, dynamic)
    wanted = ReferenceEvaluator(model).run(None, feeds)
    names = [f"{node.op_type}: {name}" for node in model.graph.node for name in node.output]
    program = convert(read(model))
    for way in (program.eager(), program.compile()):
        for node, result, want in zip(names, way.run(feeds), wanted, strict=True):
            assert result.dtype == want.dtype and result.shape == want.shape, node
            np.testing.assert_allclose(result, want, rtol=1e-5, err_msg=node)


def test_a_loop_and_a_sequence() -> None:
    x, y = "complex64[2]", "complex64[n, 2]"
    text = f"""<ir_version: 9, opset_import: ["": 18]> g ({x} a, int64 n) => ({y} rows, {x} last, {y} joined) {{
        go = Constant <value = bool {{1}}> ()
        last, rows = Loop (n, go, a) <body = b (int64 i, bool go, {x} v) => (bool on, {x} w, {x} row) {{
            on = Identity (go)
            two = Constant <value_ints = [2]> ()
            one = Constant <value_ints = [0, 1]> ()
            swap = Constant <value_ints = [1, 0]> ()
            w = Gather (v, swap)
            row = Identity (w)
        }}>
        pieces = SequenceConstruct (a, last)
        joined = ConcatFromSequence <axis = 0, new_axis = 1> (pieces)
    }}"""
    model = onnx.parser.parse_model(text)
    a = np.array([1 + 2j, 3 - 1j], np.complex64)
    program = convert(read(model))
    for way in (program.eager(), program.compile()):
        rows, last, joined = way.run([a, np.array(3)])
        np.testing.assert_array_equal(rows, [a[::-1], a, a[::-1]])
        np.testing.assert_array_equal(last, a[::-1])
        np.testing.assert_array_equal(joined, [a, a[::-1]])


def test_bits_of_a_complex_number() -> None:
    x = np.array([1 + 2j, -0.0 + 1e-45j, complex(np.inf, np.nan)], np.complex64)
    for source, to in ((x, TensorProto.DOUBLE), (x.view(np.int64), TensorProto.COMPLEX64)):
        program = convert(read(node_model("BitCast", [source], opset=26, to=to)))
        (result,) = program.compile().run([source])
        np.testing.assert_array_equal(result.view(np.int64), x.view(np.int64))


INTERPOLATED: list[tuple[str, list[Array | None], dict[str, Any]]] = [
    ("Resize", [None, np.array([1.0, 1.0, 1.5, 0.6], np.float32)], {"mode": "linear"}),
    ("GridSample", [np.linspace(-1.1, 1.1, 12, dtype=np.float32).reshape(1, 3, 2, 2)], {"mode": "cubic"}),
]


@pytest.mark.parametrize("op, others, attributes", INTERPOLATED)
def test_interpolation_by_parts(op: str, others: list[Array | None], attributes: dict[str, Any]) -> None:
    x = _complex(np.random.default_rng(0), 1, 2, 4, 5).astype(np.complex64)
    given = {f"in{index}": value for index, value in enumerate(others, 1) if value is not None}
    parts = [
        reference(node_model(op, [part, *others], opset=20, **attributes), {"in0": part, **given})[0]
        for part in (x.real.copy(), x.imag.copy())
    ]
    program = convert(read(node_model(op, [x, *others], opset=20, known=[2], dynamic=True, **attributes)))
    for way in (program.eager(), program.compile()):
        (result,) = way.run([x, *(value for name, value in given.items() if name != "in2")])
        np.testing.assert_allclose(result, parts[0] + 1j * parts[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "op, inputs, opset, attributes",
    [
        ("Unique", [np.zeros(3, np.complex64)], 11, {}),
        ("ScatterElements", [np.zeros(3, np.complex64), _ints(0), np.zeros(1, np.complex64)], 18, {"reduction": "max"}),
    ],
)
def test_there_is_no_order(op: str, inputs: list[Array | None], opset: int, attributes: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        convert(read(node_model(op, inputs, opset=opset, known=[1, 2], **attributes)))
    assert [finding.code for finding in refused.value.findings] == ["O2M-C003"]
