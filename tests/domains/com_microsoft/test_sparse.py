"""SparseToDenseMatMul: an input that is sparse is given with its zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx2torch_mlir.hosting.sessions import OnnxruntimeSession
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from onnx2torch_mlir.verification import verify
from tests.one_node import eager, native_run

RNG = np.random.default_rng(3)
MATRIX = RNG.integers(-4, 5, (5, 4)) * (RNG.random((5, 4)) < 0.4)


def product(dtype: Any, **attributes: Any) -> onnx.ModelProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("SparseToDenseMatMul", ["A", "B"], ["Y"], domain="com.microsoft", **attributes)
    sparse = helper.make_sparse_tensor_value_info("A", element, ["m", "k"])
    dense = helper.make_tensor_value_info("B", element, ["p", "q"])
    graph = helper.make_graph([node], "g", [sparse, dense], [helper.make_empty_tensor_value_info("Y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


CASES: list[tuple[Any, dict[str, Any]]] = [
    (np.float32, {"alpha": 2.5}),
    (np.float32, {"transA": 1, "alpha": -0.5}),
    (np.float32, {"transA": 1, "transB": 1}),
    (np.float64, {"transB": 1, "alpha": 2.0}),
    (np.int32, {"alpha": 2.0}),
    (np.int64, {}),
    (np.uint32, {"transA": 1}),
    (np.uint64, {}),
]


@pytest.mark.parametrize(("dtype", "attributes"), CASES)
def test_sparse_times_dense_equals_onnxruntime(dtype, attributes):
    model = product(dtype, **attributes)
    common = MATRIX.shape[0] if attributes.get("transA") else MATRIX.shape[1]
    dense = RNG.integers(0, 9, (3, common) if attributes.get("transB") else (common, 3))
    arrays = [(abs(MATRIX) if np.dtype(dtype).kind == "u" else MATRIX).astype(dtype), dense.astype(dtype)]
    [expected] = OnnxruntimeSession(model).run({"A": arrays[0], "B": arrays[1]})
    program = convert(read(model))
    for [result] in (eager(program, arrays), native_run(program, arrays)):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_sparse_inputs_are_made_up_and_verified():
    assert verify(product(np.float32), dims={"m": 3, "k": 4, "p": 4, "q": 5}).passed


def test_sparse_weights():
    model = product(np.float32)
    indices = np.ravel_multi_index(np.nonzero(MATRIX), MATRIX.shape)
    numbers = onnx.numpy_helper.from_array(MATRIX[np.nonzero(MATRIX)].astype(np.float32), "A")
    sparse = helper.make_sparse_tensor(numbers, onnx.numpy_helper.from_array(indices), list(MATRIX.shape))
    del model.graph.input[0]
    model.graph.sparse_initializer.append(sparse)
    dense = RNG.standard_normal((4, 3)).astype(np.float32)
    [result] = native_run(convert(read(model)), [dense])
    np.testing.assert_allclose(result, (MATRIX @ dense).astype(np.float32), rtol=1e-6)
