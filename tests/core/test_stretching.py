"""An axis that holds one element, or none where there is nothing to take it from, is broadcast as an axis of size 1 is."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import sympy

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, convert
from tests.one_node import eager, native_run, reference

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
shares (float[n, 3] x) => (float[n, 3] share, float[n, 3] first, float[a, 3] ends)
<int64[1] last = {-1}, int64[1] far = {9223372036854775807}, int64[1] zero = {0}, int64[1] one = {1}>
{
    end = Slice (x, last, far, zero)
    share = Div (x, end)
    begin = Slice (x, zero, one, zero)
    shape = Shape (x)
    first = Expand (begin, shape)
    ends = Concat <axis = 0> (begin, end)
}
"""


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL)


@pytest.fixture(scope="module")
def program(model: onnx.ModelProto) -> CoreProgram:
    return convert(read(model))


@pytest.mark.parametrize("size", [5, 1, 0])
def test_divided_by_its_last_row(model: onnx.ModelProto, program: CoreProgram, size: int) -> None:
    x = np.arange(1, 3 * size + 1, dtype=np.float32).reshape(size, 3)
    for run in (eager, native_run):
        for ours, theirs in zip(run(program, [x]), reference(model, {"x": x}), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_nothing_is_left_to_check(program: CoreProgram) -> None:
    assert "_assert_scalar" not in program.exported.graph_module.code


def test_differences_of_minima_and_maxima() -> None:
    n = sympy.Symbol("u0", integer=True)
    assert D.difference(n, D.maximum(0, n - 1)) == sympy.Min(n, 1)
    assert D.difference(n, sympy.Min(n, 4)) == sympy.Max(0, n - 4)
    assert D.stretches(sympy.Min(n, 1), n)
    assert not D.stretches(sympy.Min(n, 1), 2 * n + 1)
    assert not D.stretches(n, 2 * n)
    assert D.is_nonnegative(sympy.Min(n, 1))
    assert D.is_nonnegative(1 - sympy.Min(n, 1))
    assert not D.is_nonnegative(sympy.Max(n, 1) - 2)
