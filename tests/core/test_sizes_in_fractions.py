"""Sizes whose algebra leaves the whole numbers: sympy writes ``2*n - 1 > 0`` as ``n > 1/2``."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import eager, reference

GRAPH = """<ir_version: 8, opset_import: ["": 17]> g (float[N] x, float[M] table) => (float[K] y)
    <int64[1] two = {2}, int64[1] three = {3}, int64[1] zero = {0}, int64[1] one = {1}> {
    n = Shape(x)
    doubled = Mul(n, two)
    end = Sub(doubled, three)
    y = Slice(table, zero, end, zero, one)
}"""


@pytest.fixture(scope="module")
def program():
    return convert(read(onnx.parser.parse_model(GRAPH)))


def test_a_slice_that_ends_at_an_odd_number(program) -> None:
    engine = program.compile()
    for n in (0, 1, 2, 4, 30):
        feeds = {"x": np.zeros(n, np.float32), "table": np.arange(11, dtype=np.float32)}
        (wanted,) = reference(onnx.parser.parse_model(GRAPH), feeds)
        for (found,) in (engine.run(feeds), eager(program, list(feeds.values()))):
            np.testing.assert_array_equal(found, wanted)
