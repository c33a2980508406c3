"""Gradients of convolutions and pools against PyTorch's autograd, sizes known and unknown."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from onnx2torch_mlir.diagnostics import Refusal
from tests.domains.test_training import check, node, normal

F = torch.nn.functional
CONVOLUTIONS: list[tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...], Any, bool]] = [
    ("Conv", {"strides": [3]}, (2, 4, 11), (6, 4, 4), lambda *i: F.conv1d(*i, stride=3), True),
    (
        "Conv",
        {"group": 2, "strides": [2, 1], "dilations": [1, 2], "pads": [1, 2, 1, 2]},
        (2, 4, 7, 8),
        (6, 2, 3, 3),
        lambda *i: F.conv2d(*i, stride=(2, 1), dilation=(1, 2), padding=(1, 2), groups=2),
        True,
    ),
    ("Conv", {"strides": [2, 1, 1]}, (1, 2, 5, 4, 4), (3, 2, 2, 2, 3), lambda *i: F.conv3d(*i, stride=(2, 1, 1)), False),
    ("ConvTranspose", {"strides": [2]}, (2, 4, 5), (4, 3, 3), lambda *i: F.conv_transpose1d(*i, stride=2), True),
    (
        "ConvTranspose",
        {"group": 2, "strides": [3, 2], "dilations": [1, 2], "pads": [1, 1, 1, 1], "output_padding": [2, 1]},
        (2, 4, 5, 4),
        (4, 3, 2, 3),
        lambda *i: F.conv_transpose2d(*i, stride=(3, 2), dilation=(1, 2), padding=1, output_padding=(2, 1), groups=2),
        False,
    ),
]


@pytest.mark.parametrize(("op", "attributes", "shape", "kernel", "function", "dynamic"), CONVOLUTIONS)
def test_gradient_of_convolutions(
    op: str, attributes: dict[str, Any], shape: tuple[int, ...], kernel: tuple[int, ...], function: Any, dynamic: bool
) -> None:
    outputs = kernel[0] if op == "Conv" else kernel[1] * attributes.get("group", 1)
    nodes = [node(op, "x w b", "c", **attributes), node("Tanh", "c", "y")]
    weights = {"w": normal(*kernel), "b": normal(outputs)}
    check(
        nodes, {"x": normal(*shape)}, lambda *i: torch.tanh(function(*i)), xs=["x", "w", "b"], weights=weights, dynamic=dynamic
    )


POOLS: list[tuple[str, dict[str, Any], tuple[int, ...], Any, bool]] = [
    (
        "AveragePool",
        {"kernel_shape": [3], "strides": [2], "pads": [1, 1]},
        (2, 3, 9),
        lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
        True,
    ),
    (
        "AveragePool",
        {"kernel_shape": [3, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1},
        (2, 3, 6, 5),
        lambda x: F.avg_pool2d(x, (3, 2), 1, 1),
        True,
    ),
    (
        "AveragePool",
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
        (2, 3, 5, 4),
        lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True),
        False,
    ),
    (
        "AveragePool",
        {"kernel_shape": [3] * 3, "strides": [2] * 3, "pads": [1] * 6},
        (1, 2, 6, 5, 7),
        lambda x: F.avg_pool3d(x, 3, 2, 1, count_include_pad=False),
        False,
    ),
    (
        "MaxPool",
        {"kernel_shape": [3] * 3, "strides": [2] * 3, "pads": [1] * 6},
        (1, 2, 6, 5, 7),
        lambda x: F.max_pool3d(x, 3, 2, 1),
        True,
    ),
]


@pytest.mark.parametrize(("op", "attributes", "shape", "function", "dynamic"), POOLS)
def test_gradient_of_pools(op: str, attributes: dict[str, Any], shape: tuple[int, ...], function: Any, dynamic: bool) -> None:
    nodes = [node(op, "x", "p", **attributes), node("Tanh", "p", "y")]
    check(nodes, {"x": normal(*shape)}, lambda x: torch.tanh(function(x)), xs=["x"], dynamic=dynamic)


def test_a_transposed_convolution_whose_sizes_decide_strides_is_refused() -> None:
    """PyTorch asks for the memory format of what it derives, which sizes decide."""
    nodes = [node("ConvTranspose", "x w", "c", strides=[2, 2]), node("Tanh", "c", "y")]
    with pytest.raises(Refusal, match="--dim NAME=N"):
        check(nodes, {"x": normal(2, 4, 5, 4)}, None, xs=["x"], zs=["w"], weights={"w": normal(4, 3, 3, 3)}, dynamic=True)
