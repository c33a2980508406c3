"""A few sums or extremes of many numbers go by parts, which threads share; others stay as they are."""

import numpy as np
import pytest
from onnx import parser

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import reference

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import long_sums
from tests.engine.made_here import engine_of, entry_of

NODES = {
    "sum": "y = ReduceSum<keepdims = 0>(x, a)",
    "mean": "y = ReduceMean<keepdims = 0>(x, a)",
    "largest": "y = ReduceMax<keepdims = 0>(x, a)",
    "smallest": "y = ReduceMin<keepdims = 0>(x, a)",
    "centred": "m = ReduceMean(x, a)\n d = Sub(x, m)\n q = Mul(d, d)\n y = ReduceSum<keepdims = 0>(q, a)",
}


def model_of(text, axes, shape, kind="float"):
    dims = ", ".join(map(str, shape))
    left = ", ".join(str(size) for axis, size in enumerate(shape) if axis not in axes)
    axes = ", ".join(map(str, axes))
    body = f"a = Constant<value_ints = [{axes}]>()\n {text}"
    head = f'<ir_version: 9, opset_import: ["": 21]> g ({kind}[{dims}] x) => ({kind}[{left}] y)'
    return parser.parse_model(f"{head} {{ {body} }}")


def computed(model, feed, monkeypatch, *, disabled=(), threads=1):
    """What the engine computes, and how many parts each of the nests has that were found."""
    parts = []
    rewrite = long_sums._rewrite
    monkeypatch.setattr(long_sums, "_rewrite", lambda found: (parts.append(found.parts), rewrite(found))[1])
    lowered = convert(read(model)).lowered
    engine = engine_of(lowered, entry_of(lowered, disabled=disabled), threads=threads)
    monkeypatch.setattr(long_sums, "_rewrite", rewrite)
    return engine.run(feed)[0], parts


def check(model, x, monkeypatch, *, parts):
    wanted = reference(model, {"x": x})[0]
    tolerance = {"rtol": 2e-5, "atol": 2e-5 * max(1.0, float(np.abs(wanted).max()))}
    found, known = computed(model, {"x": x}, monkeypatch)
    assert known == parts
    np.testing.assert_allclose(found, wanted, **tolerance)
    on_two, _ = computed(model, {"x": x}, monkeypatch, threads=2)
    np.testing.assert_array_equal(on_two, found)
    plain, known = computed(model, {"x": x}, monkeypatch, disabled=["long_sums"])
    assert not known
    np.testing.assert_allclose(plain, wanted, **tolerance)


# Of every shape what is read is more than `long_sums._LEAST` numbers.
@pytest.mark.parametrize(
    "shape, axes, parts",
    [
        ((1, 128, 128, 32), (1, 2), 32),
        ((2, 96, 64, 48), (1, 2), 32),
        ((1, 16384, 17), (1,), 16),
        ((600000,), (0,), 32),
        ((1000, 600), (0, 1), 25),
        ((3, 7, 331, 83), (1, 2), 7),
        ((1, 997, 601), (1, 2), 31),
        ((3, 131101, 2), (1,), 48),
        ((600011,), (0,), 36),
    ],
    ids=str,
)
@pytest.mark.parametrize("node", NODES)
def test_parts(node, shape, axes, parts, monkeypatch):
    x = np.random.default_rng(0).uniform(-1, 2, shape).astype("f")
    sums = 2 if node == "centred" else 1
    check(model_of(NODES[node], axes, shape), x, monkeypatch, parts=[parts] * sums)


@pytest.mark.parametrize("kind, dtype", [("int32", "i"), ("int64", "q")])
@pytest.mark.parametrize("node", ["sum", "largest", "smallest"])
def test_integers(node, kind, dtype, monkeypatch):
    x = np.random.default_rng(0).integers(-1000, 1000, (1, 8192, 40)).astype(dtype)
    check(model_of(NODES[node], (1,), x.shape, kind), x, monkeypatch, parts=[16])


@pytest.mark.parametrize("place", [0, 4095, 8191])
def test_nan_and_infinity(place, monkeypatch):
    x = np.random.default_rng(0).standard_normal((1, 8192, 40)).astype("f")
    x[0, place, 3], x[0, place, 5], x[0, place, 7] = np.nan, np.inf, -np.inf
    for node in ("sum", "largest", "smallest"):
        found, parts = computed(model_of(NODES[node], (1,), x.shape), {"x": x}, monkeypatch)
        assert parts == [16]
        wanted = {"sum": np.sum, "largest": np.max, "smallest": np.min}[node](x, axis=1)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-3)


@pytest.mark.parametrize(
    "shape, axes",
    [((1, 64, 64, 32), (1, 2)), ((8, 4096, 32), (1,)), ((1, 3, 100003), (1,)), ((300, 2000), (1,)), ((1, 0, 32), (1,))],
    ids=["few numbers", "many results", "a short sum", "many rows", "nothing"],
)
def test_others_stay(shape, axes, monkeypatch):
    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    found, parts = computed(model_of(NODES["sum"], axes, shape), {"x": x}, monkeypatch)
    assert not parts
    np.testing.assert_allclose(found, x.sum(axis=axes, dtype="d"), rtol=2e-5, atol=2e-2)


def test_a_product_of_two_is_a_contraction(monkeypatch):
    text = "g (float[1, 300000] x, float[300000, 2] w) => (float[1, 2] y) { y = MatMul(x, w) }"
    random = np.random.default_rng(0)
    feed = {"x": random.standard_normal((1, 300000)).astype("f"), "w": random.standard_normal((300000, 2)).astype("f")}
    found, parts = computed(parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> {text}'), feed, monkeypatch)
    assert not parts
    np.testing.assert_allclose(found, feed["x"].astype("d") @ feed["w"], rtol=1e-4, atol=1e-2)
