"""NonMaxSuppression against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.lowering import named
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import agrees, node_model, reference

NATIVE = True
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


@pytest.mark.parametrize("limit", [0, 5, 300])
def test_classes_one_by_one(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Natively, sorted boxes are compared with those that are chosen; the part's own program chooses the same."""
    taken: list[Any] = []
    lowering = named.suppressed_boxes
    monkeypatch.setattr(named, "suppressed_boxes", lambda *given: (taken.append(given), lowering(*given))[1])
    scores = RANDOM.standard_normal((2, 3, 200)).round(1).astype(np.float32)
    scores[0, 1, ::3], scores[1, 0, 5], scores[1, 2] = -np.inf, np.inf, -5
    numbers = [np.array([limit], np.int64), np.array([0.4], np.float32), np.array([-1], np.float32)]
    inputs = [boxes(2, 200, False), scores, *numbers]
    model = node_model("NonMaxSuppression", inputs, opset=11, known=[2], dynamic=True)
    feeds = {f"in{number}": array for number, array in enumerate(inputs) if number != 2}
    program = convert(read(model))
    (wanted,) = reference(model, feeds)
    for way in (program.eager(), program.compile()):
        np.testing.assert_array_equal(way.run(feeds)[0], wanted)
    assert len(taken) == 1
