"""Large weights are packed a piece of memory after the other, and who wants to is told what has been copied."""

import math

import numpy as np
import pytest

from onnx2torch_mlir.engine import packed_weights
from onnx2torch_mlir.engine.layout import Packing

WIDTH = 32


@pytest.mark.parametrize("batches", [[], [5]], ids=str)
@pytest.mark.parametrize("segments", [[40], [3, 7]], ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("columns", [1, 33, 64, 70])
def test_parts_make_the_same(columns, turned, segments, batches, monkeypatch):
    steps = math.prod(segments)
    shape = (*batches, columns, steps) if turned else (*batches, steps, columns)
    weight = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    inner = 1 if turned else columns
    packing = Packing(
        0,
        0,
        WIDTH,
        [(count, columns * steps) for count in batches],
        (columns, steps if turned else 1),
        [(count, inner * math.prod(segments[axis + 1 :])) for axis, count in enumerate(segments)],
    )
    whole = packed_weights.packed(weight, packing)
    for at_once in (1, 100, 1000, 5000):
        monkeypatch.setattr(packed_weights, "_AT_ONCE", at_once)
        told = []
        found = packed_weights.packed(weight, packing, told=lambda *part, told=told: told.append(part))
        np.testing.assert_array_equal(found, whole)
        ends = [weight.ctypes.data]
        for address, length in sorted(told):
            assert address == ends[-1]
            ends.append(address + length)
        assert ends[-1] == weight.ctypes.data + weight.nbytes
