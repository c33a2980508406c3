"""Weights of a few bits, in blocks, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import Array, agrees

RANDOM = np.random.default_rng(0)


def codes(*shape: int) -> Array:
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


def floats(*shape: int, dtype: Any = np.float32) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def weights(bits: int, block: int, k: int, n: int, dtype: Any = np.float32) -> list[Array | None]:
    blocks = -(-k // block)
    return [codes(n, blocks, block * bits // 8), RANDOM.uniform(0.01, 0.1, (n, blocks)).astype(dtype)]


def points(bits: int, block: int, k: int, n: int) -> Array:
    blocks = -(-k // block)
    return codes(n, -(-blocks * bits // 8))


# bits, block size, K, N, kind of zero points, accuracy level, dtype, and whether there are a bias and g_idx
NBITS: dict[str, tuple[Any, ...]] = {
    "4 bits": (4, 32, 100, 5, "", 0, np.float32, False, False),
    "4 bits, whole blocks": (4, 16, 64, 5, "packed", 0, np.float32, True, False),
    "4 bits, a large block": (4, 256, 300, 7, "packed", 1, np.float32, True, False),
    "4 bits, floating zero points": (4, 32, 96, 6, "float", 0, np.float32, False, False),
    "4 bits, groups": (4, 32, 96, 6, "packed", 0, np.float32, False, True),
    "4 bits, groups, floating zero points": (4, 16, 64, 6, "float", 0, np.float32, True, True),
    "4 bits, float16": (4, 32, 100, 5, "packed", 0, np.float16, True, False),
    "4 bits, rows in 8 bits": (4, 32, 100, 5, "packed", 4, np.float32, True, False),
    "8 bits": (8, 64, 130, 4, "packed", 0, np.float32, True, False),
    "8 bits, rows in 8 bits": (8, 128, 130, 4, "", 4, np.float32, False, False),
    "2 bits": (2, 16, 40, 4, "packed", 0, np.float32, False, False),
    "2 bits, rows in 8 bits": (2, 64, 70, 4, "", 4, np.float32, False, False),
    "2 bits, no kernel for 8": (2, 16, 40, 4, "", 4, np.float32, False, False),
}


@pytest.mark.parametrize("name", NBITS)
def test_products_with_packed_weights(name: str) -> None:
    bits, block, k, n, kind, level, dtype, with_bias, with_groups = NBITS[name]
    zero = {"": None, "packed": points(bits, block, k, n), "float": floats(n, -(-k // block), dtype=dtype) + 7}[kind]
    groups = RANDOM.integers(0, -(-k // block), k).astype(np.int32) if with_groups else None
    bias = floats(n, dtype=dtype) if with_bias else None
    inputs = [floats(2, 3, k, dtype=dtype), *weights(bits, block, k, n, dtype), zero, groups, bias]
    known = [index for index, item in enumerate(inputs) if index and item is not None]
    # Of weights that were packed for a device the kernel on the CPU takes no notice.
    sizes = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": level, "weight_prepacked": int(bits == 8)}
    precision = {"rtol": 2e-3, "atol": 2e-3} if dtype is np.float16 else {"rtol": 1e-4, "atol": 1e-4}
    agrees("MatMulNBits", inputs, opset=1, domain="com.microsoft", known=known, dynamic=True, **precision, **sizes)
    if level == 0 and not with_groups:
        agrees("MatMulNBits", inputs, opset=1, domain="com.microsoft", native=False, **precision, **sizes)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("k", "n"), [(64, 5), (63, 5)])
def test_products_with_bitsandbytes_weights(kind: int, k: int, n: int) -> None:
    inputs = [floats(2, 3, k), codes((n * k + 1) // 2), np.abs(floats(-(-n * k // 16)))]
    sizes = {"K": k, "N": n, "block_size": 16, "quant_type": kind}
    agrees("MatMulBnb4", inputs, opset=1, domain="com.microsoft", known=[1, 2], dynamic=True, atol=1e-5, **sizes)


def test_bitsandbytes_weights_that_are_not_transposed_are_refused() -> None:
    inputs = [floats(3, 5), codes(40), floats(5)]
    sizes = {"K": 16, "N": 5, "block_size": 16, "quant_type": 0, "transB": 0}
    with pytest.raises(Refusal, match="as they are"):
        agrees("MatMulBnb4", inputs, opset=1, domain="com.microsoft", expected=[None], **sizes)


@pytest.mark.parametrize(("kind", "block", "head"), [(0, 32, 4), (1, 32, 5), (2, 64, 4)])
def test_products_with_blobs(kind: int, block: int, head: int) -> None:
    """Against the layout that onnxruntime's packing function writes: it has no kernel for every processor."""
    k, n = 96 + 10, 3
    blocks = -(-k // block)
    numbers = RANDOM.integers(0, 16, (n, blocks, block // 32, 32))
    scales = RANDOM.uniform(0.1, 1, (n, blocks)).astype(np.float32)
    points = RANDOM.integers(0, 16, (n, blocks)) if head == 5 else np.full((n, blocks), 8)
    packed = (numbers[..., :16] | numbers[..., 16:] << 4).astype(np.uint8).reshape(n, blocks, -1)
    parts = [scales[..., None].view(np.uint8), points[..., None].astype(np.uint8)[..., : head - 4], packed]
    weights = (numbers.reshape(n, blocks, block) - points[..., None]) * scales[..., None]
    a = floats(2, k)
    expected = a @ weights.reshape(n, -1)[:, :k].T.astype(np.float32)
    inputs = [a, np.concatenate(parts, 2).reshape(-1), np.array([k, n])]
    agrees(
        "MatMulFpQ4", inputs, opset=1, domain="com.microsoft", known=[1, 2], expected=[expected], dynamic=True,
        atol=1e-3, rtol=1e-5, blk_quant_type=kind,
    )  # fmt: skip


def test_another_number_of_bits_is_refused() -> None:
    inputs = [floats(2, 32), codes(4, 1, 12), floats(4, 1)]
    with pytest.raises(Refusal, match="3 bits"):
        agrees("MatMulNBits", inputs, opset=1, domain="com.microsoft", expected=[None], K=32, N=4, bits=3, block_size=32)
