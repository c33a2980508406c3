"""Positions that are known are copied as runs: what is made of which, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from onnx2torch_mlir.families.runs import runs_of
from tests.one_node import agrees


@pytest.mark.parametrize(
    ("positions", "runs"),
    [
        ([], []),
        ([4], [(4, 0, 1)]),
        ([0, 1, 2], [(0, 1, 3)]),
        ([2, 1, 0, 1, 2], [(2, -1, 3), (1, 1, 2)]),
        ([0, 0, 0, 1, 2, 2, 2], [(0, 0, 3), (1, 1, 2), (2, 0, 2)]),
        ([3, 0, 1, 2, 3, 0], [(3, 0, 1), (0, 1, 4), (0, 0, 1)]),
        ([0, 2, 4, 6], None),
        ([1, 3, 1, 3], None),
    ],
)
def test_runs(positions, runs):
    assert runs_of(positions, 3) == runs
    if runs:
        assert [first + step * i for first, step, count in runs for i in range(count)] == positions


def calls(program):
    return [str(node.target).split(".")[1] for node in program.exported.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("dtype", ["f4", "u1", "?", "i8"])
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("shape", "low", "high", "whole"),
    [
        ((2, 5, 7), (0, 1, 3), (0, 2, 0), True),
        ((1, 4, 1), (0, 3, 0), (0, 3, 0), True),
        ((3, 2, 2), (0, 0, 9), (0, 0, 9), False),
        ((3, 6, 8), (0, -2, 2), (0, 1, -3), True),
    ],
)
def test_pads(shape, low, high, whole, mode, dtype):
    x = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 99, shape).astype(dtype)
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for a, b, size in zip(low, high, shape, strict=True))
    expected = np.pad(x[cut], [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)], mode)
    inputs = [x, np.array([*low, *high])]
    program = agrees("Pad", inputs, opset=19, known=[1], mode=mode, expected=[expected])
    assert ("index_select" in calls(program)) == (not whole and mode != "edge")
    agrees("Pad", inputs, opset=19, known=[1], mode=mode, expected=[expected], dynamic=True)


@pytest.mark.parametrize(
    ("scales", "by_index"),
    [((1, 1, 2, 3), 0), ((1, 1, 1, 4), 0), ((1, 1, 2.5, 2), 1), ((1, 1, 0.5, 3), 1), ((2, 3, 1, 1), 0), ((1, 1, 0.5, 0.7), 2)],
)
@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel"])
def test_whole_scales(scales, by_index, mode):
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 12)).astype("f")
    attributes = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": "floor"}
    if mode == "half_pixel":
        attributes["nearest_mode"] = "round_prefer_floor"
    inputs = [x, None, np.array(scales, np.float32)]
    program = agrees("Resize", inputs, opset=19, known=[2], **attributes)
    if mode == "asymmetric":
        assert calls(program).count("index_select") == by_index
    agrees("Resize", inputs, opset=19, known=[2], dynamic=True, **attributes)
