"""What several loops of a pass add up, or all but the innermost: one sum goes through all of them, or one for each column."""

import numpy as np
import pytest
from onnx import numpy_helper, parser

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import kernels
from tests.engine.test_row_lanes import UNITS, results
from tests.one_node import reference

BODIES = {
    "norm": "a = Constant<value_ints = [AXES]>()\n y = ReduceL2<keepdims = 0>(x, a)",
    "mean": "a = Constant<value_ints = [AXES]>()\n y = ReduceMean<keepdims = 0>(x, a)",
    "largest": "a = Constant<value_ints = [AXES]>()\n m = ReduceMax<keepdims = 0>(x, a)\n y = Abs(m)",
    "log of a sum": "a = Constant<value_ints = [AXES]>()\n y = ReduceLogSumExp<keepdims = 0>(x, a)",
    "product": "a = Constant<value_ints = [AXES]>()\n m = ReduceProd<keepdims = 0>(x, a)\n y = Neg(m)",
    "centred": "a = Constant<value_ints = [AXES]>()\n m = ReduceMean(x, a)\n d = Sub(x, m)\n y = ReduceL2<keepdims = 0>(d, a)",
}
SHAPES = {
    "1": [(3, 7, columns) for columns in (8, 15, 16, 17, 37, 61, 64, 67, 80, 129, 300)],
    "1, 2": [(3, 4, 5, columns) for columns in (8, 17, 67)],
    "2, 3": [(3, 4, 5, columns) for columns in (1, 7, 17, 64, 67, 150)],
    "1, 3": [(3, 4, 5, columns) for columns in (7, 17, 67)],
    "1, 2, 3": [(3, 4, 5, columns) for columns in (7, 17, 67)],
}


def model_of(text, axes, shape, outputs, kind="float"):
    dims, made = (", ".join(map(str, each)) for each in (shape, outputs))
    body = text.replace("AXES", axes)
    result = "int64" if "ArgM" in text else kind
    return parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 21]> g ({kind}[{dims}] x) => ({result}[{made}] y) {{ {body} }}'
    )


def check(text, axes, shape, monkeypatch, unit=None, kind="float", is_open=False):
    rng = np.random.default_rng(0)
    left = [size for axis, size in enumerate(shape) if str(axis) not in axes]
    names = [f"n{axis}" for axis in range(len(shape))]
    said, made = (names, [names[0], *(f"o{i}" for i in range(1, len(left)))]) if is_open else (shape, left)
    x = rng.uniform(-2, 2, shape).astype({"float": "f", "double": "d", "int32": "i"}[kind])
    model = model_of(text, axes, said, made, kind)
    (found,), _ = results(model, [{"x": x}], monkeypatch, unit)
    np.testing.assert_allclose(found, reference(model, {"x": x})[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("axes, shape", [(axes, shape) for axes in SHAPES for shape in SHAPES[axes]], ids=str)
@pytest.mark.parametrize("body", BODIES)
def test_sums(body, axes, shape, monkeypatch):
    check(BODIES[body], axes, shape, monkeypatch)


@pytest.mark.parametrize("axes", SHAPES)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("body", ["norm", "largest", "centred"])
def test_every_width_of_a_vector(body, unit, axes, monkeypatch):
    for shape in SHAPES[axes]:
        check(BODIES[body], axes, shape, monkeypatch, UNITS[unit])


@pytest.mark.parametrize("axes", SHAPES)
@pytest.mark.parametrize("kind", ["double", "int32"])
def test_other_types(kind, axes, monkeypatch):
    for shape in SHAPES[axes]:
        check(BODIES["largest"], axes, shape, monkeypatch, kind=kind)


@pytest.mark.parametrize("axes", SHAPES)
@pytest.mark.parametrize("body", BODIES)
def test_open_sizes(body, axes, monkeypatch):
    check(BODIES[body], axes, SHAPES[axes][-1], monkeypatch, is_open=True)


@pytest.mark.parametrize("columns", [8, 16, 17, 37, 67, 130])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_positions(op, columns, monkeypatch):
    check(f"y = {op}<axis = 1, keepdims = 0>(x)", "1", (3, 9, columns), monkeypatch)


@pytest.mark.parametrize("columns", [8, 17, 67])
def test_nan_is_found(columns, monkeypatch):
    """In the last turn of an outer loop, as numpy does; onnxruntime finds some."""
    for axes, shape in (("1", (3, 7, columns)), ("1, 2", (3, 7, columns))):
        x = np.ones(shape, "f")
        x[1, 6, columns - 1] = np.nan
        left = [size for axis, size in enumerate(shape) if str(axis) not in axes]
        model = model_of(BODIES["largest"], axes, shape, left)
        (found,), _ = results(model, [{"x": x}], monkeypatch)
        np.testing.assert_array_equal(found, np.max(x, axis=tuple(int(axis) for axis in axes.split(", "))))


def test_a_narrow_row_is_stored_once(monkeypatch):
    """After the loop that adds it up, not in each of its turns."""
    texts, outline = [], kernels.outline
    see = lambda module, loops: (texts.extend(loop.get_asm() for loop in loops), outline(module, loops))[1]  # noqa: E731
    monkeypatch.setattr(kernels, "outline", see)
    check(BODIES["norm"], "1", (3, 50, 37), monkeypatch)
    (text,) = texts
    (adding,) = [part for part in text.split("scf.for")[1:] if "arith.mulf" in part]
    assert "iter_args" in adding
    assert "store" not in adding[: adding.index("scf.yield")]


def test_a_sum_of_columns_by_itself(monkeypatch):
    """No other nest is over its rows; and what is subtracted has its columns along an axis that is not the last."""
    text = "t = Transpose<perm = [0, 2, 1]>(m)\n d = Sub(x, t)\n q = Mul(d, d)\n y = ReduceSum<keepdims = 0>(q, a)"
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 21]> g (float[3, 50, 37] x, float[3, 37, 1] m) => (float[3, 37] y) '
        f"{{ a = Constant<value_ints = [1]>() {text} }}"
    )
    random = np.random.default_rng(0)
    feed = {"x": random.standard_normal((3, 50, 37)).astype("f"), "m": random.standard_normal((3, 37, 1)).astype("f")}
    (found,), by_vectors = results(model, [feed], monkeypatch)
    assert by_vectors == [True]
    np.testing.assert_allclose(found, reference(model, feed)[0], rtol=2e-5, atol=2e-5)


def test_a_part_of_an_array_by_a_run_time_place(monkeypatch):
    """It begins where its pointer does in a function of its own, as what is one axis of it there."""
    text = "t = Transpose<perm = [0, 2, 1]>(p)\n d = Sub(x, t)\n q = Mul(d, d)\n y = ReduceSum<keepdims = 0>(q, a)"
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 21]> g (float[1, 50, 37] x, float[5, 37, 1] m, int64[1] i) => (float[1, 37] y) '
        "{ a = Constant<value_ints = [1]>() one = Constant<value_ints = [1]>() o = Constant<value_ints = [0]>() "
        f"e = Add(i, one) b = Slice(m, i, e, o) p = Reshape(b, r) {text} }}"
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 37, 1]), "r"))
    random = np.random.default_rng(0)
    feed = {"x": random.standard_normal((1, 50, 37)).astype("f"), "m": random.standard_normal((5, 37, 1)).astype("f")}
    feeds = [feed | {"i": np.array([place])} for place in (0, 3)]
    found, _ = results(model, feeds, monkeypatch)
    for each, given in zip(found, feeds, strict=True):
        np.testing.assert_allclose(each, reference(model, given)[0], rtol=2e-5, atol=2e-5)
