"""Numbers computed from sizes whose sign depends on the sizes: differences, their halves, bounds that may be negative."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, convert
from tests.one_node import eager, native_run, reference

FITTED = """
<ir_version: 8, opset_import: ["" : 17]>
fitted (float[n, 2] x, float[k, 2] like) => (float[m, 4] y)
<int64[1] two = {2}, int64[1] none = {0}>
{
    have = Shape <start = 0, end = 1> (x)
    want = Shape <start = 0, end = 1> (like)
    more = Sub (want, have)
    low = Div (more, two)
    high = Sub (more, low)
    pads = Concat <axis = 0> (low, none, high, none)
    fit = Pad (x, pads)
    y = Concat <axis = 1> (fit, like)
}
"""
"""Padded or cropped on both sides to the size of another tensor: the decoder of a U-Net."""

ODD = """
<ir_version: 8, opset_import: ["" : 17]>
odd (float[n] x) => (float[m] y)
<int64[1] two = {2}, int64[1] one = {1}, int64[1] zero = {0}>
{
    shape = Shape (x)
    twice = Mul (shape, two)
    end = Sub (twice, one)
    long = Concat <axis = 0> (x, x, x)
    y = Slice (long, zero, end, zero)
}
"""
"""An end of 2 * n - 1, which is negative for n = 0, where sympy compares n with 1/2: relative positions of attention."""


def agrees(model: onnx.ModelProto, program: CoreProgram, feeds: dict[str, np.ndarray]) -> None:
    (wanted,) = reference(model, feeds)
    for run in (eager, native_run):
        np.testing.assert_array_equal(run(program, list(feeds.values()))[0], wanted)


@pytest.fixture(scope="module")
def fitted() -> CoreProgram:
    return convert(read(onnx.parser.parse_model(FITTED)))


@pytest.mark.parametrize(("n", "k"), [(4, 7), (1, 1), (7, 2), (0, 3), (3, 0)])
def test_padded_to_another_size(fitted: CoreProgram, n: int, k: int) -> None:
    x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    agrees(onnx.parser.parse_model(FITTED), fitted, {"x": x, "like": np.ones((k, 2), np.float32)})


def test_what_is_padded_has_the_size_it_is_padded_to(fitted: CoreProgram) -> None:
    assert "_assert_scalar" not in fitted.exported.graph_module.code


def test_end_that_may_be_negative() -> None:
    model = onnx.parser.parse_model(ODD)
    program = convert(read(model))
    for n in (4, 1, 0):
        agrees(model, program, {"x": np.arange(n, dtype=np.float32)})
