"""Pools whose windows go by one dim after the other: the same numbers as with all at once, and which do."""

import itertools

import numpy as np
import pytest
from onnx import parser

import onnx2torch_mlir as o2m
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import separate_windows
from onnx2torch_mlir.engine.compiler.walks import nested
from onnx2torch_mlir.engine.compiler.window_lines import WindowLine

CASES = {
    "stride 2": ((2, 3, 13, 18), "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"),
    "stride 1": ((1, 5, 9, 35), "kernel_shape = [3, 3], pads = [1, 1, 1, 1]"),
    "no padding": ((1, 2, 20, 17), "kernel_shape = [5, 3], strides = [3, 1]"),
    "one side": ((1, 2, 8, 21), "kernel_shape = [4, 5], strides = [1, 2], pads = [0, 3, 2, 0]"),
    "apart": ((1, 2, 11, 19), "kernel_shape = [3, 3], dilations = [2, 3], pads = [2, 1, 2, 3]"),
    "larger than the image": ((1, 3, 2, 3), "kernel_shape = [5, 5], pads = [2, 2, 2, 2]"),
    "rounded up": ((1, 2, 10, 12), "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1"),
    "one column": ((1, 2, 9, 3), "kernel_shape = [3, 3], strides = [2, 2]"),
    "gaps": ((1, 2, 17, 23), "kernel_shape = [3, 3], strides = [4, 5], pads = [1, 0, 0, 1]"),
}


def model_of(op, shape, attributes, type_="float", before="x", text=""):
    given = ",".join(map(str, shape))
    graph = f"g ({type_}[{given}] x) => ({type_}[a,b,c,d] y) {{ {text} y = {op} <{attributes}> ({before}) }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 19]> {graph}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def separated(model):
    """How many nests with reductions a model's pools have before, and after."""
    program = convert(read(model)).lowered
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(program.bytecode)
        counts = []
        for _ in range(2):
            counts.append(sum("reduction" in str(o.attributes["iterator_types"]) for o in generics(module)))
            separate_windows.separate(module)
            assert module.operation.verify()
        return counts


def generics(module):
    return [operation for operation in nested(module.operation) if operation.name == "linalg.generic"]
TOLERANCE = {"MaxPool": {}, "AveragePool": {"rtol": 1e-5, "atol": 1e-6}}


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch", ["known", "open"])
@pytest.mark.parametrize("threads", [1, 2])
def test_same_numbers(name, op, batch, threads, monkeypatch):
    shape, attributes = CASES[name]
    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    model = model_of(op, shape if batch == "known" else ("n", *shape[1:]), attributes)
    code = o2m.compile(model, threads=threads)
    code.worth = 1
    found = code.run([x])[0]
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "all")
    plain = o2m.compile(model).run([x])[0]
    assert found.shape == plain.shape
    (np.testing.assert_array_equal if op == "MaxPool" else np.testing.assert_allclose)(found, plain, **TOLERANCE[op])


@pytest.mark.parametrize("attributes", ["strides = [2, 2]", "strides = [1, 1]", "strides = [2, 1]", "strides = [1, 3]"])
@pytest.mark.parametrize("type_", ["float", "double", "float16", "int8", "uint8"])
def test_extremes_by_definition(type_, attributes):
    """Infinities and NaN too, which wins wherever it is in a window."""
    rng = np.random.default_rng(0)
    x = rng.permutation(2 * 3 * 14 * 19).reshape(2, 3, 14, 19).astype({"float": "f4", "double": "f8"}.get(type_, type_))
    if x.dtype.kind == "f":
        x = x / 100 - 4
        spots = rng.integers(0, x.size, (3, 9))
        for numbers, special in zip(spots, (np.nan, np.inf, -np.inf), strict=True):
            x.reshape(-1)[numbers] = special
        x[0, 0] = -np.inf
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padded = np.pad(x, ((0, 0), (0, 0), (2, 1), (1, 2)), constant_values=lowest)
    down, along = (int(text) for text in attributes.split("[")[1].rstrip("]").split(","))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (4, 3), (2, 3))[:, :, ::down, ::along]
    with np.errstate(invalid="ignore"):
        expected = windows.max((4, 5))
    code = o2m.compile(model_of("MaxPool", x.shape, f"kernel_shape = [4, 3], pads = [2, 1, 1, 2], {attributes}", type_))
    np.testing.assert_array_equal(code.run([x])[0], expected)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_between_other_nests(op):
    x = np.random.default_rng(0).standard_normal((2, 3, 12, 21)).astype("f")
    text = "n = Neg(x)\n q = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (n)\n s = Add(n, q)\n"
    code = o2m.compile(model_of(op, x.shape, "kernel_shape = [3, 3], strides = [2, 2]", before="s", text=text))
    padded = np.pad(-x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    total = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).max((4, 5)) - x
    windows = np.lib.stride_tricks.sliding_window_view(total, (3, 3), (2, 3))[:, :, ::2, ::2]
    expected = windows.max((4, 5)) if op == "MaxPool" else windows.mean((4, 5))
    np.testing.assert_allclose(code.run([x])[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "after"),
    [
        ("MaxPool", (1, 2, 9, 40), "kernel_shape = [3, 3], strides = [2, 2]", 0),
        ("MaxPool", ("n", 2, 9, 40), "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]", 0),
        ("MaxPool", (1, 2, 9, 40), "kernel_shape = [3, 3]", 1),
        ("AveragePool", (1, 2, 9, 40), "kernel_shape = [3, 3]", 0),
        ("MaxPool", (1, 2, 9, 40), "kernel_shape = [2, 2]", 1),
        ("MaxPool", (1, 2, 9, "w"), "kernel_shape = [3, 3], strides = [2, 2]", 1),
        ("MaxPool", (1, 2, 40, 40), "kernel_shape = [17, 3], strides = [2, 2]", 1),
    ],
)
def test_which_are_separated(op, shape, attributes, after):
    assert separated(model_of(op, shape, attributes)) == [1, after]


def test_rows_at_the_border():
    """Windows that have the same rows of the image stand together."""
    line = WindowLine(size=5, count=5, taps=3, stride=1, dilation=1, low=1)
    borders = line.borders()
    assert borders == [(0, 1, (1, 2)), (1, 4, (0, 1, 2)), (4, 5, (0, 1))]
    for start, end, taps in borders:
        assert all(0 <= line.position(place, tap) < 5 for place, tap in itertools.product(range(start, end), taps))
