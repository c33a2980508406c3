"""Copies between arrays that are dense along different axes: squares and what is left of them, known sizes and others."""

import numpy as np
import pytest
from onnx import parser

import onnx2torch_mlir as o2m
from onnx2torch_mlir.engine.compiler.vector_unit import of_host

LANES = of_host().lanes
CASES = {
    "squares": ([1, 0], (2 * LANES, 3 * LANES)),
    "rests": ([1, 0], (2 * LANES + 1, 3 * LANES - 1)),
    "shorter than a vector": ([1, 0], (LANES - 1, LANES // 2)),
    "one side shorter": ([1, 0], (LANES // 2 + 1, 2 * LANES + 3)),
    "the other side shorter": ([1, 0], (3 * LANES - 1, LANES - 2)),
    "channels last": ([0, 2, 3, 1], (2, 17, 9, 31)),
    "channels first": ([0, 3, 1, 2], (2, 9, 31, 17)),
    "turned around": ([2, 1, 0], (LANES + 3, 5, LANES + 2)),
    "nothing": ([1, 0], (0, 9)),
}
TYPES = {"float": np.float32, "int32": np.int32, "int64": np.int64, "float16": np.float16}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_turned(name, known, type_, threads):
    order, shape = CASES[name]
    x = np.arange(np.prod(shape)).reshape(shape).astype(TYPES[type_])
    before, after = (",".join(f"{letter}{i}" for i in range(x.ndim)) for letter in "dr")
    given = ",".join(map(str, shape)) if known else before
    text = f"g ({type_}[{given}] x) => ({type_}[{after}] y) {{ y = Transpose <perm = {order}> (x) }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    np.testing.assert_array_equal(o2m.compile(model, threads=threads).run([x])[0], x.transpose(order))


@pytest.mark.parametrize("disabled", ["", "turns"])
def test_into_the_middle_of_an_image(disabled, monkeypatch):
    """A convolution's padded input is turned into place: nothing around it is written."""
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, LANES + 1, 7, 19), np.float32), rng.standard_normal((5, LANES + 1, 3, 3), np.float32)
    text = f"g (float[2,{LANES + 1},7,19] x, float[5,{LANES + 1},3,3] w) => (float[a,b,c,d] y)"
    text += " { y = Conv <pads = [1,1,1,1]> (x, w) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    found = o2m.compile(model).run([x, w])[0]
    np.testing.assert_allclose(found, np.einsum("nchwpq,fcpq->nfhw", windows, w), rtol=1e-4, atol=1e-4)
