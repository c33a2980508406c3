"""Tails that tiles do on sums in registers: biases, arrays that join, bounds, of every number of rows and columns."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import onnx2torch_mlir as o2m

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import plain_tails
from tests.engine.made_here import entry_of

RNG = np.random.default_rng(0)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model(nodes, inputs, constants, result="y"):
    """Nodes (op, inputs, output, attributes) of inputs by name and shape, and of constants by name."""
    made = [helper.make_node(op, given.split(" "), [out], **attributes) for op, given, out, attributes in nodes]
    given = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    kept = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(made, "g", given, [helper.make_tensor_value_info(result, 1, None)], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture
def found(monkeypatch):
    """What the tails of the program at hand are found to be."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    plain, every = plain_tails.plain, []
    monkeypatch.setattr(plain_tails, "plain", lambda *given: every.append(plain(*given)) or every[-1])
    return every


def build(program):
    return entry_of(program.lowered)


def check(made, feeds, threads=1, tolerance=2e-5):
    expected = onnxruntime.InferenceSession(made.SerializeToString()).run(None, feeds)[0]
    engine = o2m.convert(made).compile(threads=threads)
    engine.worth = 1 if threads > 1 else 0
    for _ in range(2):
        np.testing.assert_allclose(engine.run(feeds)[0], expected, rtol=tolerance, atol=tolerance * 4)


LAYERS = {
    "bias": [("MatMul", "x w", "s", {}), ("Add", "s b", "y", {})],
    "bias first": [("MatMul", "x w", "s", {}), ("Add", "b s", "y", {})],
    "relu": [("MatMul", "x w", "s", {}), ("Add", "s b", "t", {}), ("Relu", "t", "y", {})],
    "relu without bias": [("MatMul", "x w", "s", {}), ("Relu", "s", "y", {})],
    "branch without bias": [("MatMul", "x w", "s", {}), ("Add", "r s", "y", {})],
    "clip": [("MatMul", "x w", "s", {}), ("Add", "s b", "t", {}), ("Clip", "t low high", "y", {})],
    "largest": [("MatMul", "x w", "s", {}), ("Add", "s b", "t", {}), ("Clip", "t  high", "y", {})],
    "branch": [("MatMul", "x w", "s", {}), ("Add", "s b", "t", {}), ("Add", "t r", "y", {})],
    "branch and relu": [
        *(("MatMul", "x w", "s", {}), ("Add", "s b", "t", {})),
        *(("Add", "r t", "u", {}), ("Relu", "u", "y", {})),
    ],
}


BOUNDS = {"relu": (0, np.inf), "branch and relu": (0, np.inf), "clip": (-0.5, 1), "largest": (-np.inf, 1)}


def layer(name, rows, steps, columns, *, is_open=False, constant=True):
    inputs = {"x": ["m" if is_open else rows, steps]} | ({"r": ["m" if is_open else rows, columns]} if "branch" in name else {})
    constants = {"w": numbers(steps, columns) / np.sqrt(np.float32(steps)), "b": numbers(columns)}
    constants |= {"low": np.float32(-0.5), "high": np.float32(1)}
    feeds = {"x": numbers(rows, steps)} | ({"r": numbers(rows, columns)} if "branch" in name else {})
    if not constant:
        inputs["w"] = [steps, columns]
        feeds["w"] = constants.pop("w")
    return model(LAYERS[name], inputs, constants), feeds


@pytest.mark.parametrize("columns", [8, 16, 17, 31, 32, 48, 64, 70, 97])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, columns):
    """Of one row and more, of odd numbers, of more than a block and more than are flat."""
    for rows in (1, 2, 7, 8, 9, 25, 97, 194):
        check(*layer(name, rows, 24, columns))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", ["bias", "branch and relu"])
def test_long_sums(name, constant):
    """A part after the other is added, the last one with what follows; and columns do not stay in the cache."""
    for rows, steps, columns in ((100, 3000, 70), (9, 3000, 96), (200, 1400, 130), (100, 300, 600), (1, 3000, 70)):
        check(*layer(name, rows, steps, columns, constant=constant), tolerance=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["bias", "branch and relu"])
def test_open_rows(name, threads):
    made, _ = layer(name, 5, 40, 70, is_open=True)
    engine, session = o2m.convert(made).compile(threads=threads), onnxruntime.InferenceSession(made.SerializeToString())
    engine.worth = 1 if threads > 1 else 0
    for rows in (0, 1, 5, 100, 3100, 8):
        feeds = {value.name: numbers(rows, 40 if value.name == "x" else 70) for value in made.graph.input}
        np.testing.assert_allclose(engine.run(feeds)[0], session.run(None, feeds)[0], rtol=2e-5, atol=2e-5)


def pixels(batch, channels, side, *, joins, follows, stride=1):
    """A convolution of single pixels, and one of ``follows`` after it whose padding makes room around the result."""
    out = 48
    nodes = [("Conv", "x w b", "s", {"strides": [stride, stride]})]
    inputs, feeds = {"x": [batch, channels, side, side]}, {"x": numbers(batch, channels, side, side)}
    last, size = "s", -(-side // stride)
    if joins:
        inputs["r"], feeds["r"] = [batch, out, size, size], numbers(batch, out, size, size)
        nodes += [("Conv", "r e", "q", {"group": out}), ("Add", "s q", "j", {})]
        last = "j"
    nodes.append(("Relu", last, "t" if follows else "y", {}))
    constants = {"w": numbers(out, channels, 1, 1) / np.sqrt(np.float32(channels)), "b": numbers(out)}
    if joins:
        constants["e"] = numbers(out, 1, 1, 1)
    if follows:
        group = out if follows == "depthwise" else 1
        nodes.append(("Conv", "t v", "y", {"pads": [1, 1, 1, 1], "group": group, "strides": [2, 2]}))
        constants["v"] = numbers(out, out // group, 3, 3) / np.sqrt(np.float32(9 * out // group))
    return model(nodes, inputs, constants), feeds


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("follows", ["", "depthwise", "dense"])
@pytest.mark.parametrize("side", [1, 7, 13, 20])
def test_convolutions(batch, joins, follows, side):
    for threads in (1, 2):
        check(*pixels(batch, 24, side, joins=joins, follows=follows), threads)


def test_rows_of_a_padded_image_lie_in_lines(found):
    made, feeds = pixels(1, 24, 13, joins=False, follows="depthwise")
    build(o2m.convert(made))
    lines = [one.lines for one in found if one is not None]
    assert lines and all(count == 13 and 0 < step < jump for count, step, jump in lines)
    check(made, feeds)


@pytest.mark.parametrize("name", LAYERS)
def test_no_function_is_called(name, found):
    made, _ = layer(name, 100, 24, 64)
    code = build(o2m.convert(made))["object"]
    (tail,) = found
    assert b"o2m_tail_" not in code
    assert (tail.other is not None) == ("branch" in name) and (tail.bias is None) == ("without" in name)
    assert tail.bounds == BOUNDS.get(name.replace(" without bias", ""), (-np.inf, np.inf))


def test_what_is_no_plain_tail(found):
    """Bounds the wrong way round, another function, a product and a row of numbers are left to functions."""
    nodes = [("MatMul", "x w", "s", {}), ("Add", "s b", "t", {})]
    ends = [("Clip", "t high low", "y", {}), ("Tanh", "t", "y", {}), ("Mul", "t b", "y", {}), ("Add", "t c", "y", {})]
    constants = {"w": numbers(24, 64), "b": numbers(64), "c": numbers(100, 1), "low": np.float32(0), "high": np.float32(6)}
    feeds = {"x": numbers(100, 24)}
    for end in ends:
        made = model([*nodes, end], {"x": [100, 24]}, constants)
        assert b"o2m_tail_" in build(o2m.convert(made))["object"]
        check(made, feeds, tolerance=1e-4)
    assert found == [None] * len(ends)


def test_what_is_no_number_stays():
    """NaN is not smaller than a bound, and infinities are numbers."""
    made, feeds = layer("branch and relu", 100, 24, 64)
    feeds["r"][3, 5], feeds["r"][4, 6], feeds["r"][5, 7], feeds["x"][90, 2] = np.nan, np.inf, -np.inf, np.nan
    result = o2m.convert(made).compile(threads=1).run(feeds)[0]
    assert np.isnan(result[3, 5]) and result[4, 6] == np.inf and result[5, 7] == 0
    assert np.isnan(result[90]).all() and np.isnan(result).sum() == 65


def by_rows(name, rows, steps, columns, *, is_open=False, constant=False):
    """A layer whose numbers are those of its rows; the right operand is open or ``constant``."""
    made, feeds = layer(name, rows, steps, columns, constant=constant)
    kept = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer} | {"b": numbers(rows, 1)}
    inputs = {one.name: [dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in made.graph.input}
    if is_open:
        inputs |= {one: [rows if one == "r" else steps, "n"] for one in ("w", "r") if one in inputs}
    return model(LAYERS[name], inputs, kept), feeds


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 25, 97, 194])
@pytest.mark.parametrize("name", [name for name in LAYERS if "without" not in name])
def test_numbers_of_rows(name, rows):
    for columns in (1, 17, 32, 70):
        for constant in (False, True):
            check(*by_rows(name, rows, 24, columns, constant=constant), 1 + columns % 2)


@pytest.mark.parametrize("name", ["bias", "branch and relu"])
def test_numbers_of_rows_of_long_sums(name):
    for rows, steps, columns in ((101, 3000, 70), (9, 3000, 96), (201, 1400, 130), (3, 300, 600)):
        check(*by_rows(name, rows, steps, columns), tolerance=1e-4)


def test_numbers_of_rows_of_open_columns():
    made, _ = by_rows("branch and relu", 37, 24, 5, is_open=True)
    engine, session = o2m.convert(made).compile(threads=2), onnxruntime.InferenceSession(made.SerializeToString())
    engine.worth = 1
    for columns in (0, 1, 5, 100, 3100, 8):
        feeds = {"x": numbers(37, 24), "w": numbers(24, columns), "r": numbers(37, columns)}
        np.testing.assert_allclose(engine.run(feeds)[0], session.run(None, feeds)[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", [name for name in LAYERS if "without" not in name])
def test_no_function_is_called_for_numbers_of_rows(name, found):
    code = build(o2m.convert(by_rows(name, 100, 24, 64)[0]))["object"]
    assert b"o2m_tail_" not in code and found[0].is_by_rows and found[0].bias is not None


@pytest.mark.parametrize("batch, channels, size", [(1, 7, 9), (1, 64, 56), (3, 9, 9), (1, 33, 1)])
def test_a_convolution_alone_has_a_number_for_each_channel(batch, channels, size, found):
    """Its channels are rows: pixels lie side by side. Those of several images are left to a function."""
    nodes = [("Conv", "x w b", "s", {}), ("Relu", "s", "y", {})]
    made = model(nodes, {"x": [batch, 24, size, size]}, {"w": numbers(channels, 24, 1, 1) / 5, "b": numbers(channels)})
    build(o2m.convert(made))
    assert [one is not None and one.is_by_rows for one in found] == [batch == 1 and size > 1]
    check(made, {"x": numbers(batch, 24, size, size)}, 2)


def test_batches():
    """Of several products, each with the same numbers for its columns."""
    nodes = [("MatMul", "x z", "s", {}), ("Add", "s b", "t", {}), ("Relu", "t", "y", {})]
    made = model(nodes, {"x": [3, 20, 24], "z": [3, 24, 40]}, {"b": numbers(40)})
    check(made, {"x": numbers(3, 20, 24), "z": numbers(3, 24, 40)}, 2)
