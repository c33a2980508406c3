"""Tails met tile by tile: any width of the last tile; and sums made in several parts, of which only the last is whole."""

import numpy as np
import pytest
from onnx import numpy_helper, parser

import onnx2torch_mlir as o2m


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def model(text, **initializers):
    made = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initializers.items())
    return made


@pytest.mark.parametrize("columns", [1, 7, 16, 17, 33, 48, 80, 130])
@pytest.mark.parametrize("count", [1, 20, 3000])
@pytest.mark.parametrize("known", [True, False])
def test_any_width(columns, count, known):
    weight, bias = numbers(count, columns) / np.float32(np.sqrt(count)), numbers(columns)
    rows = "200" if known else "m"
    text = f"g (float[{rows},{count}] x, float[{rows},{columns}] r) => (float[m,n] y)"
    text += " { p = MatMul (x, w) b = Add (p, bias) s = Add (b, r) y = Relu (s) }"
    code = o2m.compile(model(text, w=weight, bias=bias), threads=2)
    for many in [200] if known else [1, 5, 30, 200]:
        x, r = numbers(many, count), numbers(many, columns)
        expected = np.maximum(x @ weight + bias + r, 0)
        np.testing.assert_allclose(code.run([x, r])[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", [3, 200, 500])
@pytest.mark.parametrize("out", [8, 16, 40, 64])
def test_windows_in_parts(channels, out):
    """A window of many channels is summed up a part after the other; its tail adds to what is there."""
    weight, bias = numbers(out, channels, 3, 3) / np.float32(np.sqrt(9 * channels)), numbers(out)
    x, r = numbers(1, channels, 9, 11), numbers(1, out, 9, 11)
    text = f"g (float[1,{channels},9,11] x, float[1,{out},9,11] r) => (float[a,b,c,d] y)"
    text += " { p = Conv <pads = [1,1,1,1]> (x, w, bias) s = Add (p, r) y = Relu (s) }"
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.einsum("nchwpq,fcpq->nfhw", windows, weight) + bias[:, None, None] + r
    code = o2m.compile(model(text, w=weight, bias=bias), threads=2)
    np.testing.assert_allclose(code.run([x, r])[0], np.maximum(expected, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 5, 12, 13, 24, 36, 47, 60, 61, 95, 96, 97, 200])
@pytest.mark.parametrize("count, columns", [(16, 24), (32, 70), (3000, 40)])
def test_a_function_for_a_run_of_tiles(rows, count, columns):
    """What tiles do not compute themselves is a function's part, which is given the sums of some tiles below each other."""
    weight, bias = numbers(count, columns) / np.float32(np.sqrt(count)), numbers(columns)
    x, r = numbers(rows, count), numbers(rows, columns)
    text = f"g (float[{rows},{count}] x, float[{rows},{columns}] r) => (float[m,n] y)"
    text += " { p = MatMul (x, w) b = Add (p, bias) s = Sigmoid (b) t = Mul (b, s) y = Add (t, r) }"
    sums = x @ weight + bias
    code = o2m.compile(model(text, w=weight, bias=bias), threads=2)
    np.testing.assert_allclose(code.run([x, r])[0], sums / (1 + np.exp(-sums)) + r, rtol=1e-4, atol=1e-4)
