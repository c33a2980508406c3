"""Loops inside a row that go along memory as one are one; where everything is reduced, there is one row."""

import numpy as np
import pytest

pytest.importorskip("torch_mlir")

from onnx import parser

from onnx2torch_mlir.engine.compiler import merged_loops
from tests.engine.test_row_lanes import UNITS, results
from tests.one_node import reference

NORMS = {
    "norm of an image": "y = LayerNormalization<axis = 1>(x, w, w)",
    "power": "a = Constant<value_ints = [1, 2, 3]>()\n y = ReduceL2<keepdims = 1>(x, a)",
    "two of three": "a = Constant<value_ints = [2, 3]>()\n m = ReduceMean(x, a)\n d = Sub(x, m)\n y = Mul(d, d)",
    "shares": "a = Constant<value_ints = [1, 2, 3]>()\n e = Exp(x)\n s = ReduceSum(e, a)\n y = Div(e, s)",
    "of each channel": "a = Constant<value_ints = [1, 2, 3]>()\n s = Mul(x, c)\n m = ReduceMax(s, a)\n y = Sub(s, m)",
    "the rest of a larger one": (
        "a = Constant<value_ints = [2, 3]>()\n b = Constant<value_ints = [1]>()\n e = Constant<value_ints = [99]>()\n"
        " t = Constant<value_ints = [3]>()\n p = Slice(x, b, e, t)\n m = ReduceMean(p, a)\n y = Sub(p, m)"
    ),
    "position": "f = Flatten(x)\n i = ArgMax<axis = 1>(f)\n k = Cast<to = 1>(i)\n y = Add(f, k)",
}
MERGED = {"norm of an image": {3}, "power": {3}, "two of three": {2}, "shares": {3}, "of each channel": {2, 3}}
SHAPES = [(2, 5, 7, 7), (3, 4, 1, 9), (1, 3, 16, 16), (2, 1, 1, 1), (0, 2, 3, 4), (2, 3, 5, 67)]
WHOLE = {
    "sum": "y = ReduceSum<keepdims = 0>(x)",
    "mean": "y = ReduceMean<keepdims = 1>(x)",
    "largest": "y = ReduceMax<keepdims = 0>(x)",
    "smallest": "y = ReduceMin<keepdims = 0>(x)",
    "product": "h = Mul(x, x)\n q = Sqrt(h)\n o = ReduceProd<keepdims = 0>(q)\n y = Neg(o)",
    "share": "s = ReduceSum<keepdims = 0>(x)\n y = Div(x, s)",
    "distance": "d = Sub(x, w)\n y = ReduceL2<keepdims = 0>(d)",
}


def model_of(text, shape, is_open, kind="float"):
    names = [f"n{axis}" for axis in range(len(shape))] if is_open else [str(size) for size in shape]
    inputs = [f"{kind}[{', '.join(names)}] x"]
    inputs += [f"{kind}[{', '.join(names[1:])}] w"] * (", w" in text) + [f"{kind}[{names[1]}, 1, 1] c"] * (", c)" in text)
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 21]> g ({", ".join(inputs)}) => ({kind} y) {{ {text} }}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def feeds_of(model, shape, dtype="f"):
    rng = np.random.default_rng(0)
    sizes = {"x": shape, "w": shape[1:], "c": (shape[1], 1, 1)}
    return {value.name: (rng.uniform(-2, 2, sizes[value.name])).astype(dtype) for value in model.graph.input}


def check(text, shape, is_open, monkeypatch, unit=None, kind="float"):
    model = model_of(text, shape, is_open, kind)
    feeds = feeds_of(model, shape, {"float": "f", "double": "d", "int32": "i", "int8": "b", "uint8": "B"}[kind])
    (found,), _ = results(model, [feeds], monkeypatch, unit)
    np.testing.assert_allclose(found, reference(model, feeds)[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", NORMS)
def test_numbers(name, is_open, shape, monkeypatch):
    if 0 in shape and name == "position":
        pytest.skip("a row without elements has no largest one")
    check(NORMS[name], shape, is_open, monkeypatch)


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", MERGED)
def test_loops_are_merged(name, is_open, monkeypatch):
    found = []

    def merge(one):
        before = len(one.lengths)
        original(one)
        found.extend([before - len(one.lengths) + 1] if before else [])

    original = merged_loops.merge
    monkeypatch.setattr(merged_loops, "merge", merge)
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    check(NORMS[name], (2, 5, 7, 9), is_open, monkeypatch)
    assert set(found) == MERGED[name]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", MERGED)
def test_every_width_of_a_vector(name, unit, monkeypatch):
    check(NORMS[name], (2, 5, 7, 7), False, monkeypatch, UNITS[unit])


@pytest.mark.parametrize("shape", [(5, 7, 67), (1, 3, 9), (4, 1, 1), (1, 1), (3, 5), (4099, 3), (2, 3, 4, 5, 6)], ids=str)
@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", WHOLE)
def test_everything_is_reduced(name, is_open, shape, monkeypatch):
    check(WHOLE[name], shape, is_open, monkeypatch)


@pytest.mark.parametrize("kind", ["double", "int32", "int8", "uint8"])
@pytest.mark.parametrize("name", ["largest", "smallest", "sum"])
def test_numbers_of_other_types(name, kind, monkeypatch):
    if name == "sum" and kind in ("int8", "uint8"):
        pytest.skip("ReduceSum takes no bytes")
    for shape in ((5, 7, 67), (3, 4)):
        check(WHOLE[name], shape, False, monkeypatch, kind=kind)


@pytest.mark.parametrize("name", ["largest", "smallest"])
def test_not_a_number_is_in_what_everything_is_reduced_to(name, monkeypatch):
    model = model_of(WHOLE[name], (5, 7, 9), False)
    x = np.ones((5, 7, 9), "f")
    x[3, 2, 8] = np.nan
    (found,), _ = results(model, [{"x": x}], monkeypatch, None)
    assert np.isnan(found)


def test_nothing_is_reduced_to_where_sums_begin(monkeypatch):
    model = model_of(WHOLE["sum"], (3, 0, 5), True)
    (found,), _ = results(model, [{"x": np.ones((3, 0, 5), "f")}], monkeypatch, None)
    assert found == 0


STATISTICS = {
    "of channels": ("0, 2, 3", (3, 5, 7, 9)),
    "of channels, one image": ("0, 2, 3", (1, 5, 100, 3)),
    "of one channel": ("0, 2, 3", (3, 1, 7, 9)),
    "of lines": ("0, 1, 3", (3, 5, 7, 9)),
    "of places": ("0, 1", (3, 5, 7, 9)),
    "of alternate axes": ("0, 2", (3, 5, 67)),
    "around one row": ("0, 2", (1, 1, 67)),
}


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp"])
def test_rows_that_are_added_up_from_several_places(op, name, is_open, monkeypatch):
    """The loops over what stays come first, whichever axes are reduced."""
    axes, shape = STATISTICS[name]
    check(f"a = Constant<value_ints = [{axes}]>()\n y = {op}<keepdims = 1>(x, a)", shape, is_open, monkeypatch)
    check(f"a = Constant<value_ints = [{axes}]>()\n m = {op}(x, a)\n y = Sub(x, m)", shape, is_open, monkeypatch)


@pytest.mark.parametrize("name", ["of channels", "of channels, one image", "of lines", "of alternate axes"])
def test_such_rows_are_vectors(name, monkeypatch):
    axes, shape = STATISTICS[name]
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    model = model_of(f"a = Constant<value_ints = [{axes}]>()\n y = ReduceMean<keepdims = 1>(x, a)", shape, False)
    _, by_vectors = results(model, [feeds_of(model, shape)], monkeypatch, None)
    assert by_vectors == [True]
