"""Quantized tables to gather from, against onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.one_node import Array, agrees

RANDOM = np.random.default_rng(0)


def codes(dtype: Any, *shape: int) -> Array:
    low, high = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128)}.get(np.dtype(dtype).name, (0, 256))
    return RANDOM.integers(low, high, shape).astype(dtype)


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def scales(*shape: int) -> Array:
    return np.asarray(RANDOM.uniform(0.02, 0.2, shape)).astype(np.float32)


PLACES = np.array([[0, 4, 2], [-1, -5, 3]], np.int64)
BYTES, UINT4, INT4, FP8, FP4 = np.uint8, ml_dtypes.uint4, ml_dtypes.int4, ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn
LAST = {"block_size": 16, "quantize_axis": 1}

GATHERED: dict[str, tuple[list[Array | None], dict[str, Any]]] = {
    "4 bits in bytes": ([codes(BYTES, 5, 24), PLACES, scales(5, 3)], {**LAST, "bits": 4}),
    "4 bits in bytes, zero points": ([codes(BYTES, 5, 24), PLACES, scales(5, 3), codes(BYTES, 5, 2)], {**LAST, "bits": 4}),
    "8 bits": ([codes(BYTES, 5, 40), PLACES.astype(np.int32), scales(5, 3), codes(BYTES, 5, 3)], {**LAST, "bits": 8}),
    "2 bits": ([codes(BYTES, 5, 2, 8), PLACES, scales(5, 2, 2)], {"block_size": 16, "quantize_axis": -1, "bits": 2}),
    "uint4": ([codes(UINT4, 5, 40), PLACES, scales(5, 3), codes(UINT4, 5, 3)], LAST),
    "int4": ([codes(INT4, 5, 40), PLACES, scales(5, 3)], LAST),
    "int4, other axes": (
        [codes(INT4, 3, 20, 5), PLACES, scales(3, 2, 5), codes(INT4, 3, 2, 5)],
        {"gather_axis": 2, "quantize_axis": 1, "block_size": 16},
    ),
    "int4, blocks that are gathered": (
        [codes(INT4, 20, 3), PLACES, scales(2, 3)],
        {"gather_axis": 0, "quantize_axis": 0, "block_size": 16},
    ),
    "in float16": ([codes(UINT4, 5, 32), PLACES, scales(5, 2).astype(np.float16)], LAST),
    "out of range": ([codes(INT4, 5, 32), np.array([5, -6, 1]), scales(5, 2)], LAST),
    "float8": ([floats(5, 32, dtype=FP8), PLACES, scales(5, 2)], LAST),
    "float8, one scale": ([floats(5, 20, dtype=FP8), PLACES, scales(1, 1)], {"block_size": 0, "quantize_axis": 1}),
    "float4": ([floats(5, 32, dtype=FP4), PLACES, scales(1, 2)], LAST),
}


@pytest.mark.parametrize("name", GATHERED)
def test_gather_block_quantized(name: str) -> None:
    inputs, attributes = GATHERED[name]
    known = [index for index, item in enumerate(inputs) if index != 1 and item is not None]
    agrees("GatherBlockQuantized", inputs, opset=1, domain="com.microsoft", known=known, dynamic=True, **attributes)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("segments", "masked"), [(True, True), (False, False)])
def test_embedding(dtype: Any, segments: bool, masked: bool) -> None:
    ids, mask = RANDOM.integers(0, 9, (2, 4)).astype(np.int32), np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)
    tables = [codes(dtype, 9, 8), codes(dtype, 6, 8), codes(dtype, 2, 8), codes(dtype, 8), codes(dtype, 8)]
    parameters: list[list[Array | None]] = [[scales() for _ in tables], [np.array(3, dtype) for _ in tables]]
    given: list[Array | None] = [ids, (ids % 2).astype(np.int32), *tables, mask if masked else None]
    if not segments:
        given[1] = given[4] = parameters[0][2] = parameters[1][2] = None
    inputs = [*given, *parameters[0], *parameters[1]]
    known = [index for index, item in enumerate(inputs) if index not in (0, 1, 7) and item is not None]
    agrees(
        "QEmbedLayerNormalization", inputs, opset=1, domain="com.microsoft", outputs=2, known=known, dynamic=True,
        atol=1e-4, epsilon=1e-6,
    )  # fmt: skip
