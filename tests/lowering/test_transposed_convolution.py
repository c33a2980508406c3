"""Transposed convolutions on native code: with strides each phase is a convolution of its own, where that pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.lowering.transposed_convolution import _along
from tests.one_node import agrees

MANY, FEW = 16, 3

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = {
    "odd kernel": ((2, 6, 7, 5), (3, 3), MANY, {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
    "few results": ((2, 6, 7, 5), (3, 3), FEW, {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
    "even kernel": ((1, 5, 4, 4), (4, 4), MANY, {"strides": [2, 2], "pads": [1] * 4}),
    "no padding": ((1, 5, 4, 3), (5, 3), MANY, {"strides": [3, 2]}),
    "one place": ((1, 4, 1, 1), (4, 3), MANY, {"strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "fewer results than phases": ((1, 4, 1), (4,), MANY, {"strides": [3], "pads": [1, 2]}),
    "uneven padding": ((1, 4, 5, 6), (5, 5), MANY, {"strides": [2, 3], "pads": [0, 2, 3, 1], "output_padding": [1, 2]}),
    "padding beyond the first taps": ((1, 4, 6), (3,), MANY, {"strides": [2], "pads": [2, 2]}),
    "output shape": ((1, 4, 5, 5), (3, 3), MANY, {"strides": [2, 2], "output_shape": [10, 9]}),
    "groups": ((1, 8, 5, 5), (3, 3), 2 * MANY, {"strides": [2, 2], "group": 2, "pads": [1] * 4}),
    "depthwise": ((1, MANY, 5, 5), (3, 3), MANY, {"strides": [2, 2], "group": MANY, "pads": [1] * 4}),
    "stride along one dim": ((1, 4, 5, 6), (3, 3), MANY, {"strides": [1, 2], "pads": [1] * 4}),
    "stride beyond the kernel": ((1, 4, 5, 6), (3, 2), MANY, {"strides": [2, 3], "pads": [1, 0, 0, 0]}),
    "one dim": ((2, 4, 11), (7,), MANY, {"strides": [4], "pads": [2, 1]}),
    "three dims": ((1, 4, 3, 4, 2), (3, 3, 3), MANY, {"strides": [2, 2, 2], "pads": [1] * 6, "output_padding": [1, 0, 1]}),
    "too many phases": ((1, 4, 4, 4), (7, 7), MANY, {"strides": [5, 5], "pads": [1] * 4}),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_agrees(case: str, dynamic: bool) -> None:
    shape, kernel, filters, attributes = CASES[case]
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(np.float32)
    w = random.standard_normal((shape[1], filters // attributes.get("group", 1), *kernel)).astype(np.float32)
    b = random.standard_normal(filters).astype(np.float32)
    agrees("ConvTranspose", [x, w, b], opset=11, known=[1, 2], dynamic=dynamic, rtol=1e-4, atol=1e-4, **attributes)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_floats(dtype: Any) -> None:
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(dtype) for shape in ((1, 4, 5, 5), (4, MANY, 3, 3)))
    agrees("ConvTranspose", [x, w], opset=22, known=[1], rtol=1e-2, atol=1e-2, strides=[2, 2], pads=[1] * 4)


@pytest.mark.parametrize(("kernel", "step", "low"), [(3, 2, 1), (4, 2, 1), (7, 4, 0), (5, 3, 2)])
def test_phases_share_the_taps(kernel: int, step: int, low: int) -> None:
    phases = _along(kernel, step, low)
    met = sorted(phase.tap + step * t for phase in phases for t in range(phase.taps))
    assert met == list(range(kernel))
    for phase in phases:
        # The first result's last tap reads ``before`` places before the input.
        assert phase.first + low - (phase.tap + step * (phase.taps - 1)) == -step * phase.before
