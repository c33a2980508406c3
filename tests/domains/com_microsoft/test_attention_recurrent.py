"""AttnLSTM against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import Array, agrees

RNG = np.random.default_rng(11)
S, B, WIDTH, H, M, K, A = 4, 2, 3, 5, 6, 7, 8
"""Steps, batch, sizes of the input, of the hidden state; rows of the memory and their size; size of the attention."""


def floats(*shape: int) -> Array:
    return (RNG.standard_normal(shape) / 2).astype(np.float32)


def inputs(directions: int, *, full: bool = False, layer: int = 0) -> list[Array | None]:
    own: list[Array | None] = [None] * 5
    lens = None
    if full:
        states = [floats(directions, B, H), floats(directions, B, H)]
        own = [floats(directions, 8 * H), np.array([4, 2], np.int32), *states, floats(directions, 3 * H)]
        lens = np.array([3, 6], np.int32)
    lstm = [floats(S, B, WIDTH), floats(directions, 4 * H, WIDTH + (layer or K)), floats(directions, 4 * H, H), *own]
    attention = [floats(directions, H, A), floats(directions, K, A), floats(directions, A), floats(B, M, K), lens]
    return [*lstm, *attention, floats(directions, K + H, layer) if layer else None]


CASES: dict[str, tuple[list[Array | None], dict[str, Any]]] = {
    "plain": (inputs(1), {}),
    "all inputs": (inputs(1, full=True, layer=9), {}),
    "backwards": (inputs(1, full=True), {"direction": "reverse", "clip": 0.4}),
    "both ways": (inputs(2, full=True, layer=2), {"direction": "bidirectional"}),
    "coupled gates": (inputs(2), {"direction": "bidirectional", "input_forget": 1}),
    "other activations": (
        inputs(1, layer=4),
        {"activations": ["HardSigmoid", "Relu", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_attention_over_a_memory(case):
    given, attributes = CASES[case]
    weights = {index for index in (1, 2, 3, 7, 8, 9, 10, 13) if given[index] is not None}
    known = [] if case == "all inputs" else sorted(weights)
    tolerance = {"rtol": 1e-4, "atol": 2e-6}
    agrees(
        "AttnLSTM", given, opset=1, domain="com.microsoft", dynamic=True, outputs=3, known=known, hidden_size=H,
        **tolerance, **attributes,
    )  # fmt: skip
