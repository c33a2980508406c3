"""Products of quantized matrices against onnxruntime.

Weights stay within ±60: with signed weights onnxruntime's AVX2 kernels saturate sums of two products at 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import Array, agrees

RANDOM = np.random.default_rng(0)


def codes(dtype: Any, *shape: int, low: int = 0, high: int = 60) -> Array:
    return RANDOM.integers(low, high + 1, shape).astype(dtype)


def scales(*shape: int) -> Array:
    return RANDOM.uniform(0.01, 0.2, shape).astype(np.float32)


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


U, S, WIDE = np.uint8, np.int8, np.int32
LEFT, RIGHT, SIGNED = codes(U, 2, 3, 5, high=255), codes(U, 5, 4), codes(S, 5, 4, low=-60)

CASES: dict[str, tuple[str, list[Array | None], dict[str, Any]]] = {
    "dynamic, one scale": ("DynamicQuantizeMatMul", [floats(2, 3, 5), RIGHT, scales()], {}),
    "dynamic, by column": ("DynamicQuantizeMatMul", [floats(3, 5), SIGNED, scales(4), codes(S, 4, high=3), floats(4)], {}),
    "dynamic, a stack": ("DynamicQuantizeMatMul", [floats(2, 3, 5), codes(S, 2, 5, 4), scales(), None, floats(4)], {}),
    "dynamic, zeros": ("DynamicQuantizeMatMul", [np.zeros((2, 5), np.float32), RIGHT, scales(), codes(U, high=9)], {}),
    "to float, one scale": ("MatMulIntegerToFloat", [LEFT, SIGNED, scales(), scales()], {}),
    "to float, all": (
        "MatMulIntegerToFloat",
        [LEFT, RIGHT, scales(), scales(4), codes(U), codes(U, 4), floats(4)],
        {},
    ),
    "to float, signed": (
        "MatMulIntegerToFloat",
        [codes(S, 3, 5, low=-128), SIGNED, scales(), scales(4), codes(S), codes(S, 4)],
        {},
    ),
    "to float, no zero point of A": (
        "MatMulIntegerToFloat",
        [LEFT, SIGNED, scales(), scales(), None, codes(S), floats(4)],
        {},
    ),
    "16 bits": ("MatMulInteger16", [codes(np.int16, 2, 3, 5, low=-1000, high=1000), codes(np.int16, 5, 4, high=999)], {}),
    "gemm, float": (
        "QGemm",
        [LEFT[0].T, scales(), codes(U), RIGHT.T, scales(), codes(U)],
        {"transA": 1, "transB": 1, "alpha": 0.5},
    ),
    "gemm, float, C": (
        "QGemm",
        [codes(S, 3, 5), scales(), codes(S), SIGNED, scales(4), codes(S, 4), codes(WIDE, 3, 4, high=9999)],
        {},
    ),
    "gemm, quantized": (
        "QGemm",
        [LEFT[0], scales(), codes(U), SIGNED.T, scales(4), codes(S, 4), codes(WIDE, 4), scales() * 9, codes(U)],
        {"transB": 1},
    ),
    "gemm, quantized, no C": (
        "QGemm",
        [codes(S, 5, 3), scales(), codes(S), SIGNED, scales(), codes(S), None, scales() * 9, codes(S)],
        {"transA": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_with_symbolic_dims_at_run_time_and_with_constant_weights(name: str) -> None:
    op, inputs, attributes = CASES[name]
    inputs = [None if item is None else np.asarray(item) for item in inputs]
    tolerance = {"atol": 1} if op == "QGemm" and len(inputs) > 7 else {"rtol": 2e-5, "atol": 1e-5}
    constant = [index for index, item in enumerate(inputs) if index and item is not None]
    agrees(op, inputs, opset=1, domain="com.microsoft", dynamic=True, **tolerance, **attributes)
    agrees(op, inputs, opset=1, domain="com.microsoft", known=constant, native=False, **tolerance, **attributes)
