"""Activations against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import agrees

EDGES = np.array([-np.inf, -200.0, -4.0, -0.5, -0.0, 0.0, 0.3, 0.5, 2.0, 90.0, 200.0, np.inf], np.float32)

CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "celu": ("Celu", 12, {"alpha": 2.0}),
    "elu": ("Elu", 6, {"alpha": 1.5}),
    "selu": ("Selu", 6, {}),
    "selu, old": ("Selu", 22, {"alpha": 1.6732, "gamma": 1.0507}),
    "leaky": ("LeakyRelu", 6, {"alpha": 0.1}),
    "leaky, default": ("LeakyRelu", 16, {}),
    "thresholded": ("ThresholdedRelu", 10, {"alpha": 0.4}),
    "hard sigmoid": ("HardSigmoid", 6, {"alpha": 0.3, "beta": 0.4}),
    "softplus": ("Softplus", 1, {}),
    "shrink": ("Shrink", 9, {"bias": 0.2, "lambd": 0.45}),
    "clip": ("Clip", 6, {"min": -0.5, "max": 3.0}),
    "clip, default": ("Clip", 6, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_floats(name: str) -> None:
    op, opset, attributes = CASES[name]
    with np.errstate(all="ignore"):
        agrees(op, [EDGES], opset=opset, dynamic=True, rtol=1e-5, **attributes)


@pytest.mark.parametrize("op", ["HardSwish", "Mish", "Gelu"])
def test_younger_ones(op: str) -> None:
    agrees(op, [EDGES[1:-1]], opset=20, dynamic=True, rtol=1e-5)


def test_gelu_by_tanh() -> None:
    agrees("Gelu", [EDGES[1:-1]], opset=20, approximate="tanh", rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_swish(alpha: float) -> None:
    data = EDGES[1:-1]
    expected = data / (1 + np.exp(-alpha * data.astype(np.float64)))
    agrees("Swish", [data], opset=24, alpha=alpha, expected=[expected.astype(np.float32)])


def test_swiglu() -> None:
    a, b = EDGES[2:-2], EDGES[2:-2][::-1].copy()
    expected = a / (1 + np.exp(-a.astype(np.float64))) * b
    agrees("SwiGLU", [a, b], opset=28, expected=[expected.astype(np.float32)])


@pytest.mark.parametrize("op", ["Elu", "LeakyRelu", "Softplus", "HardSigmoid", "Selu"])
def test_half_rounds_once(op: str) -> None:
    agrees(op, [EDGES[2:9].astype(np.float16)], opset=22, native=True, rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int32, np.uint8, np.uint64])
@pytest.mark.parametrize("bounds", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("known", [False, True])
def test_clip_by_inputs(dtype: Any, bounds: tuple[bool, bool], known: bool) -> None:
    data = np.arange(12).astype(dtype).reshape(3, 4)
    limits = [np.array(value, dtype) if used else None for value, used in zip((3, 8), bounds, strict=True)]
    positions = [index for index, used in enumerate(bounds, start=1) if used and known]
    agrees("Clip", [data, *limits], opset=13, known=positions, dynamic=True, native=dtype in (np.float32, np.uint64))


def test_clip_where_the_limits_cross() -> None:
    agrees("Clip", [np.arange(5.0, dtype=np.float32), np.array(4, np.float32), np.array(2, np.float32)], opset=13)


@pytest.mark.parametrize("opset", [6, 7, 9, 16])
@pytest.mark.parametrize("slope", [(3,), (1,), (3, 1, 1)])
def test_prelu(opset: int, slope: tuple[int, ...]) -> None:
    data = np.random.default_rng(0).standard_normal((2, 3, 4, 3)).astype(np.float32)
    factor = np.array([0.1, 0.2, 0.3], np.float32)[: slope[0]].reshape(slope)
    by_channel = factor.reshape(3, 1, 1) if opset == 6 and slope == (3,) else factor
    agrees("PRelu", [data, factor], opset=opset, expected=[np.where(data < 0, data * by_channel, data)])
