"""Convolutions against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.conversion import convert
from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from tests.one_node import agrees, node_model

NATIVE = False
RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool, dict[str, Any]]] = {
    "plain": ((2, 3, 6, 7), (4, 3, 3, 2), True, {}),
    "one axis": ((2, 3, 9), (4, 3, 3), False, {"pads": [1, 1], "strides": [2]}),
    "three axes": ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), True, {"dilations": [2, 1, 1]}),
    "depthwise": ((1, 4, 5, 5), (4, 1, 3, 3), True, {"group": 4, "pads": [1, 1, 1, 1]}),
    "two groups": ((1, 4, 5, 5), (6, 2, 3, 3), False, {"group": 2, "kernel_shape": [3, 3]}),
    "asymmetric": ((1, 2, 5, 5), (3, 2, 3, 3), True, {"pads": [0, 2, 1, 0], "strides": [2, 1]}),
    "same upper": ((1, 2, 6, 5), (3, 2, 3, 2), False, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((1, 2, 6, 5), (3, 2, 4, 2), False, {"auto_pad": "SAME_LOWER", "strides": [1, 2]}),
    "same, stride beyond kernel": ((1, 2, 7, 8), (3, 2, 2, 1), False, {"auto_pad": "SAME_LOWER", "strides": [4, 3]}),
    "valid": ((1, 2, 6, 5), (3, 2, 3, 2), True, {"auto_pad": "VALID", "strides": [2, 1]}),
    "whole plane": ((3, 2, 4, 4), (5, 2, 4, 4), True, {}),
    "pointwise": ((1, 2, 1, 1), (5, 2, 1, 1), True, {}),
    "padding beyond the kernel": ((1, 1, 3, 3), (1, 1, 2, 2), False, {"pads": [3, 3, 3, 3]}),
}


@pytest.mark.parametrize("opset", [1, 11, 22])
@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("known", [True, False])
def test_conv(case: str, opset: int, known: bool) -> None:
    shape, kernel, bias, attributes = CONVOLUTIONS[case]
    inputs = [floats(*shape), floats(*kernel), *([floats(kernel[0])] if bias else [])]
    weights = range(1, len(inputs)) if known else ()
    agrees("Conv", inputs, opset=opset, known=weights, rtol=1e-4, atol=1e-5, native=NATIVE, **attributes)


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_conv_of_dynamic_sizes(case: str) -> None:
    shape, kernel, bias, attributes = CONVOLUTIONS[case]
    inputs = [floats(*shape), floats(*kernel), *([floats(kernel[0])] if bias else [])]
    known = range(1, len(inputs))
    agrees("Conv", inputs, opset=13, known=known, dynamic=True, rtol=1e-4, atol=1e-5, native=NATIVE, **attributes)


@pytest.mark.parametrize("case", ["same upper", "same lower", "same, stride beyond kernel"])
def test_same_padding_gives_the_rounded_up_size(case: str) -> None:
    shape, kernel, _, attributes = CONVOLUTIONS[case]
    model = node_model("Conv", [floats(*shape), floats(*kernel)], opset=13, known=[1], dynamic=True, **attributes)
    converted = convert(read(model))
    for size in (1, 2, 3, 8, 9):
        import torch

        x = torch.from_numpy(floats(1, 2, size, size + 1))
        (result,) = converted.exported.module(check_guards=False)(x)
        strides = attributes["strides"]
        assert tuple(result.shape[2:]) == (-(-size // strides[0]), -(-(size + 1) // strides[1]))


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_conv_dtypes(dtype: Any) -> None:
    x, w = floats(1, 2, 5, 5).astype(dtype), floats(3, 2, 3, 3).astype(dtype)
    agrees("Conv", [x, w], opset=22, known=[1], rtol=1e-2, atol=1e-2, native=NATIVE)


def test_empty_batch() -> None:
    agrees("Conv", [floats(0, 2, 5, 5), floats(3, 2, 3, 3)], opset=22, known=[1], dynamic=True, native=NATIVE)


TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool, dict[str, Any]]] = {
    "plain": ((1, 2, 3, 4), (2, 3, 3, 2), True, {}),
    "strides": ((2, 2, 3, 4), (2, 3, 3, 2), True, {"strides": [2, 3]}),
    "one axis": ((1, 2, 5), (2, 3, 4), False, {"strides": [2], "pads": [1, 1]}),
    "strides divide the kernel": (
        (2, 4, 3, 5),
        (4, 2, 4, 6),
        True,
        {"strides": [2, 3], "group": 2, "pads": [1, 0, 0, 2], "output_padding": [1, 2]},
    ),
    "strides divide a depthwise kernel": ((1, 4, 3, 3), (4, 1, 4, 2), True, {"strides": [2, 2], "group": 4}),
    "three axes": ((1, 2, 2, 3, 2), (2, 1, 2, 2, 3), True, {"strides": [1, 2, 2]}),
    "groups": ((1, 4, 3, 3), (4, 2, 3, 3), True, {"group": 2, "dilations": [2, 1]}),
    "output padding": ((1, 2, 3, 3), (2, 2, 3, 3), True, {"strides": [2, 2], "output_padding": [1, 1]}),
    "padding both ways": (
        (1, 2, 3, 3),
        (2, 2, 3, 3),
        True,
        {"strides": [2, 2], "output_padding": [1, 0], "pads": [1, 1, 1, 1]},
    ),
    "asymmetric": ((1, 2, 3, 3), (2, 2, 3, 3), True, {"strides": [2, 2], "pads": [0, 1, 1, 0]}),
    "output shape": ((1, 2, 3, 3), (2, 2, 4, 4), True, {"strides": [2, 2], "output_shape": [5, 6]}),
    "output shape, upper": (
        (1, 2, 3, 3),
        (2, 2, 4, 4),
        True,
        {"strides": [2, 2], "output_shape": [5, 7], "auto_pad": "SAME_UPPER"},
    ),
    "same upper": ((1, 2, 3, 3), (2, 2, 3, 4), True, {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "same lower": ((1, 2, 3, 3), (2, 2, 3, 4), False, {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "valid": ((1, 2, 3, 3), (2, 2, 3, 4), False, {"strides": [2, 1], "auto_pad": "VALID"}),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv_transpose(case: str, dynamic: bool) -> None:
    shape, kernel, bias, attributes = TRANSPOSED[case]
    filters = kernel[1] * attributes.get("group", 1)
    inputs = [floats(*shape), floats(*kernel), *([floats(filters)] if bias else [])]
    known = range(1, len(inputs))
    agrees(
        "ConvTranspose",
        inputs,
        opset=11,
        known=known,
        dynamic=dynamic,
        rtol=1e-4,
        atol=1e-5,
        native=NATIVE,
        **attributes,
    )


def test_conv_transpose_larger_than_what_the_windows_reach() -> None:
    inputs = [floats(1, 1, 3), floats(1, 1, 4), np.array([0.5], np.float32)]
    attributes: dict[str, Any] = {"strides": [2], "output_shape": [10], "auto_pad": "SAME_UPPER"}
    agrees("ConvTranspose", inputs, opset=11, known=[1, 2], native=NATIVE, **attributes)


def bytes_(dtype: Any, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("weights", [np.uint8, np.int8])
def test_conv_integer(weights: Any, dynamic: bool) -> None:
    x, w = bytes_(np.uint8, 1, 2, 5, 5), bytes_(weights, 3, 2, 3, 3)
    points = [np.array(7, np.uint8), np.array([1, 2, 3], weights)]
    agrees("ConvInteger", [x, w], opset=10, known=[1], dynamic=dynamic, native=NATIVE)
    known = [1, 2, 3]
    agrees("ConvInteger", [x, w, points[0]], opset=10, known=known, dynamic=dynamic, native=NATIVE, pads=[1, 1, 1, 0])
    want = None
    if weights is np.uint8:
        import torch

        padded = torch.nn.functional.pad(torch.from_numpy(x.astype(np.int64) - 7), (1, 1, 1, 1))
        centered = torch.from_numpy(w.astype(np.int64) - points[1].reshape(3, 1, 1, 1))
        want = [torch.nn.functional.conv2d(padded, centered).numpy().astype(np.int32)]
    agrees(
        "ConvInteger",
        [x, w, *points],
        opset=10,
        known=known,
        dynamic=dynamic,
        expected=want,
        native=NATIVE,
        pads=[1, 1, 1, 1],
    )


@pytest.mark.parametrize("known", [True, False])
def test_qlinear_conv(known: bool) -> None:
    # onnxruntime's kernel for uint8 by int8 saturates sums of two products at 16 bits where the machine has no VNNI
    x, w = bytes_(np.uint8, 1, 2, 5, 5), bytes_(np.int8, 3, 2, 3, 3) // 2
    scales = [np.float32(0.02), np.array([0.01, 0.05, 0.003], np.float32), np.float32(0.11)]
    points = [np.uint8(128), np.zeros(3, np.int8), np.uint8(100)]
    inputs = [
        x,
        np.array(scales[0]),
        np.array(points[0]),
        w,
        scales[1],
        points[1],
        np.array(scales[2]),
        np.array(points[2]),
        np.array([100, -2000, 40], np.int32),
    ]
    constants = range(1, 9) if known else ()
    agrees("QLinearConv", inputs, opset=10, known=constants, native=NATIVE, atol=0, rtol=0, pads=[1, 1, 1, 1])


REFUSED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "four axes": ([floats(1, 1, 2, 2, 2, 2), floats(1, 1, 1, 1, 1, 1)], {}, "O2M-C003"),
    "channels": ([floats(1, 3, 4, 4), floats(1, 2, 2, 2)], {}, "O2M-C006"),
    "kernel_shape": ([floats(1, 2, 4, 4), floats(1, 2, 2, 2)], {"kernel_shape": [3, 2]}, "O2M-C006"),
    "pads": ([floats(1, 2, 4, 4), floats(1, 2, 2, 2)], {"pads": [1, 1]}, "O2M-C005"),
    "strides": ([floats(1, 2, 4, 4), floats(1, 2, 2, 2)], {"strides": [0, 1]}, "O2M-C005"),
    "auto_pad": ([floats(1, 2, 4, 4), floats(1, 2, 2, 2)], {"auto_pad": "SAME"}, "O2M-C005"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    inputs, attributes, code = REFUSED[case]
    with pytest.raises(Refusal) as refusal:
        convert(read(node_model("Conv", inputs, opset=13, known=[1], **attributes)))
    assert [finding.code for finding in refusal.value.findings] == [code]


def test_kernel_shape_stands_in_for_an_open_weight():
    rng = np.random.default_rng(3)
    x, w, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((2, 4, 5, 6), (6, 2, 3, 2), (6,)))
    agrees("Conv", [x, w, b], opset=11, dynamic=True, kernel_shape=[3, 2], group=2, strides=[1, 2], rtol=1e-4)
    agrees("ConvTranspose", [x, w[:4]], opset=11, dynamic=True, kernel_shape=[3, 2], strides=[1, 2], rtol=1e-4)
