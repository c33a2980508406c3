"""onnxruntime as the reference: exact where its kernels for some CPUs saturate, and still there where it has no exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.hosting import OnnxruntimeSession
from tests.one_node import node_model


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_products_of_bytes_are_exact(dtype: Any) -> None:
    a, b = np.full((2, 64), np.iinfo(dtype).max, dtype), np.full((64, 3), 127, np.int8)
    model = node_model("MatMulInteger", [a, b], opset=10, known=[1])
    (result,) = OnnxruntimeSession(model).run({"in0": a})
    np.testing.assert_array_equal(result, a.astype(np.int32) @ b.astype(np.int32))


def test_signed_products_have_a_session() -> None:
    a, b, scale, zero = np.ones((2, 4), np.int8), np.ones((4, 3), np.int8), np.array(1, np.float32), np.array(0, np.int8)
    model = node_model("QLinearMatMul", [a, scale, zero, b, scale, zero, scale, zero], opset=10, known=[3])
    feeds = {f"in{i}": value for i, value in enumerate([a, scale, zero, b, scale, zero, scale, zero]) if i != 3}
    (result,) = OnnxruntimeSession(model).run(feeds)
    np.testing.assert_array_equal(result, np.full((2, 3), 4, np.int8))
