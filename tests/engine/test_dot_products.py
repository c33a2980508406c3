"""Sums of products with few columns: any number of rows, of columns and of summands, with and without a tail."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from tests.engine.one_convolution import expected, model, numbers

MOST = of_host().lanes // 2
COLUMNS = sorted({min(count, MOST) for count in (1, 2, 3, MOST)})


def goes_by_dots(code):
    """Whether columns of a weight are packed one by one."""
    return any(packing.width == 1 for packing in code._packings)


@pytest.fixture(autouse=True)
def matched(monkeypatch):
    """Every matcher is on, whatever the environment leaves out."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)


def filters(out, channels, *kernel):
    return numbers(out, channels, *kernel) / np.float32(np.sqrt(channels * np.prod(kernel)))


@pytest.mark.parametrize("tail", [(), ("Relu",), ("Add", "Relu")], ids=str)
@pytest.mark.parametrize("out", COLUMNS)
@pytest.mark.parametrize(("channels", "kernel"), [(64, (3, 3)), (20, (5, 3)), (37, (3, 3))], ids=str)
@pytest.mark.parametrize("sizes", [(1, 12, 10), (2, 7, 9)], ids=str)
def test_convolutions(sizes, channels, kernel, out, tail):
    """What is dense along the sum is a line of the window: with 20 channels and 3 columns, 60 numbers and their rest."""
    weight, x, r = filters(out, channels, *kernel), numbers(sizes[0], channels, *sizes[1:]), numbers(sizes[0], out, *sizes[1:])
    pads = [kernel[0] // 2, kernel[1] // 2]
    code = o2m.compile(model(x.shape, weight, True, tail, pads=pads * 2), threads=2)
    assert goes_by_dots(code)
    found = code.run([x, r][: 1 + ("Add" in tail)])[0]
    np.testing.assert_allclose(found, expected(x, weight, True, tail, r, pads=tuple(pads)), rtol=1e-4, atol=1e-5)


def product(rows, weight, bias):
    """[rows, K] by [K, N]."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Add", ["y", "b"], ["z"])]
    inputs = [helper.make_tensor_value_info("x", 1, [rows, weight.shape[0]])]
    result = helper.make_tensor_value_info("z", 1, [rows, weight.shape[1]])
    weights = [numpy_helper.from_array(array, name) for array, name in ((weight, "w"), (bias, "b"))]
    graph = helper.make_graph(nodes, "g", inputs, [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("columns", COLUMNS[1:])
@pytest.mark.parametrize("length", [64, 100, 257])
def test_any_number_of_rows(length, columns):
    """One code for all: less than a tile, less than a block, several blocks and the rest of one, none."""
    weight, bias = numbers(length, columns), numbers(columns)
    code = o2m.compile(product("n", weight, bias), threads=2)
    assert goes_by_dots(code)
    for rows in (1, 2, 7, 24, 25, 1000, 0):
        x = numbers(rows, length)
        wanted = x.astype(np.float64) @ weight + bias
        np.testing.assert_allclose(code.run([x])[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("length", "columns"), [(64, MOST + 1), (of_host().lanes // 2, 2), (3 * of_host().lanes, 2)])
def test_what_does_not_pay(length, columns):
    """More columns than half a vector has lanes, and sums of less than a few vectors."""
    weight, bias = numbers(length, columns), numbers(columns)
    code = o2m.compile(product(50, weight, bias))
    assert not goes_by_dots(code)
    x = numbers(50, length)
    np.testing.assert_allclose(code.run([x])[0], x.astype(np.float64) @ weight + bias, rtol=1e-4, atol=1e-4)


def test_what_is_not_a_number_stays_where_it_is():
    """Nothing beyond the end of a row or a column is added up."""
    weight = numbers(70, 3)
    x = numbers(30, 70)
    x[3, 69], x[5, 0] = np.nan, np.inf
    found = o2m.compile(product(30, weight, np.zeros(3, np.float32))).run([x])[0]
    assert np.isnan(found[3]).all()
    assert np.isinf(found[5]).all()
    assert np.isfinite(np.delete(found, [3, 5], 0)).all()
