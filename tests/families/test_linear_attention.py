"""LinearAttention and CausalConvWithState: one program of open sizes at several of them, against ONNX's reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import node_model, reference

Array = np.ndarray[Any, Any]
HEADS = 2


def floats(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def attention(
    batch: int, steps: int, keys: int, values: int, *, queries: int = HEADS, decay: int = 0, beta: int = 0
) -> list[Array | None]:
    return [
        floats(batch, steps, queries * keys),
        floats(batch, steps, HEADS * keys),
        floats(batch, steps, HEADS * values),
        floats(batch, HEADS, keys, values),
        -abs(floats(batch, steps, decay)) if decay else None,
        abs(floats(batch, steps, beta)) if beta else None,
    ]


def holds(op: str, cases: Sequence[list[Array | None]], **attributes: Any) -> None:
    """One program converted with all dims open gives the reference's results for every case."""
    program = None
    for inputs in cases:
        model = node_model(op, inputs, opset=27, outputs=2, dynamic=True, **attributes)
        feeds = {f"in{index}": value for index, value in enumerate(inputs) if value is not None}
        wanted = reference(model, feeds)
        if program is None:
            program = convert(read(model))
        for way in (program.eager(), program.compile()):
            for result, want in zip(way.run(feeds), wanted, strict=True):
                assert result.shape == want.shape and result.dtype == want.dtype
                np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)


ATTENTIONS: list[tuple[str, dict[str, int], list[dict[str, int]]]] = [
    ("linear", {"queries": 4}, [{}]),
    ("gated", {}, [{"decay": HEADS}, {"decay": HEADS * 3}]),  # each head's, and each key's
    ("gated_delta", {}, [{"decay": HEADS, "beta": HEADS}, {"decay": HEADS * 3, "beta": 1}]),
]


@pytest.mark.parametrize(("rule", "same", "rates"), ATTENTIONS)
def test_linear_attention(rule: str, same: dict[str, int], rates: list[dict[str, int]]) -> None:
    cases = [attention(batch, steps, 3, 2, **same, **rate) for batch, steps in ((2, 4), (1, 1)) for rate in rates]
    holds("LinearAttention", cases, q_num_heads=same.get("queries", HEADS), kv_num_heads=HEADS, update_rule=rule)


@pytest.mark.parametrize("stateful", [False, True])
def test_causal_convolution(stateful: bool) -> None:
    cases: list[list[Array | None]] = []
    for batch, channels, length, size in ((2, 3, 5, 4), (1, 1, 1, 1), (2, 3, 1, 3), (2, 3, 4, 20)):
        state = [floats(channels), floats(batch, channels, size - 1)] if stateful else []
        cases.append([floats(batch, channels, length), floats(channels, 1, size), *state])
    holds("CausalConvWithState", cases, activation="silu" if stateful else "none")


def test_a_rule_without_its_rates_is_refused() -> None:
    with pytest.raises(Refusal, match="needs beta"):
        model = node_model("LinearAttention", attention(2, 3, 4, 4, decay=2), opset=27, q_num_heads=2, kv_num_heads=2)
        convert(read(model))
