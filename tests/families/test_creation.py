"""Tensors made of sizes and numbers, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.one_node import agrees

NATIVE = True


def ramp(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


@pytest.mark.parametrize("bounds", [{}, {"start": 1}, {"end": 2}, {"start": -2, "end": -1}, {"start": 2, "end": 9}])
@pytest.mark.parametrize("dynamic", [False, True])
def test_shape(bounds, dynamic):
    agrees("Shape", [ramp(2, 0, 4)], opset=15, dynamic=dynamic, native=dynamic, **bounds)


@pytest.mark.parametrize("dynamic", [False, True])
def test_shape_and_size_of_old_opsets(dynamic):
    agrees("Shape", [ramp(2, 3)], opset=1, dynamic=dynamic, native=dynamic)
    agrees("Size", [ramp(2, 3)], opset=1, dynamic=dynamic, native=dynamic)
    agrees("Size", [ramp()], opset=21, dynamic=dynamic, native=dynamic)


CONSTANTS = [
    {"value": helper.make_tensor("v", TensorProto.INT8, [2, 2], [1, -2, 3, -4])},
    {"value": helper.make_tensor("v", TensorProto.FLOAT16, [], [0.5])},
    {"value_int": -3},
    {"value_ints": [1, 2, 3]},
    {"value_float": 0.25},
    {"value_floats": [0.5, -1.5]},
]


@pytest.mark.parametrize("attributes", CONSTANTS, ids=lambda item: next(iter(item)))
def test_constant(attributes):
    agrees("Constant", [], opset=13, native=NATIVE, **attributes)


def test_constant_string():
    program = agrees("Constant", [], opset=13, value_string="a", expected=[None])
    assert program.compile().run([])[0].tolist() == "a"


@pytest.mark.parametrize("dims", [[2, 3], [0, 2], []])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("element", [None, (TensorProto.INT64, 7), (TensorProto.BOOL, 1), (TensorProto.FLOAT16, -0.5)])
def test_constant_of_shape(dims, known, element):
    attributes = {} if element is None else {"value": helper.make_tensor("v", element[0], [1], [element[1]])}
    agrees(
        "ConstantOfShape",
        [np.array(dims, dtype=np.int64)],
        opset=9,
        known=[0] if known else [],
        native=NATIVE,
        **attributes,
    )


RANGES = [
    ("int64", 3, 20, 4),
    ("int64", 10, -5, -3),
    ("int32", 0, 5, 1),
    ("int16", 4, 1, 1),
    ("float32", 0, 1, 0.25),
    ("float32", 5, 1, -1.5),
    ("float64", 1, 2, 0.1),
]


@pytest.mark.parametrize(("dtype", "start", "limit", "delta"), RANGES)
@pytest.mark.parametrize("known", [[0, 1, 2], [2], []])
def test_range(dtype, start, limit, delta, known):
    inputs = [np.array(item, dtype=dtype) for item in (start, limit, delta)]
    agrees("Range", inputs, opset=11, known=known, native=NATIVE)


@pytest.mark.parametrize("k", [-2, 0, 1, 5])
@pytest.mark.parametrize("dynamic", [False, True])
def test_eye_like(k, dynamic):
    agrees("EyeLike", [ramp(3, 4)], opset=9, k=k, dynamic=dynamic, native=dynamic)
    agrees("EyeLike", [ramp(3, 3)], opset=9, k=k, dtype=TensorProto.INT32, dynamic=dynamic, native=dynamic)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 0, 2, 9])
@pytest.mark.parametrize("known", [True, False])
def test_trilu(upper, k, known):
    inputs = [ramp(2, 3, 4) + 1] + ([] if k is None else [np.array(k)])
    agrees("Trilu", inputs, opset=14, upper=upper, known=[1] if known and k else [], dynamic=not known, native=NATIVE)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
def test_one_hot(axis, known, dtype):
    inputs = [np.array([[0, 3, -1], [5, -4, 2]], dtype=dtype), np.array(4, dtype=dtype), np.float32([2, 5])]
    agrees("OneHot", inputs, opset=11, axis=axis, known=[1] if known else [], native=NATIVE)
