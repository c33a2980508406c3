"""What follows a depthwise convolution or a pool is done in its tiles: bias, activation, residual, of any size."""

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.profiling import Profile
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.engine.test_channels_last import Net


def _silu(net, x):
    return net.add("Mul", x, net.add("Sigmoid", x))


def _residual(net, x):
    """Bias, an activation, and the input of the convolution added."""
    return net.add("Add", net.add("Relu", x), net.before)


def _code(net, x):
    """A result of another type."""
    return net.add("Cast", net.add("Round", x), to=6)


TAILS = {
    "silu": _silu,
    "hardswish": lambda net, x: net.add("HardSwish", x),
    "exp": lambda net, x: net.add("Exp", x),
    "relu": lambda net, x: net.add("Relu", x),
    "residual": _residual,
    "code": _code,
}


def network(tail, sizes, dynamic, kernel=(3, 3), stride=1):
    """A pointwise convolution, so that channels lie last, a depthwise one and its tail, a pool and its tail."""
    net = Net(3, sizes, dynamic=(0, 2, 3) if dynamic else ())
    channels = sizes[1]
    net.before = net.add("Relu", net.conv("x", channels, (1, 1)))
    pads = [k // 2 for k in kernel] * 2
    deep = net.conv(net.before, channels, kernel, groups=channels, pads=pads, strides=[stride] * 2)
    tailed = tail(net, deep)
    pooled = net.add("MaxPool", net.before, kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2)
    return net, deep, [tailed, net.add("Neg", pooled)]


CASES = [
    *(("silu", True, ""), ("residual", True, ""), ("code", True, ""), ("hardswish", False, ""), ("exp", False, "")),
    ("silu", True, "windows"),
]


@pytest.mark.parametrize(("tail", "dynamic", "disabled"), CASES, ids=str)
def test_same_numbers_as_onnxruntime(tail, dynamic, disabled, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    channels = 13
    net, _, outputs = network(TAILS[tail], (3, channels, 20, 19), dynamic)
    model = net.model(*outputs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    engine = convert(read(model)).compile()
    for n, height, width in [(3, 20, 19), (1, 9, 11), (2, 1, 1), (1, 4, 3)] if dynamic else [(3, 20, 19)]:
        x = np.random.default_rng(height).standard_normal((n, channels, height, width)).astype(np.float32)
        for found, wanted in zip(engine.run([x]), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("tail", "kernel", "stride"), [("hardswish", (5, 5), 2), ("exp", (3, 3), 1)], ids=str)
def test_the_activation_is_part_of_the_convolution(tail, kernel, stride):
    net, deep, outputs = network(TAILS[tail], (1, 16, 12, 12), dynamic=False, kernel=kernel, stride=stride)
    model = net.model(*outputs)
    for node in model.graph.node:
        node.name = node.output[0]
    with Profile() as profile:
        engine = convert(read(model)).compile()
    engine.run([np.ones((1, 16, 12, 12), np.float32)])
    names = [set(node.name.split(" + ")) for node in profile.nodes()]
    assert {deep, outputs[0]} in names or any({deep, outputs[0]} <= name for name in names)
    assert {outputs[0]} not in names
