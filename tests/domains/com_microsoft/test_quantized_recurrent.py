"""DynamicQuantizeLSTM against onnxruntime, which with several threads quantizes parts of a batch by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import Array, agrees

RANDOM = np.random.default_rng(3)
STEPS, INPUTS, HIDDEN = 4, 3, 5


def codes(dtype: Any, *shape: int) -> Array:
    return RANDOM.integers(0 if dtype is np.uint8 else -60, 61, shape).astype(dtype)


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def inputs(directions: int, dtype: Any, *, by_channel: bool, full: bool, batch: int = 1) -> list[Array | None]:
    wide = (directions, 4 * HIDDEN) if by_channel else (directions,)
    zero = np.full(wide, 0 if dtype is np.int8 else 7, dtype)
    scales = [RANDOM.uniform(0.005, 0.02, wide).astype(np.float32) for _ in range(2)]
    states: list[Array | None] = [None] * 5
    if full:
        states = [
            floats(directions, 8 * HIDDEN),
            np.array([3, 2][:batch], np.int32),
            floats(directions, batch, HIDDEN),
            floats(directions, batch, HIDDEN),
            floats(directions, 3 * HIDDEN),
        ]
    weights = [codes(dtype, directions, INPUTS, 4 * HIDDEN), codes(dtype, directions, HIDDEN, 4 * HIDDEN)]
    return [floats(STEPS, batch, INPUTS), *weights, *states, scales[0], zero, scales[1], zero]


CASES: dict[str, tuple[list[Array | None], dict[str, Any]]] = {
    "forward": (inputs(1, np.int8, by_channel=False, full=False), {}),
    "reverse, all inputs": (inputs(1, np.uint8, by_channel=False, full=True), {"direction": "reverse"}),
    "both ways, by channel": (inputs(2, np.int8, by_channel=True, full=True), {"direction": "bidirectional", "clip": 2.0}),
    "coupled gates": (inputs(1, np.uint8, by_channel=True, full=False), {"input_forget": 1}),
    "a batch": (inputs(2, np.int8, by_channel=False, full=True, batch=2), {"direction": "bidirectional"}),
    "other activations": (
        inputs(1, np.int8, by_channel=False, full=False),
        {"activations": ["HardSigmoid", "Relu", "Tanh"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_lstm(name: str) -> None:
    given, attributes = CASES[name]
    tolerance = 2e-2 if name == "a batch" else 1e-5
    known = [index for index, item in enumerate(given) if index in (1, 2, 8, 9, 10, 11)]
    agrees(
        "DynamicQuantizeLSTM", given, opset=1, domain="com.microsoft", outputs=3, known=known, dynamic=True,
        hidden_size=HIDDEN, rtol=0, atol=tolerance, **attributes,
    )  # fmt: skip
