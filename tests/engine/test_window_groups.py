"""Convolutions of small groups of channels: vectors spread within the groups, the numbers of onnxruntime, and which do so."""

import numpy as np
import pytest

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import window_channels
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.engine.made_here import entry_of
from tests.engine.test_channels_last import Net, agrees

CASES = {
    "pairs": ((1, 64, 9, 11), 32, {"pads": [1] * 4}),
    "fours": ((2, 32, 12, 17), 8, {"pads": [1] * 4}),
    "eights, a vector and a half": ((1, 24, 7, 30), 3, {"pads": [1] * 4}),
    "stride": ((1, 40, 15, 14), 10, {"pads": [1] * 4, "strides": [2, 2]}),
    "steps of both kinds": ((1, 16, 20, 33), 4, {"strides": [1, 2], "dilations": [2, 3]}),
    "tall windows": ((1, 16, 20, 33), 4, {"kernel": (5, 1)}),
    "wide windows": ((1, 16, 3, 60), 4, {"kernel": (2, 9)}),
    "one pixel": ((1, 16, 6, 5), 4, {"kernel": (1, 1)}),
}


def network(shape, groups, dynamic=(), filters=1, **attributes):
    """Pixels mixed, convolved in groups, and an activation."""
    net = Net(1, shape, dynamic=dynamic)
    kernel = attributes.pop("kernel", (3, 3))
    mixed = net.conv("x", shape[1], (1, 1))
    return net, net.add("Relu", net.conv(mixed, shape[1] * filters, kernel, groups=groups, **attributes))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("disabled", ["", "windows", "channels_last"])
def test_same_numbers_as_onnxruntime(name, disabled, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    shape, groups, attributes = CASES[name]
    net, out = network(shape, groups, **attributes)
    agrees(net, out)


@pytest.mark.parametrize("size", [(3, 20, 19), (1, 1, 1), (2, 2, 9)], ids=str)
def test_open_dims(size):
    net, out = network((1, 32, 8, 8), 8, dynamic=(0, 2, 3), pads=[1] * 4)
    agrees(net, out, shape=(size[0], 32, *size[1:]))


@pytest.mark.parametrize(
    ("channels", "groups", "filters", "lanes", "spread"),
    [
        (32, 8, 1, 16, True),
        (32, 8, 1, 8, True),
        (32, 4, 1, 8, False),  # a group fills a vector
        (24, 8, 1, 16, False),  # three channels each
        (32, 8, 2, 16, False),  # twice as many results as channels
    ],
)
def test_which_are_spread(channels, groups, filters, lanes, spread, monkeypatch):
    unit = window_channels.of_host()
    if unit.lanes < lanes:
        pytest.skip("the processor has no vectors of this length")
    monkeypatch.setattr(window_channels, "of_host", lambda: type(unit)(**{**vars(unit), "lanes": lanes}))
    net, out = network((1, channels, 9, 9), groups, filters=filters, pads=[1] * 4)
    assert any("vector.shuffle" in text for text in functions_of(net, out, monkeypatch)) == spread


def functions_of(net, out, monkeypatch):
    """The texts of the functions of a network's windows."""
    texts = []

    def add(written, module, *added, real=WrittenCode.add):
        texts.extend(added)
        real(written, module, *added)

    monkeypatch.setattr(WrittenCode, "add", add)
    lowered = convert(read(net.model(out))).lowered
    entry_of(lowered)
    return [text for text in texts if "o2m_window_" in text]


def test_each_element_of_a_line_is_read_once(monkeypatch):
    """Eight windows of three taps, one apart, reach ten elements."""
    net = Net(2, (1, 16, 8, 8))
    out = net.conv(net.conv("x", 16, (1, 1)), 16, (3, 3), groups=16, pads=[1] * 4)
    (text,) = functions_of(net, out, monkeypatch)
    _, _, tile = text.partition("_8(")
    assert sum("%fe" in line and "llvm.load" in line for line in tile.splitlines()) == 10
    assert np.prod((8, 3)) == sum("math.fma" in line or "arith.mulf" in line for line in tile.splitlines())
