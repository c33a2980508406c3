"""Linear quantization and quantized products against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import agrees

RANDOM = np.random.default_rng(6)


def floats(*shape: int) -> Any:
    return (RANDOM.standard_normal(shape) * 40).astype(np.float32)


def codes(dtype: Any, *shape: int) -> Any:
    return RANDOM.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


SCALES = {
    "per tensor": ((), {}, 10),
    "one element": ((1,), {}, 13),
    "per axis": ((3,), {"axis": 1}, 13),
    "negative axis": ((4,), {"axis": -1}, 19),
    "by blocks": ((2, 3, 2), {"axis": 2, "block_size": 2}, 21),
    "by blocks with a rest": ((2, 2, 4), {"axis": 1, "block_size": 2}, 21),
}


def spread(parameter: Any, axis: int = 1, block_size: int = 0) -> Any:
    if block_size:
        return np.repeat(parameter, block_size, axis).take(range((2, 3, 4)[axis]), axis)
    sizes = [-1 if other == axis % 3 else 1 for other in range(3)]
    return parameter.reshape(sizes) if parameter.size > 1 else parameter


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_both_ways(name: str, dtype: Any) -> None:
    shape, attributes, opset = SCALES[name]
    opset = max(opset, 21) if np.dtype(dtype).itemsize > 1 else opset
    scale, zero = RANDOM.uniform(0.5, 2, shape).astype(np.float32), codes(dtype, *shape)
    data, limits = floats(2, 3, 4), np.iinfo(dtype)
    wide_scale, wide_zero = spread(scale, **attributes), spread(zero, **attributes).astype(np.int64)
    quantized = np.clip(np.rint(data / wide_scale) + wide_zero, limits.min, limits.max).astype(dtype)
    native = dtype is np.uint8
    agrees("QuantizeLinear", [data, scale, zero], opset=opset, native=native, expected=[quantized], **attributes)
    expected = ((quantized.astype(np.int64) - wide_zero) * wide_scale).astype(np.float32)
    agrees("DequantizeLinear", [quantized, scale, zero], opset=opset, native=native, expected=[expected], **attributes)


def test_halves_go_to_the_even_neighbour() -> None:
    data = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300], np.float32)
    agrees("QuantizeLinear", [data, np.array(1, np.float32), np.array(3, np.uint8)], opset=13)
    agrees("QuantizeLinear", [data, np.array(1, np.float32)], opset=13)


def test_declared_result_dtype() -> None:
    data, scale = floats(3), np.array(0.7, np.float32)
    agrees("QuantizeLinear", [data, scale], opset=21, output_dtype=TensorProto.INT8)
    with pytest.raises(Refusal, match="output_dtype"):
        inputs = [data, scale, np.array(1, np.uint8)]
        agrees("QuantizeLinear", inputs, opset=21, output_dtype=TensorProto.INT8, expected=[None])


def test_int32_without_zero_point() -> None:
    agrees("DequantizeLinear", [np.array([2**24 + 1, -7], np.int32), np.array(0.5, np.float32)], opset=13)


@pytest.mark.parametrize("data", [floats(3, 4), np.abs(floats(5)), np.zeros(3, np.float32), -np.abs(floats(2, 2))])
def test_dynamic_quantization(data: Any) -> None:
    agrees("DynamicQuantizeLinear", [data], opset=11, outputs=3, dynamic=True)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("per_column", [False, True])
def test_quantized_product(dtype: Any, per_column: bool) -> None:
    a, b = codes(dtype, 2, 3, 5), codes(dtype, 5, 4)
    size = (4,) if per_column else ()
    scales = [np.float32(0.02), RANDOM.uniform(0.01, 0.03, size).astype(np.float32), np.float32(0.3)]
    zeros = [dtype(3), RANDOM.integers(0, 9, size).astype(dtype), dtype(5)]
    product = (a.astype(np.int32) - int(zeros[0])) @ (b.astype(np.int32) - zeros[1].astype(np.int32))
    rescaled = np.rint(product.astype(np.float32) * (scales[0] * scales[1] / scales[2])) + int(zeros[2])
    expected = np.clip(rescaled, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    of_a, of_b, of_y = ([np.asarray(scale), np.asarray(zero)] for scale, zero in zip(scales, zeros, strict=True))
    inputs = [a, *of_a, b, *of_b, *of_y]
    agrees("QLinearMatMul", inputs, opset=10, expected=[expected], atol=1)
