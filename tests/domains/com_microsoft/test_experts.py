"""Mixtures of experts against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import Array, agrees

RANDOM = np.random.default_rng(0)
EXPERTS, HIDDEN, INNER = 4, 32, 16


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def codes(*shape: int) -> Array:
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


PLAIN: dict[str, dict[str, Any]] = {
    "relu": {},
    "gelu": {"activation_type": "gelu", "k": 2},
    "silu": {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1},
    "identity": {"activation_type": "identity", "k": 4},
    "sparse mixer": {"k": 2, "use_sparse_mixer": 1},
    "swiglu": {"activation_type": "swiglu", "k": 2, "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0},
    "swiglu with a limit": {"activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 0.7},
}


def plain(name: str, *, bias: bool) -> list[Array | None]:
    fused = 2 if "swiglu" in name else 1
    return [
        floats(2, 3, HIDDEN),
        floats(6, EXPERTS),
        floats(EXPERTS, fused * INNER, HIDDEN),
        floats(EXPERTS, fused * INNER) if bias else None,
        floats(EXPERTS, HIDDEN, INNER),
        floats(EXPERTS, HIDDEN) if bias else None,
    ]


@pytest.mark.parametrize("name", PLAIN)
def test_moe(name: str) -> None:
    inputs = plain(name, bias=name != "gelu")
    known = [index for index, item in enumerate(inputs) if index > 1 and item is not None]
    settings = {"k": 1, "activation_type": "relu", **PLAIN[name]}
    agrees("MoE", inputs, opset=1, domain="com.microsoft", known=known, dynamic=True, rtol=1e-4, atol=1e-4, **settings)


def test_what_no_cpu_kernel_knows_is_refused() -> None:
    with pytest.raises(Refusal, match="not interleaved"):
        agrees("MoE", plain("swiglu", bias=True), opset=1, domain="com.microsoft", expected=[None], activation_type="swiglu")


def weights(rows: int, columns: int, bits: int, block: int, points: bool) -> list[Array | None]:
    blocks = columns // block if block else 1
    scales = RANDOM.uniform(0.01, 0.1, (EXPERTS, rows, blocks) if block else (EXPERTS, rows)).astype(np.float32)
    packed = (EXPERTS, rows, -(-blocks * bits // 8)) if block else (EXPERTS, -(-rows * bits // 8))
    return [codes(EXPERTS, rows, columns * bits // 8), scales, codes(*packed) if points else None]


# bits, block size, zero points, router weights, whether the weights are constants, and further attributes
PACKED: dict[str, tuple[int, int, bool, bool, bool, dict[str, Any]]] = {
    "4 bits by row": (4, 0, False, False, True, {"k": 2}),
    "4 bits by row, zero points": (4, 0, True, False, False, {"k": 1, "activation_type": "gelu"}),
    "4 bits by block, swiglu": (4, 16, True, False, True, {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1}),
    "4 bits by block, tokens in 8": (4, 16, False, False, True, {"k": 2, "accuracy_level": 4}),
    "8 bits by row": (8, 0, True, False, True, {"k": 2, "normalize_routing_weights": 1}),
    "8 bits by block, tokens in 8": (8, 16, True, False, True, {"k": 2}),
    "8 bits by block at run time": (8, 16, True, False, False, {"k": 2}),
    "2 bits by block": (2, 16, True, False, True, {"k": 2, "activation_type": "silu"}),
    "router weights": (4, 16, False, True, True, {"k": 2}),
    "normalized router weights": (4, 0, False, True, True, {"k": 3, "normalize_routing_weights": 1}),
}


@pytest.mark.parametrize("name", PACKED)
def test_quantized_moe(name: str) -> None:
    bits, block, points, routed, constant, settings = PACKED[name]
    fused = 2 if "swiglu" in name else 1
    first, second = weights(fused * INNER, HIDDEN, bits, block, points), weights(HIDDEN, INNER, bits, block, points)
    inputs: list[Array | None] = [floats(6, HIDDEN), floats(6, EXPERTS), *first[:2], floats(EXPERTS, fused * INNER)]
    inputs += [*second[:2], floats(EXPERTS, HIDDEN), None, None, None, first[2], second[2], None]
    inputs.append(np.abs(floats(6, EXPERTS)) if routed else None)
    settings = {"activation_type": "relu", "expert_weight_bits": bits, **settings}
    if block:
        settings["block_size"] = block
    known = [index for index, item in enumerate(inputs) if 1 < index < 14 and item is not None] if constant else []
    agrees(
        "QMoE", inputs, opset=1, domain="com.microsoft", known=known, dynamic=constant, rtol=1e-3, atol=1e-3 * (1 << bits) / 16,
        **settings,
    )  # fmt: skip
