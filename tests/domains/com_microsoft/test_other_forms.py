"""Earlier forms of ONNX's operators, and what onnxruntime has beside them, against its kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import agrees, node_model

RNG = np.random.default_rng(5)


def reals(*shape: int, dtype: str = "f4") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def int32s(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


X, W, B = reals(2, 3, 5, 4), reals(3, 2, 3, 3), reals(2)
MASK = RNG.integers(0, 4, (1, 1, 5, 4)).astype(np.int32)
PADS = np.array([1, 0, 1, 1])
WORDS = int32s(3, 1, 4, 1, 5, 2, 6, 2, 7, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 2, 8, 1, 8, 0, 2, 8).reshape(4, 7)
EMBEDDING = [reals(6, 1, 3, 5), reals(6), reals(9, 5)]
REGIONS = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9], [-0.2, 0.1, 0.5, 1.3], [0.9, 0.9, 0.1, 0.2]], np.float32)
IMAGES = int32s(0, 1, 1, 0)
KERNEL, STEPS = {"kernel_shape": [3, 3]}, {"strides": [2, 1]}
DYNAMIC = {"native": True, "dynamic": True}
STATIC = {"native": True}

CASES: list[tuple[str, list[Any], dict[str, Any], dict[str, Any]]] = [
    ("ConvTransposeWithDynamicPads", [X, W, PADS, B], {"strides": [2, 1]}, STATIC),
    ("ConvTransposeWithDynamicPads", [X, W, PADS, B], {**KERNEL, **STEPS, "output_padding": [1, 0]}, {"dynamic": True}),
    ("ConvTransposeWithDynamicPads", [X, W, PADS, B], {"strides": [2, 1], "dilations": [1, 2]}, {"known": [2]}),
    ("MaxpoolWithMask", [X, MASK], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0]}, STATIC),
    ("MaxpoolWithMask", [X[:, :, 0], MASK[:, :, 0]], {"kernel_shape": [3], "pads": [1, 1]}, {}),
    ("MaxpoolWithMask", [X[..., None] * reals(4), MASK[..., None] + int32s(0, 1, 0, 2)], {"kernel_shape": [2, 2, 3]}, {}),
    ("MaxpoolWithMask", [X, 0 * MASK], {"kernel_shape": [2, 2]}, {}),
    ("WordConvEmbedding", [WORDS, *EMBEDDING], {}, STATIC),
    ("WordConvEmbedding", [WORDS, *EMBEDDING], {"embedding_size": 6}, {**DYNAMIC, "known": [1, 2, 3]}),
    ("SampleOp", [X], {}, {}),
    ("ExpandDims", [X, int32s(-1)[0]], {}, {"known": [1], "dynamic": True}),
    ("ExpandDims", [X, int32s(1)[0]], {}, {"known": [1]}),
    ("ExpandDims", [X, int32s(-2)], {}, {"known": [1]}),
    ("UnfoldTensor", [X], {"size": 2, "dim": 2, "step": 2}, DYNAMIC),
    ("UnfoldTensor", [X], {"size": 3}, {}),
    ("UnfoldTensor", [reals(5)], {"size": 5}, {}),
    ("Pad", [X, np.array([0, 0, 1, 2, 0, 0, 1, -1]), reals(1)[0]], {}, STATIC),
    ("Pad", [X, np.array([[0, 0, 1, 2, 0, 0, 1, 1]]), reals(1)], {}, {}),
    ("Pad", [X, np.array([[0, 0, 1, 2, 0, 0, 1, 1]])], {"mode": "reflect"}, {"known": [1], "dynamic": True}),
    ("Pad", [X, np.array([0, 0, 1, 2, 0, 0, 1, 1])], {"mode": "edge"}, {}),
    ("Unique", [np.array([2, 1, 1, 3, 4, 3, 2.5], np.float32)], {}, {**DYNAMIC, "outputs": 3}),
    ("Unique", [np.zeros(0, np.float32)], {}, {"outputs": 3}),
    ("GatherND", [X, np.array([[0, 1], [1, 2]], np.int32)], {}, {}),
    ("GatherND", [X, np.array([[0, -1], [1, 2]])], {}, {"dynamic": False}),
    ("Range", [reals(1)[0], np.float32(5)], {}, STATIC),
    ("Range", [int32s(1), int32s(9), int32s(3)], {}, {}),
    ("Range", [np.int16(9), np.int16(0), np.int16(-2)], {}, {}),
    ("Trilu", [reals(2, 4, 5)], {}, {"dynamic": True}),
    ("Trilu", [reals(2, 4, 5), np.array(-1)], {"upper": 0}, {}),
    ("GridSample", [X, 0.8 * reals(2, 3, 4, 2)], {}, {"dynamic": False}),
    ("GridSample", [X, 0.8 * reals(2, 3, 4, 2)], {"mode": "bicubic", "padding_mode": "reflection", "align_corners": 1}, {}),
    ("GridSample", [X, 0.8 * reals(2, 3, 4, 2)], {"mode": "nearest", "padding_mode": "border"}, {}),
    ("CropAndResize", [X, REGIONS, IMAGES, int32s(3, 4)], {}, {**DYNAMIC, "known": [3]}),
    ("CropAndResize", [X, REGIONS, IMAGES, int32s(3, 4)], {"mode": "nearest", "extrapolation_value": 0.5}, {}),
    ("CropAndResize", [X, REGIONS, IMAGES, int32s(1, 5)], {}, {}),
    ("CropAndResize", [X, REGIONS, IMAGES, int32s(1, 1)], {}, {"known": [3]}),
    ("Inverse", [reals(3, 4, 4)], {}, DYNAMIC),
    ("Inverse", [reals(2, 2, 6, 6, dtype="f8")], {}, {}),
    ("Inverse", [np.float16(2 * np.eye(5) + 0.2 * reals(5, 5))], {}, {"rtol": 5e-3, "atol": 5e-3}),
    ("Inverse", [reals(0, 3, 3)], {}, {}),
    ("CDist", [reals(4, 5), reals(3, 5)], {}, DYNAMIC),
    ("CDist", [reals(4, 5, dtype="f8"), reals(3, 5, dtype="f8")], {"metric": "euclidean"}, {}),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "options"), CASES)
def test_other_forms(op: str, inputs: Any, attributes: Any, options: Any) -> None:
    inputs = [np.asarray(item) for item in inputs]
    options = {"native": False, "rtol": 1e-4, "atol": 1e-4, **options}
    agrees(op, inputs, domain="com.microsoft", opset=1, **options, **attributes)


def test_no_number_is_guessed() -> None:
    """Of masks with several planes onnxruntime reads other elements; other distances it does not know."""
    for op, inputs, attributes in (
        ("MaxpoolWithMask", [X, np.concatenate([MASK, MASK])], {"kernel_shape": [2, 2]}),
        ("CDist", [reals(4, 5), reals(3, 5)], {"metric": "cosine"}),
    ):
        with pytest.raises(Refusal, match="O2M-C003"):
            convert(read(node_model(op, inputs, domain="com.microsoft", opset=1, **attributes)))
