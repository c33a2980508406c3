"""Windows over lines that do not stay in the cache go over a block of channels after the other."""

import numpy as np
import onnxruntime
import pytest

import onnx2torch_mlir as o2m

pytest.importorskip("torch_mlir")

from onnx2torch_mlir.engine.compiler import windows
from tests.engine.made_here import entry_of
from tests.engine.test_window_tails import TAILS, network


@pytest.fixture
def blocks(monkeypatch):
    """The channels of the calls of each window of the program at hand."""
    monkeypatch.delenv("ONNX2MLIR_DISABLE", raising=False)
    split, every = windows._blocks, []

    def blocks_(*given):
        every.append(split(*given))
        return every[-1]

    monkeypatch.setattr(windows, "_blocks", blocks_)
    return every


@pytest.mark.parametrize("channels", [616, 640, 1000])
@pytest.mark.parametrize("tail", ["silu", "residual", "code"])
def test_same_numbers_as_onnxruntime(channels, tail):
    """With what is added by channel and by element, and with a last block that fills no vector."""
    net, _, outputs = network(TAILS[tail], (2, channels, 5, 40), dynamic=False, kernel=(7, 7))
    model = net.model(*outputs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((2, channels, 5, 40)).astype(np.float32)
    wanted = session.run(None, {"x": x})
    for threads in (1, 2):
        for found, expected in zip(o2m.convert(model).compile(threads=threads).run([x]), wanted, strict=True):
            off = np.abs(np.asarray(found, np.float32) - expected)
            # What is rounded may be the next code.
            np.testing.assert_array_less(off, 1.5 if tail == "code" else 1e-4)
            assert (off > 1e-4).mean() < 1e-3


@pytest.mark.parametrize(("channels", "count"), [(96, 1), (616, 2), (1000, 4)])
def test_blocks_are_of_whole_vectors(channels, count, blocks):
    net, _, outputs = network(TAILS["relu"], (1, channels, 5, 40), dynamic=False, kernel=(7, 7))
    program = o2m.convert(net.model(*outputs))
    entry_of(program.lowered)
    # The deep convolution and the pool, of three lines.
    assert sorted(len(pieces) for pieces in blocks) == sorted([count, -(-channels // 700)])
    for pieces in blocks:
        starts = [piece.first for piece in pieces]
        assert all(start % windows.of_host().lanes == 0 for start in starts)
        assert [piece.first + piece.channels for piece in pieces] == [*starts[1:], channels]
