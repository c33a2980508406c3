"""Quantized operators against onnxruntime: every optional input and attribute, both dtypes, with symbolic dims.

Numbers are onnxruntime's; one step of the result's scale is allowed where it rounds another float (see `CLOSE`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import Array, agrees

RANDOM = np.random.default_rng(0)

U, S, WIDE = np.uint8, np.int8, np.int32

CLOSE = {
    "QLinearSigmoid": "its logistic function is a rational approximation",
    "QLinearSoftmax": "it sums exponentials of another origin",
    "QLinearAveragePool": "the order of its sums",
    "QLinearGlobalAveragePool": "the order of its float operations",
    "QLinearAdd": "it adds with one rounding where the processor can",
    "QLinearMul": "it multiplies by the factor with one rounding where the processor can",
    "QLinearConv": "the order of its float operations",
}


def codes(dtype: Any, *shape: int, low: int | None = None, high: int | None = None) -> Array:
    limits = np.iinfo(dtype)
    least, most = limits.min if low is None else low, limits.max if high is None else high
    return np.asarray(RANDOM.integers(least, most + 1, shape)).astype(dtype)


def small(dtype: Any, *shape: int) -> Array:
    return codes(dtype, *shape, low=0, high=9)


def scales(*shape: int) -> Array:
    return np.asarray(RANDOM.uniform(0.02, 0.2, shape)).astype(np.float32)


def floats(*shape: int) -> Array:
    return (RANDOM.standard_normal(shape) * 20).astype(np.float32)


def number(value: float) -> Array:
    return np.array(value, np.float32)


Case = tuple[str, list[Array | None], dict[str, Any]]


def parameters(dtype: Any) -> list[Array]:
    return [scales(), small(dtype)]


def pointwise(dtype: Any) -> dict[str, Case]:
    x, y = codes(dtype, 2, 3, 20), codes(dtype, 3, 20)
    of = parameters
    table = [scales(), None, scales(), None]
    return {
        "add": ("QLinearAdd", [x, *of(dtype), y, *of(dtype), *of(dtype)], {}),
        "add, no zero point of C": ("QLinearAdd", [x, *of(dtype), y, *of(dtype), number(0.3)], {}),
        "mul": ("QLinearMul", [x, *of(dtype), y, *of(dtype), number(3.0), small(dtype)], {}),
        "mul, a scalar": ("QLinearMul", [x, *of(dtype), codes(dtype), *of(dtype), number(0.7)], {}),
        "leaky relu": ("QLinearLeakyRelu", [x, *of(dtype), *of(dtype)], {"alpha": 0.3}),
        "leaky relu, defaults": ("QLinearLeakyRelu", [x, *table], {}),
        "sigmoid": ("QLinearSigmoid", [x, *of(dtype), number(1 / 256), codes(dtype, low=0, high=0)], {}),
        "sigmoid, no zero points": ("QLinearSigmoid", [x, scales(), None, number(0.01), None], {}),
        "softmax": ("QLinearSoftmax", [x, *of(dtype), number(1 / 256), small(dtype)], {"opset_": 13}),
        "softmax along an axis": ("QLinearSoftmax", [x, scales(), None, number(0.01), small(dtype)], {"opset_": 13, "axis": 1}),
        "softmax of old": ("QLinearSoftmax", [x, *of(dtype), number(0.004), small(dtype)], {"opset_": 12, "axis": 1}),
        "concat": ("QLinearConcat", [*of(dtype), x, *of(dtype), x[:, :1], *of(dtype)], {"axis": 1}),
        "concat, one": ("QLinearConcat", [number(0.1), small(dtype), x, number(0.1), small(dtype)], {"axis": -1}),
        "where": ("QLinearWhere", [x > 20, x, *of(dtype), y, *of(dtype), *of(dtype)], {}),
        "quantize": ("QuantizeLinear", [floats(3, 4), *of(dtype)], {}),
        "quantize along an axis": ("QuantizeLinear", [floats(3, 4), scales(4), small(dtype, 4)], {"axis": -1}),
        "dequantize": ("DequantizeLinear", [x, *of(dtype)], {}),
        "dequantize along an axis": ("DequantizeLinear", [x, scales(3), small(dtype, 3)], {"axis": 1}),
        "dequantize, no zero point": ("DequantizeLinear", [x, scales()], {}),
    }


WIDER: dict[str, Case] = {
    **{
        f"quantize to {np.dtype(kind).name}": ("QuantizeLinear", [floats(3, 4) * 50, scales(4), small(kind, 4)], {"axis": 1})
        for kind in (np.uint16, np.int16)
    },
    **{
        f"dequantize {np.dtype(kind).name}": ("DequantizeLinear", [codes(kind, 3, 4), scales(), small(kind)], {})
        for kind in (np.uint16, np.int16)
    },
    "dequantize int32": ("DequantizeLinear", [codes(WIDE, 3, 4), scales()], {}),
    "quantize without a zero point": ("QuantizeLinear", [floats(3, 4), scales()], {}),
}


def windows(dtype: Any) -> dict[str, Case]:
    x, w = codes(dtype, 2, 4, 7, 6), codes(np.int8, 6, 2, 3, 2, low=-40, high=40)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    of_x, of_w, of_y = parameters(dtype), [scales(6), np.zeros(6, np.int8)], [number(9.0), small(dtype)]
    conv = [*of_x, w, *of_w, *of_y]
    bias = codes(WIDE, 6, low=-3000, high=3000)
    pool = [number(0.1), small(dtype), number(0.12), small(dtype)]
    return {
        "conv": ("QLinearConv", [x, *conv], {"group": 2, "kernel_shape": [3, 2], "pads": [1, 0, 1, 0]}),
        "conv, channels last": (
            "QLinearConv",
            [last, *conv, bias],
            {"group": 2, "kernel_shape": [3, 2], "channels_last": 1, "strides": [2, 1]},
        ),
        "average": ("QLinearAveragePool", [x, *pool], {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "strides": [2, 2]}),
        "average, channels last": (
            "QLinearAveragePool",
            [last, *pool],
            {"kernel_shape": [2, 3], "channels_last": 1, "ceil_mode": 1, "strides": [2, 2]},
        ),
        "average with padding": (
            "QLinearAveragePool",
            [x, *pool],
            {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1, "ceil_mode": 1, "strides": [2, 2]},
        ),
        "average, same size": ("QLinearAveragePool", [x, *pool], {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER"}),
        "average, no zero point of Y": ("QLinearAveragePool", [x, *pool[:3]], {"kernel_shape": [2, 2]}),
        "average of one axis": ("QLinearAveragePool", [codes(dtype, 2, 3, 9), *pool], {"kernel_shape": [4]}),
        "average of three axes": ("QLinearAveragePool", [codes(dtype, 1, 2, 4, 4, 4), *pool], {"kernel_shape": [2, 2, 3]}),
        "average of all": ("QLinearGlobalAveragePool", [x, *pool], {}),
        "average of all, channels last": ("QLinearGlobalAveragePool", [last, *pool], {"channels_last": 1}),
    }


CASES: dict[str, Case] = {
    **{f"{name}, {np.dtype(kind).name}": case for kind in (U, S) for name, case in pointwise(kind).items()},
    **{f"{name}, {np.dtype(kind).name}": case for kind in (U, S) for name, case in windows(kind).items()},
    **WIDER,
}


@pytest.mark.parametrize("name", CASES)
def test_with_symbolic_dims(name: str) -> None:
    op, inputs, attributes = CASES[name]
    tolerance = {"atol": 1.0} if op in CLOSE else {}
    agrees(op, inputs, opset=1, domain="com.microsoft", dynamic=True, **tolerance, **attributes)
