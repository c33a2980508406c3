"""Passes over rows as vectors: every width of a row, every type of element, every width of a vector, NaN included."""

import numpy as np
import pytest
from onnx import parser

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import reference

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import kernels, row_loops, task, vector_unit
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.engine import Engine
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.options import Options

UNITS = {
    "16 lanes": VectorUnit(16, 32),
    "8 lanes": VectorUnit(8, 16),
    "4 lanes": VectorUnit(4, 16),
    "1 register": VectorUnit(4, 1),
}

BODIES = {
    "softmax": "y = Softmax<axis = -1>(x)",
    "log softmax": "y = LogSoftmax<axis = -1>(x)",
    "norm": (
        "a = Constant<value_ints = [-1]>()\n t = ReduceMean(x, a)\n c = Sub(x, t)\n q = Mul(c, c)\n v = ReduceMean(q, a)\n"
        " e = Sqrt(v)\n o = Constant<value_float = 0.5>()\n p = CastLike(o, x)\n z = Add(e, p)\n y = Div(c, z)"
    ),
    "powers": "a = Constant<value_ints = [-1]>()\n e = Exp(x)\n s = ReduceMean(e, a)\n d = Sub(x, s)\n y = Exp(d)",
    "extremes": (
        "a = Constant<value_ints = [-1]>()\n h = ReduceMax(x, a)\n l = ReduceMin(x, a)\n s = ReduceSum(x, a)\n"
        " r = Sub(h, l)\n o = Add(x, s)\n y = Mul(o, r)"
    ),
}


def model_of(text, kind, rows, columns):
    dims = f"{kind}[{rows}, {columns}]"
    return parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g ({dims} x) => ({dims} y) {{ {text} }}')


def results(model, feeds, monkeypatch, unit=None):
    """What the engine computes, and whether all its passes over rows are vectors."""
    if unit is not None:
        monkeypatch.setattr(vector_unit, "of_host", lambda: unit)
        monkeypatch.setattr(row_loops, "of_host", lambda: unit)
    texts = []
    outline = kernels.outline
    see = lambda module, loops: (texts.extend(loop.get_asm() for loop in loops), outline(module, loops))[1]  # noqa: E731
    monkeypatch.setattr(kernels, "outline", see)
    lowered = convert(read(model)).lowered
    entry = task.build(lowered.bytecode, Options(inputs=1))
    packings = [Packing(*fields) for fields in entry["packings"]]
    program = Engine(lowered, entry["object"], entry["messages"], packings, entry["derived"])
    by_vectors = [("vector.load" in text or "vector.maskedload" in text) for text in texts]
    return [program.run(feed)[0] for feed in feeds], by_vectors


@pytest.mark.parametrize("columns", [8, 15, 16, 17, 48, 63, 64, 65, 67, 80, 129, 200])
@pytest.mark.parametrize("body", BODIES)
def test_known_widths(body, columns, monkeypatch):
    model = model_of(BODIES[body], "float", 5, columns)
    x = (4 * np.random.default_rng(0).standard_normal((5, columns))).astype("f")
    (found,), by_vectors = results(model, [{"x": x}], monkeypatch)
    assert by_vectors == [True]
    np.testing.assert_allclose(found, reference(model, {"x": x})[0], rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("body", BODIES)
def test_open_widths_on_other_hosts(body, unit, monkeypatch):
    model = model_of(BODIES[body], "float", "n", "m")
    random = np.random.default_rng(0)
    shapes = [(3, 1), (2, 7), (4, 16), (1, 31), (3, 64), (2, 77), (5, 130), (2, 0), (0, 5)]
    feeds = [{"x": random.standard_normal(shape).astype("f")} for shape in shapes]
    found, by_vectors = results(model, feeds, monkeypatch, UNITS[unit])
    assert by_vectors == [True]
    for feed, one in zip(feeds, found, strict=True):
        if feed["x"].size:
            np.testing.assert_allclose(one, reference(model, feed)[0], rtol=2e-5, atol=2e-5)
        assert one.shape == feed["x"].shape


@pytest.mark.parametrize(("kind", "dtype"), [("float16", "f2"), ("double", "f8"), ("int32", "i4")])
@pytest.mark.parametrize("columns", ["m", 67])
@pytest.mark.parametrize("body", ["softmax", "extremes"])
def test_types(body, kind, dtype, columns, monkeypatch):
    if kind == "int32" and body == "softmax":
        body = "sums"
    text = BODIES.get(body, "a = Constant<value_ints = [-1]>()\n s = ReduceSum(x, a)\n y = Sub(x, s)")
    model = model_of(text, kind, "n", columns)
    x = (3 * np.random.default_rng(0).standard_normal((4, 67))).astype(dtype)
    (found,), seen = results(model, [{"x": x}], monkeypatch)
    expected = reference(model, {"x": x})[0]
    assert seen == [True]
    tolerance = {"f2": 2e-2, "f8": 1e-12, "i4": 0}[dtype]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("body", ["softmax", "log softmax"])
@pytest.mark.parametrize("columns", [40, 401, "m"])
def test_a_row_with_nan_is_nan(body, columns, monkeypatch):
    """Wherever it is, and whatever else is in the row; other rows are not touched."""
    width = columns if isinstance(columns, int) else 150
    model = model_of(BODIES[body], "float", 8, columns)
    x = np.random.default_rng(0).standard_normal((8, width)).astype("f")
    for row, place in enumerate([0, 1, width // 2, width - 2, width - 1]):
        x[row, place] = np.nan if row % 2 else -np.nan
    x[4, 3], x[5, 3], x[6, 0] = 1e38, -np.inf, 50
    (found,), by_vectors = results(model, [{"x": x}], monkeypatch)
    assert by_vectors == [True]
    assert np.isnan(found[:5]).all()
    np.testing.assert_allclose(found[5:], reference(model, {"x": x})[0][5:], rtol=2e-5, atol=1e-6)


def test_what_has_no_vectors_goes_element_by_element(monkeypatch):
    """Truth values are bits in vectors, and bytes in memory."""
    text = "a = Constant<value_float = 2.0>()\n m = Greater(x, a)\n w = Where(m, a, x)\n y = Softmax<axis = -1>(w)"
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 21]> g (float[n, 67] x) => (float[n, 67] y, bool[n, 67] m) {{ {text} }}'
    )
    x = (3 * np.random.default_rng(0).standard_normal((4, 67))).astype("f")
    (found,), by_vectors = results(model, [{"x": x}], monkeypatch)
    assert len(by_vectors) == 1
    np.testing.assert_allclose(found, reference(model, {"x": x})[0], rtol=2e-5, atol=2e-6)
