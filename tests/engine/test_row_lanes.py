"""Passes over rows as vectors: every width of a row, every type of element, every width of a vector, NaN included."""

import numpy as np
import pytest
from onnx import parser

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import reference

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import kernels, row_loops, rows, vector_unit
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from tests.engine.made_here import engine_of

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
        monkeypatch.setattr(rows, "of_host", lambda: unit)
    texts = []
    outline = kernels.outline
    see = lambda module, loops: (texts.extend(loop.get_asm() for loop in loops), outline(module, loops))[1]  # noqa: E731
    monkeypatch.setattr(kernels, "outline", see)
    program = engine_of(convert(read(model)).lowered)
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


def rows_with_equal_extremes(columns, dtype):
    """Rows in which the same extreme is in several places; of floats, NaN, infinities and zeros of both signs too."""
    x = np.random.default_rng(columns).integers(-3, 4, (9, columns)).astype(dtype)
    if x.size and x.dtype.kind == "f":
        x[1], x[2], x[3, columns // 2 :] = -np.inf, np.inf, np.nan
        x[4, -1], x[5, ::3], x[6, columns // 3 :: 2] = np.nan, np.inf, -np.inf
        x[7], x[7, ::2], x[8] = 0, -0.0, np.nan
    elif x.size:
        x[1], x[2], x[3, ::3] = np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).min
    return x


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_first_positions_of_extremes(name, last, unit, monkeypatch):
    text = f"y = {name}<axis = -1, keepdims = 0, select_last_index = {last}>(x)"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g (float[n, m] x) => (int64[n] y) {{ {text} }}')
    feeds = [{"x": rows_with_equal_extremes(columns, "f")} for columns in (1, 2, 7, 16, 31, 64, 65, 130, 257)]
    found, by_vectors = results(model, feeds, monkeypatch, UNITS[unit])
    assert by_vectors == [True]
    for feed, one in zip(feeds, found, strict=True):
        x = feed["x"][:, ::-1] if last else feed["x"]
        want = getattr(np, name.lower())(x, -1)
        np.testing.assert_array_equal(one, x.shape[1] - 1 - want if last else want)


KINDS = [("float16", "f2"), ("double", "f8"), ("int32", "i4"), ("int64", "i8"), ("uint8", "u1"), ("int8", "i1")]


@pytest.mark.parametrize(("kind", "dtype"), KINDS)
@pytest.mark.parametrize("columns", ["m", 131])
@pytest.mark.parametrize("rows", ["n", 1])
def test_first_positions_of_types(rows, columns, kind, dtype, monkeypatch):
    text = "y = ArgMax<axis = -1, keepdims = 0>(x)\n z = ArgMin<axis = 1, keepdims = 1>(x)"
    signature = f"g ({kind}[{rows}, {columns}] x) => (int64[r] y, int64[q, 1] z)"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> {signature} {{ {text} }}')
    x = rows_with_equal_extremes(131, dtype)
    for part in [x] if rows == "n" else [x[place : place + 1] for place in (1, 3, 5)]:
        with monkeypatch.context() as patched:
            (found,), by_vectors = results(model, [{"x": part}], patched)
        np.testing.assert_array_equal(found, np.argmax(part, -1))
        assert by_vectors and all(by_vectors)


POSITION_BEFORE = "i = ArgMin<axis = -1>(x)\n f = Cast<to = 1>(i)\n y = Sub(x, f)"


@pytest.mark.parametrize("text", ["y = Hardmax<axis = -1>(x)", POSITION_BEFORE])
@pytest.mark.parametrize("columns", ["m", 67])
def test_what_is_made_of_positions_is_a_pass_of_the_same_loop(text, columns, monkeypatch):
    model = model_of(text, "float", "n", columns)
    x = rows_with_equal_extremes(67, "f")[[0, 2, 5, 6, 7]]
    (found,), by_vectors = results(model, [{"x": x}], monkeypatch)
    assert by_vectors == [True]
    np.testing.assert_array_equal(found, reference(model, {"x": x})[0])


@pytest.mark.parametrize(("columns", "seen"), [(8, False), (15, False), (16, True), (17, True)])
def test_few_elements_are_asked_one_by_one(columns, seen, monkeypatch):
    signature = f"g (float[n, {columns}] x) => (int64[n] y)"
    text = f"{signature} {{ y = ArgMax<axis = -1, keepdims = 0>(x) }}"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> {text}')
    x = rows_with_equal_extremes(columns, "f")
    (found,), by_vectors = results(model, [{"x": x}], monkeypatch, UNITS["16 lanes"])
    assert by_vectors == [seen]
    np.testing.assert_array_equal(found, np.argmax(x, -1))


def test_one_row_without_other_axes_has_vectors(monkeypatch):
    text = "y = ArgMax<axis = 0>(x)"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g (float[n] x) => (int64[1] y) {{ {text} }}')
    feeds = [{"x": row} for columns in (1, 40, 333) for row in rows_with_equal_extremes(columns, "f")]
    found, by_vectors = results(model, feeds, monkeypatch)
    assert by_vectors == [True]
    for feed, one in zip(feeds, found, strict=True):
        assert one == [np.argmax(feed["x"])]


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
