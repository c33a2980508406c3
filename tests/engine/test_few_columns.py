"""A few columns behind whole vectors of them, which are packed by themselves, with vectors along the sum: against numpy."""

import numpy as np
import pytest
import torch
from onnx import helper, numpy_helper

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine.compiler import few_columns, vector_unit
from onnx2torch_mlir.engine.compiler.task import build
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.options import of_environment
from onnx2torch_mlir.engine.packed_weights import packed

RNG = np.random.default_rng(0)
FLOAT = 1
UNIT = vector_unit.of_host()
LANES = UNIT.lanes


def numbers(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model(nodes, shape, weights):
    given = helper.make_tensor_value_info("x", FLOAT, shape)
    kept = [numpy_helper.from_array(weight, name) for name, weight in weights.items()]
    graph = helper.make_graph(nodes, "g", [given], [helper.make_tensor_value_info("y", FLOAT, None)], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def product(weight, rows="m", after=(), batches=()):
    names = ["y", *(f"s{i}" for i in range(len(after)))][::-1]
    nodes = [helper.make_node("MatMul", ["x", "w"], names[:1])]
    for (kind, more), taken, given in zip(after, names, names[1:], strict=False):
        nodes.append(helper.make_node(kind, [taken, *more], [given]))
    shape = [*batches, rows, weight.shape[-2]]
    return model(nodes, shape, {"w": weight, "bias": numbers(weight.shape[-1])})


def close(found, expected, length):
    return np.allclose(found, expected, rtol=1e-4, atol=1e-5 * np.sqrt(length) * 10)


def packings(read, monkeypatch):
    """How the weights of a program are packed, with every matcher."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    lowered = o2m.convert(read).lowered
    return [Packing(*fields) for fields in build(lowered.bytecode, of_environment(len(lowered.inputs)))["packings"]]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("steps", [1, LANES, 70, 300, 2000])
@pytest.mark.parametrize("few", [1, 2, 3, 5, 6])
def test_rows_times_weights(few, steps, threads):
    """Of one row to several blocks, with the few in a panel of their own and behind a vector of others; sums of 2000 steps go
    in parts."""
    for before in (LANES, 2 * LANES, 5 * LANES):
        weight = numbers(steps, before + few)
        program = o2m.compile(product(weight), threads=threads)
        for rows in (0, 1, 2, 7, 8, 9, 31, 130):
            x = numbers(rows, steps)
            assert close(program.run({"x": x})[0], x.astype(np.float64) @ weight, steps), (before, rows)


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_a_tail_meets_the_few_too(rows):
    weight = numbers(90, LANES + 2)
    read = product(weight, rows, [("Add", ["bias"]), ("Relu", [])])
    bias = numpy_helper.to_array(read.graph.initializer[1])
    x = numbers(rows, 90)
    expected = np.maximum(x.astype(np.float64) @ weight + bias, 0)
    assert close(o2m.compile(read).run({"x": x})[0], expected, 90)


def test_batches_of_weights():
    weight = numbers(3, 70, 2 * LANES + 1)
    x = numbers(3, 20, 70)
    read = product(weight, 20, batches=[3])
    assert close(o2m.compile(read).run({"x": x})[0], x.astype(np.float64) @ weight, 70)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize(("channels", "stride"), [(3, 1), (33, 1), (64, 1), (31, 2), (200, 2)])
def test_convolutions(channels, stride, window, threads):
    """By Winograd's algorithm some; others in several segments, the innermost of which fills its vectors or does not."""
    for filters in (LANES + 1, 4 * LANES + 3):
        weight = numbers(filters, channels, window, window)
        pads = [window // 2] * 4
        node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[window] * 2, strides=[stride] * 2, pads=pads)
        x = numbers(2, channels, 17, 15)
        given, kernel = torch.from_numpy(x).double(), torch.from_numpy(weight).double()
        expected = torch.nn.functional.conv2d(given, kernel, None, stride, window // 2).numpy()
        found = o2m.compile(model([node], x.shape, {"w": weight}), threads=threads).run({"x": x})[0]
        assert close(found, expected, channels * window * window), filters


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_several_numbers_of_columns_in_one_program(rows):
    """Of each product its own number is left over, or none."""
    counts = (LANES + 1, 2 * LANES + 3, 3 * LANES, 5 * LANES + 2)
    weights = {f"w{i}": numbers(before, after) for i, (before, after) in enumerate(zip((70, *counts), counts, strict=False))}
    names = ["x", "a", "b", "c", "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(len(counts))]
    x, expected = numbers(rows, 70), None
    for weight in weights.values():
        expected = (x.astype(np.float64) if expected is None else expected) @ weight
    (found,) = o2m.compile(model(nodes, ["m", 70], weights)).run({"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


def test_which_columns_are_packed_by_themselves(monkeypatch):
    most = int(few_columns._MOST * LANES)

    def few(columns, steps=300, rows=50):
        (packing,) = packings(product(numbers(steps, columns), rows), monkeypatch)
        return packing.few

    assert [few(2 * LANES + n) for n in range(LANES)] == [*range(most + 1), *[0] * (LANES - most - 1)]
    assert few(LANES + 1, steps=5) == 0
    assert few(LANES + 1, rows=1) == 0
    assert few(LANES + 1, rows="m") == 1


@pytest.mark.parametrize("run", [5, LANES, 3 * LANES + 2])
@pytest.mark.parametrize("before", [0, LANES])
def test_how_they_are_packed(before, run):
    """A panel of two segments: the vector before them, then vectors along each run, the columns one after the other."""
    few, outer, width = 3, 2, 2 * LANES
    weight = numbers(outer, run, width + before + few)
    columns = weight.shape[-1]
    segments = [(outer, run * columns), (run, columns)]
    packing = Packing(0, 0, width, [], (columns, 1), segments, few=few, run=run)
    found = packed(weight, packing).reshape(2, -1)
    np.testing.assert_array_equal(found[0].reshape(outer, run, width), weight[..., :width])
    size = outer * run * before
    np.testing.assert_array_equal(found[1, :size].reshape(outer, run, before), weight[..., width : width + before])
    expected = []
    for one in weight[..., width + before :]:
        for first in range(0, run, LANES):
            expected += [one[first : first + LANES, column] for column in range(few)]
    np.testing.assert_array_equal(found[1, size : size + outer * run * few], np.concatenate(expected))
