"""Convolutions with windows of 3 by 3 by fewer products: any size of image, any number of channels, with and without a tail."""

import numpy as np
import pytest
import torch

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.packed_weights import packed
from tests.engine.one_convolution import expected, model, numbers


def weight_of(channels, out):
    return numbers(out, channels, 3, 3) / np.float32(np.sqrt(9 * channels))


def goes_by_winograd(code):
    return any(packing.windows for packing in code._packings)


@pytest.fixture
def matched(monkeypatch):
    """Every matcher is on, whatever the environment leaves out."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tail", [(), ("Relu",), ("Add", "Relu")], ids=str)
@pytest.mark.parametrize("sizes", [(1, 12, 10), (2, 13, 9), (1, 3, 40), (5, 8, 7), (1, 7, 7), (1, 31, 33)], ids=str)
@pytest.mark.parametrize("channels", [(32, 32), (37, 70), (64, 33), (48, 130)], ids=str)
def test_any_size(channels, sizes, tail, threads, matched):
    """Lines and columns that are odd, tiles of several lines and images in a block, panels that are not full."""
    count, h, v = sizes
    weight, x, r = weight_of(*channels), numbers(count, channels[0], h, v), numbers(count, channels[1], h, v)
    code = o2m.compile(model(x.shape, weight, True, tail, pads=[1] * 4), threads=threads)
    assert goes_by_winograd(code)
    found = code.run([x, r][: 1 + ("Add" in tail)])[0]
    np.testing.assert_allclose(found, expected(x, weight, True, tail, r, pads=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(1, 14, 15), (2, 9, 12)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_without_padding(bias, sizes, matched):
    weight, x = weight_of(40, 36), numbers(sizes[0], 40, *sizes[1:])
    code = o2m.compile(model(x.shape, weight, bias), threads=2)
    assert goes_by_winograd(code)
    np.testing.assert_allclose(code.run([x])[0], expected(x, weight, bias), rtol=1e-4, atol=1e-5)


def test_sizes_that_are_open(matched):
    """One code for all sizes, of which some have few pixels, or one line, or none at all."""
    weight = weight_of(64, 40)
    code = o2m.compile(model(None, weight, True, ("Relu",), dynamic=True, pads=[1] * 4), threads=2)
    assert goes_by_winograd(code)
    for sizes in [(1, 14, 14), (3, 5, 7), (1, 1, 1), (2, 1, 50), (1, 40, 1), (0, 4, 4)]:
        x = numbers(sizes[0], 64, *sizes[1:])
        wanted = expected(x, weight, True, ("Relu",), pads=1)
        np.testing.assert_allclose(code.run([x])[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "attributes",
    [{"strides": [2, 2]}, {"strides": [1, 2]}, {"dilations": [2, 2]}, {"dilations": [2, 1]}, {"group": 2}],
    ids=str,
)
def test_other_windows_do_not(attributes, matched):
    group = attributes.get("group", 1)
    weight, x = weight_of(64 // group, 64), numbers(1, 64, 24, 26)
    code = o2m.compile(model(x.shape, weight, True, pads=[1] * 4, **attributes), threads=2)
    assert not goes_by_winograd(code)
    named = {"strides": "stride", "dilations": "dilation", "group": "groups"}
    given = {named[key]: value for key, value in attributes.items()}
    np.testing.assert_allclose(code.run([x])[0], expected(x, weight, True, pads=1, **given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 16, 32, 20, 20), (1, 64, 16, 20, 20), (1, 64, 64, 6, 6)], ids=str)
def test_small_ones_do_not(shape, matched):
    count, channels, out, h, v = shape
    code = o2m.compile(model((count, channels, h, v), weight_of(channels, out), True, pads=[1] * 4))
    assert not goes_by_winograd(code)


def test_what_is_switched_off(monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", "winograd")
    weight, x = weight_of(64, 64), numbers(1, 64, 20, 20)
    code = o2m.compile(model(x.shape, weight, True, pads=[1] * 4))
    assert not goes_by_winograd(code)
    np.testing.assert_allclose(code.run([x])[0], expected(x, weight, True, pads=1), rtol=1e-4, atol=1e-5)


def test_as_exact_as_plain_sums(matched):
    """The error of sums of many channels is no larger than a few times that of a plain loop in float32."""
    weight, x = weight_of(512, 64), numbers(1, 512, 16, 16)
    exact = expected(x, weight, False, pads=1)
    found = o2m.compile(model(x.shape, weight, False, pads=[1] * 4)).run([x])[0]
    plain = torch.nn.functional.conv2d(torch.from_numpy(x), torch.from_numpy(weight), padding=1).numpy()
    assert np.sqrt(np.mean((found - exact) ** 2)) < 4 * np.sqrt(np.mean((plain - exact) ** 2))


def test_weights_are_transformed_once():
    """G g G^T of each window, in panels of columns; the last one is filled up with zeros."""
    weight = numbers(5, 4, 3, 3)
    packing = Packing(0, 0, 4, [], (5, 36), [(3, 3), (3, 1), (4, 9)], windows=True)
    found = packed(weight, packing)
    g = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    wanted = np.einsum("ip,fcpq,jq->ijcf", g, weight, g).reshape(16, 4, 5)
    assert found.shape == packing.shape == (16, 2, 4, 4)
    columns = found.transpose(0, 2, 1, 3).reshape(16, 4, 8)
    np.testing.assert_allclose(columns[..., :5], wanted, rtol=1e-6, atol=1e-7)
    assert not columns[..., 5:].any()
