"""What onnxruntime knows in ONNX's own domain beyond the standard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from tests.one_node import agrees, node_model

RNG = np.random.default_rng(8)
X = RNG.standard_normal((2, 3, 5, 6)).astype(np.float32)
ROW = RNG.standard_normal(6).astype(np.float32)
ROWS = RNG.standard_normal((5, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "opset", "attributes"),
    [
        ("Affine", 7, {"alpha": 0.5, "beta": 2.0}),
        ("ParametricSoftplus", 1, {"alpha": 0.5, "beta": 2.0}),
        ("ScaledTanh", 9, {"alpha": 0.5, "beta": 2.0}),
        ("Scale", 7, {"scale": 3.0}),
        ("ThresholdedRelu", 7, {"alpha": 0.3}),
        ("Crop", 7, {"border": [1, 2, 1, 0]}),
        ("Crop", 7, {"border": [1, 2, 1, 0], "scale": [2, 3]}),
        ("ImageScaler", 7, {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}),
        ("MeanVarianceNormalization", 1, {}),
        ("MeanVarianceNormalization", 7, {"across_channels": 1, "normalize_variance": 0}),
        ("MemcpyFromHost", 12, {}),
        ("MemcpyToHost", 17, {}),
    ],
)
def test_one_input(op: str, opset: int, attributes: Any) -> None:
    agrees(op, [X], opset=opset, dynamic=True, native=op in ("Crop", "ImageScaler"), **attributes)


def test_mean_variance_normalization_of_other_ranks() -> None:
    for x in (X[0], X[0, 0], X[..., None]):
        for across in (0, 1):
            agrees("MeanVarianceNormalization", [x], opset=1, dynamic=True, native=False, across_channels=across)


@pytest.mark.parametrize(
    ("op", "inputs", "options"),
    [
        ("LayerNormalization", [X, ROW, ROW], {"opset": 12, "dynamic": True, "outputs": 3, "epsilon": 1e-3}),
        ("LayerNormalization", [X, ROWS], {"opset": 11, "axis": 2, "native": False}),
        ("LayerNormalization", [np.float64(X), np.float64(ROW)], {"opset": 12, "outputs": 3, "native": False}),
        ("LayerNormalization", [np.float16(X), np.float16(ROW)], {"opset": 12, "outputs": 3, "rtol": 1e-3, "atol": 1e-3}),
        ("SimplifiedLayerNormalization", [X, ROW], {"opset": 12, "dynamic": True, "outputs": 2, "epsilon": 1e-3}),
        ("SimplifiedLayerNormalization", [X, ROWS], {"opset": 17, "outputs": 2, "axis": 2, "native": False}),
        ("SimplifiedLayerNormalization", [np.float16(X), np.float16(ROW)], {"opset": 17, "outputs": 2, "rtol": 1e-3}),
    ],
)
def test_layer_normalization(op: str, inputs: Any, options: Any) -> None:
    agrees(op, inputs, **{"atol": 1e-5, **options})


@pytest.mark.parametrize("known", [(), (1, 2, 3)])
def test_dynamic_slice(known: Any) -> None:
    inputs = [X, np.array([-1, 1]), np.array([99, -1]), np.array([-1, -2])]
    agrees("DynamicSlice", inputs, opset=7, dynamic=bool(known), known=known)


def test_an_attribute_without_default_must_be_there() -> None:
    with pytest.raises(Refusal, match=r"O2M-C005.*alpha"):
        convert(read(node_model("ScaledTanh", [X], opset=7)))


def test_the_standard_comes_first() -> None:
    """ONNX's own LayerNormalization from 17 on; and what onnxruntime no longer knows is refused."""
    agrees("LayerNormalization", [X, ROW], opset=17, native=False)
    with pytest.raises(Refusal, match="O2M-C002"):
        convert(read(node_model("Affine", [X], opset=10)))
