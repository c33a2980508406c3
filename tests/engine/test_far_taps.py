"""Convolutions of which many taps are in the padding: the same numbers without these, and which are done so."""

import itertools

import pytest

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import far_taps
from onnx2torch_mlir.engine.compiler.walks import nested
from onnx2torch_mlir.engine.compiler.window_lines import WindowLine
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.engine.test_channels_last import Net, agrees

CASES = {
    "some taps": ((1, 64, 16, 16), {"dilations": [8, 8], "pads": [8] * 4}, 9),
    "the middle alone": ((2, 64, 9, 11), {"dilations": [12, 12], "pads": [12] * 4}, 1),
    "other borders": ((1, 64, 12, 19), {"dilations": [5, 9], "pads": [7, 9, 3, 11]}, 9),
    "stride": ((1, 64, 30, 31), {"dilations": [14, 12], "strides": [3, 2], "pads": [14, 12, 14, 12]}, 9),
    "one axis without padding": ((1, 64, 10, 10), {"dilations": [11, 1], "pads": [11, 0, 11, 0]}, 3),
    "one dim": ((1, 64, 70), {"dilations": [60], "pads": [60] * 2}, 3),
    "groups, which stay whole": ((1, 128, 16, 16), {"dilations": [8, 8], "pads": [8] * 4, "groups": 2}, 1),
}


OPEN = {
    "all sizes": ((1, 64, 16, 16), (0, 2, 3), {"dilations": [8, 8], "pads": [8] * 4}, 9),
    "one size": ((1, 64, 16, 19), (2,), {"dilations": [8, 4], "pads": [8, 4, 8, 4]}, 9),
    "more in front": ((1, 64, 16, 19), (2, 3), {"dilations": [6, 5], "pads": [9, 3, 3, 7]}, 9),
    "one dim": ((1, 64, 70), (2,), {"dilations": [30], "pads": [30] * 2}, 3),
    "near taps": ((1, 64, 16, 16), (2, 3), {"dilations": [3, 3], "pads": [3] * 4}, 1),
    "other sizes of results": ((1, 64, 30, 31), (2, 3), {"dilations": [8, 8], "pads": [8, 8, 7, 8]}, 1),
}
"""With which dims are open."""


def network(shape, groups=1, dynamic=(), **attributes):
    """A convolution between two of single pixels, with an activation."""
    net = Net(1, shape, dynamic=dynamic)
    ones = (1,) * (len(shape) - 2)
    kernel = tuple(3 for _ in ones)
    found = net.conv(net.conv("x", shape[1], ones), shape[1], kernel, groups=groups, **attributes)
    return net, net.conv(net.add("Relu", found), 8, ones)


def sums_of(net, out):
    """How many sums of products a network's convolutions are."""
    lowered = convert(read(net.model(out))).lowered
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(lowered.bytecode)
        far_taps.skip(module)
        assert module.operation.verify()
        nests = [operation for operation in nested(module.operation) if operation.name == "linalg.generic"]
        return sum("reduction" in str(nest.attributes["iterator_types"]) for nest in nests)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("disabled", ["", "contractions", "channels_last"])
def test_same_numbers_as_onnxruntime(name, disabled, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    shape, attributes, _ = CASES[name]
    net, out = network(shape, **attributes)
    agrees(net, out)


@pytest.mark.parametrize("name", CASES)
def test_how_many_taps_are_left(name):
    shape, attributes, taps = CASES[name]
    assert sums_of(*network(shape, **attributes)) == 2 + taps


@pytest.mark.parametrize("name", OPEN)
def test_images_of_any_size(name):
    shape, dynamic, attributes, taps = OPEN[name]
    net, out = network(shape, dynamic=dynamic, **attributes)
    assert sums_of(net, out) == 2 + taps
    # Smaller than a step, one place alone, large enough for all taps.
    for size in (3, 1, 8, 29):
        other = [size + axis if axis in dynamic else length for axis, length in enumerate(shape)]
        if name != "other sizes of results" or size > 8:
            agrees(net, out, shape=other)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 64, 16, 16), {"pads": [1] * 4}),
        ((1, 64, 7, 7), {"dilations": [4, 4], "pads": [4] * 4}),  # few windows
        ((1, 32, 16, 16), {"dilations": [8, 8], "pads": [8] * 4}),  # few channels
        ((1, 64, 40, 40), {"dilations": [8, 8]}),  # nothing is padded
    ],
    ids=["most taps", "few windows", "few channels", "no padding"],
)
def test_others_stay_whole(shape, attributes):
    assert sums_of(*network(shape, **attributes)) == 3


def test_taps_inside():
    sizes = itertools.product((1, 4, 9), (1, 3), (1, 2, 3), (1, 2, 7), (0, 2, 8), (0, 5))
    for size, taps, stride, dilation, low, high in sizes:
        count = (size + low + high - (taps - 1) * dilation - 1) // stride + 1
        if count < 1:
            continue
        line = WindowLine(size, count, taps, stride, dilation, low)
        for tap in range(taps):
            inside = [place for place in range(count) if 0 <= line.position(place, tap) < size]
            assert inside == list(line.inside(tap))
