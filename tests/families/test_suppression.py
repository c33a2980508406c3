"""NonMaxSuppression against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import agrees

NATIVE = False
RANDOM = np.random.default_rng(5)


def boxes(batch: int, count: int, centered: bool) -> Any:
    corners = RANDOM.uniform(0, 3, (batch, count, 4)).astype(np.float32)
    if not centered:
        corners[..., 2:] = corners[..., :2] + RANDOM.uniform(-2, 2, (batch, count, 2)).astype(np.float32)
    return corners


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_random_boxes(limit: int, centered: int, dynamic: bool) -> None:
    for count in (1, 7, 20):
        scores = RANDOM.choice(np.linspace(0, 1, 9), (2, 3, count)).astype(np.float32)
        numbers = [np.array([limit], np.int64), np.array([0.2], np.float32), np.array([0.3], np.float32)]
        inputs = [boxes(2, count, bool(centered)), scores, *numbers]
        known: list[list[int]] = [[2, 3, 4]] if dynamic else [[], [2, 3, 4]]
        for positions in known:
            agrees(
                "NonMaxSuppression",
                inputs,
                opset=11,
                known=positions,
                dynamic=dynamic,
                native=NATIVE,
                center_point_box=centered,
            )


def test_defaults() -> None:
    pair: list[Any] = [boxes(1, 6, False), RANDOM.standard_normal((1, 2, 6)).astype(np.float32)]
    agrees("NonMaxSuppression", pair, opset=10, native=NATIVE)
    agrees("NonMaxSuppression", [*pair, np.array(4, np.int64)], opset=11, known=[2], native=NATIVE)
    limits: list[Any] = [np.array([4], np.int64), np.array([0.5], np.float32)]
    agrees("NonMaxSuppression", [*pair, *limits], opset=11, native=NATIVE)


def test_no_boxes() -> None:
    inputs = [boxes(1, 0, False), np.zeros((1, 2, 0), np.float32), np.array([4], np.int64)]
    want = [np.zeros((0, 3), np.int64)]
    agrees("NonMaxSuppression", inputs, opset=11, dynamic=True, known=[2], expected=want, native=NATIVE)
