"""Cumulative sums along a dim behind which there are others, alone and between other nests: the loop over these is inside."""

import numpy as np
import pytest
from onnx import parser

import onnx2torch_mlir as o2m
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert

pytest.importorskip("torch_mlir")
from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.walks import nested

SHAPES = [(3, 5, 33), (1, 7, 16), (2, 1, 9), (4, 30, 1), (2, 0, 3), (0, 3, 4), (3, 4, 0), (5, 1000, 3)]


def model_of(type_, shape, text):
    given = ",".join(map(str, shape))
    graph = f"g ({type_}[{given}] x) => ({type_}[p,q,r] y) {{ {text} }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def along(axis, data="x", result="y"):
    return f"axis = Constant<value_int = {axis}>()\n {result} = CumSum({data}, axis)"


@pytest.mark.parametrize("disabled", ["", "all"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("type_", "dtype"), [("float", "f4"), ("int32", "i4"), ("double", "f8"), ("float16", "f2")])
def test_sums(type_, dtype, known, axis, disabled, monkeypatch):
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    rng = np.random.default_rng(0)
    open_one = None if known else o2m.compile(model_of(type_, "abc", along(axis)), threads=2)
    for shape in SHAPES:
        x = (4 * rng.standard_normal(shape)).astype(dtype)
        code = open_one or o2m.compile(model_of(type_, shape, along(axis)), threads=2)
        code.worth = 1
        wide = np.float32 if type_ == "float16" else x.dtype
        np.testing.assert_array_equal(code.run([x])[0], np.cumsum(x, axis, wide).astype(dtype))


@pytest.mark.parametrize("disabled", ["", "rows", "all"])
@pytest.mark.parametrize("known", [True, False])
def test_between_other_nests(known, disabled, monkeypatch):
    """What is before and behind it is computed for the right elements, whatever becomes one loop with what."""
    monkeypatch.setenv("ONNX2MLIR_DISABLE", disabled)
    text = f"n = Neg(x)\n {along(1, 'n', 's')}\n t = Softmax<axis = 1>(s)\n m = Softmax<axis = 2>(s)"
    text += "\n u = Add(t, m)\n y = Sub(u, n)"
    x = np.random.default_rng(0).standard_normal((3, 8, 33)).astype("f")

    def softmax(values, axis):
        powers = np.exp(values - values.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)

    sums = np.cumsum(-x, 1)
    found = o2m.compile(model_of("float", x.shape if known else "abc", text)).run([x])[0]
    np.testing.assert_allclose(found, softmax(sums, 1) + softmax(sums, 2) + x, rtol=1e-5, atol=1e-5)


def test_not_a_number_stays_in_its_column():
    x = np.ones((4, 3), np.float32)
    x[1] = [np.nan, np.inf, -np.inf]
    text = f"g (float[4,3] x) => (float[4,3] y) {{ {along(0)} }}"
    found = o2m.compile(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')).run([x])[0]
    np.testing.assert_array_equal(found, np.cumsum(x, 0))


@pytest.mark.parametrize(("axis", "loops"), [(0, 0), (1, 0), (2, 3)])
def test_the_engine_orders_the_loops(axis, loops):
    program = convert(read(model_of("float", (3, 5, 33), along(axis)))).lowered
    with ir.Context():
        names = [operation.name for operation in nested(ir.Module.parse(program.bytecode).operation)]
    assert names.count("scf.for") == loops
    assert ("linalg.generic" in names) == (not loops)
