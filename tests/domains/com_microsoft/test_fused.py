"""What onnxruntime's optimizers fuse, against its kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.one_node import agrees

RNG = np.random.default_rng(7)


def reals(*shape: int, dtype: str = "f4") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def numbers(below: int, *shape: int) -> Any:
    return RNG.integers(0, below, shape).astype(np.int32)


X, W, B, Z = reals(2, 3, 6, 5), reals(4, 3, 3, 3), reals(4), reals(2, 4, 6, 5)
IDS, EMBEDDINGS = numbers(10, 2, 3), (reals(10, 8), reals(5, 8))

SUMS = [
    ([reals(2, 3, 8), reals(2, 3, 8), reals(8), reals(8), reals(8)], {"dynamic": True}),
    ([reals(2, 3, 8), reals(3, 8), reals(8)], {"epsilon": 1e-3, "native": False}),
    ([reals(2, 3, 8), reals(1, 3, 8), reals(8), None, reals(8)], {"native": False}),
    ([reals(6, 8), reals(6, 8), reals(8), reals(8)], {"native": False}),
    ([reals(2, 3, 8, dtype="f2") for _ in range(2)] + [reals(8, dtype="f2") for _ in range(3)], {"rtol": 1e-3, "atol": 1e-3}),
]


@pytest.mark.parametrize(("inputs", "options"), SUMS)
def test_skip_layer_normalization(inputs: Any, options: Any) -> None:
    agrees("SkipLayerNormalization", inputs, domain="com.microsoft", opset=1, **options)


def with_sum(op: str, inputs: Any, dynamic: bool) -> None:
    """The first and the last of four outputs; onnxruntime does not give those between them."""
    import onnx

    from onnx2torch_mlir.model import read
    from onnx2torch_mlir.program import convert
    from tests.one_node import native_run, node_model, reference

    model = node_model(op, inputs, domain="com.microsoft", opset=1, outputs=4, dynamic=dynamic)
    node = model.graph.node[0]
    node.output[1] = node.output[2] = ""
    kept = [value for value in model.graph.output if value.name in ("out0", "out3")]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    assert isinstance(model, onnx.ModelProto)
    feeds = {f"in{index}": array for index, array in enumerate(inputs) if array is not None}
    for ours, theirs in zip(native_run(convert(read(model)), list(feeds.values())), reference(model, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_the_sum_is_an_output_too() -> None:
    with_sum("SkipLayerNormalization", [reals(2, 3, 8), reals(2, 3, 8), reals(8), reals(8), reals(8)], dynamic=False)
    with_sum("SkipSimplifiedLayerNormalization", [reals(2, 3, 8), reals(2, 3, 8), reals(8), reals(8)], dynamic=True)


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        ([reals(2, 3, 8), reals(2, 3, 8), reals(8), reals(8)], {"dynamic": True}),
        ([reals(6, 8), reals(6, 8), reals(8)], {"native": False, "epsilon": 1e-3}),
    ],
)
def test_skip_simplified_layer_normalization(inputs: Any, options: Any) -> None:
    agrees("SkipSimplifiedLayerNormalization", inputs, domain="com.microsoft", opset=1, **options)


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        (
            [IDS, numbers(2, 2, 3), *EMBEDDINGS, reals(2, 8), reals(8), reals(8), numbers(2, 2, 3)],
            {"outputs": 3, "dynamic": True, "known": [2, 3, 4, 5, 6]},
        ),
        ([IDS, None, *EMBEDDINGS, None, reals(8), reals(8), None, numbers(5, 2, 3)], {"outputs": 2, "native": False}),
        ([IDS, None, *EMBEDDINGS, None, reals(8), reals(8), None, numbers(5, 1, 3)], {"mask_index_type": 0, "native": False}),
    ],
)
def test_embed_layer_normalization(inputs: Any, options: Any) -> None:
    agrees("EmbedLayerNormalization", inputs, domain="com.microsoft", opset=1, **options)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Gelu", [3 * reals(2, 3, 4)], {}),
        ("BiasGelu", [3 * reals(2, 3, 4), reals(4)], {}),
        ("FastGelu", [3 * reals(2, 3, 4), reals(4)], {}),
        ("FastGelu", [3 * reals(2, 3, 4)], {}),
        ("QuickGelu", [3 * reals(2, 3, 4)], {}),
        ("QuickGelu", [3 * reals(2, 3, 4)], {"alpha": 1.0}),
    ],
)
def test_gelus(op: str, inputs: Any, attributes: Any) -> None:
    agrees(op, inputs, domain="com.microsoft", opset=1, dynamic=True, native=len(inputs) > 1, **attributes)


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ([X, W, B, Z], {"activation": "Relu", "pads": [1, 1, 1, 1]}),
        ([X, W, B], {"activation": "LeakyRelu", "activation_params": [0.2], "auto_pad": "SAME_UPPER", "kernel_shape": [3, 3]}),
        ([X, W, None, Z], {"activation": "HardSwish", "pads": [1, 1, 1, 1]}),
        ([X, W], {"activation": "Clip", "activation_params": [-0.2, 0.5]}),
        ([X, W], {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}),
        ([X, W], {"activation": "Tanh"}),
        ([X, W], {"activation": "Sigmoid"}),
        ([X, W], {}),
    ],
)
def test_fused_conv(inputs: Any, attributes: Any) -> None:
    options = {"dynamic": "kernel_shape" in attributes, "native": len(inputs) > 2}
    agrees("FusedConv", inputs, domain="com.microsoft", opset=1, **options, **attributes)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Relu", ""),
        ("Sigmoid", ""),
        ("Tanh", ""),
        ("LeakyRelu", "alpha"),
        ("HardSigmoid", "alpha beta"),
        ("Celu", "alpha"),
        ("Elu", "alpha"),
        ("ParametricSoftplus", "alpha beta"),
        ("ScaledTanh", "alpha beta"),
        ("Selu", "alpha gamma"),
        ("Softplus", ""),
        ("Softsign", ""),
        ("ThresholdedRelu", "alpha"),
    ],
)
def test_fused_gemm(name: str, parameters: str) -> None:
    given = {f"activation_{word}": value for word, value in zip(parameters.split(), (0.3, 0.6), strict=False)}
    inputs = [reals(3, 4), reals(5, 4), reals(5)]
    options = {"transB": 1, "alpha": 0.5, "beta": 0.3, "activation": name, "native": name == "Selu"}
    agrees("FusedGemm", inputs, domain="com.microsoft", opset=1, dynamic=True, **given, **options)


@pytest.mark.parametrize(
    ("shapes", "attributes"),
    [
        (((2, 3, 4), (2, 4, 5)), {}),
        (((2, 4, 3), (2, 5, 4)), {"transA": 1, "transB": 1}),
        (((3, 2, 6, 4), (4, 2, 6, 5)), {"transBatchA": 1, "transBatchB": 1}),
        (((4, 2, 6, 3), (5, 2, 6, 4)), {"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1}),
        (((4,), (4, 5)), {"transA": 1}),
        (((3, 4), (4,)), {"transB": 1}),
    ],
)
def test_fused_matmul(shapes: Any, attributes: Any) -> None:
    inputs = [reals(*shape) for shape in shapes]
    native = "transBatchA" in attributes
    agrees("FusedMatMul", inputs, domain="com.microsoft", opset=1, dynamic=native, native=native, alpha=0.3, **attributes)


def test_transpose_matmul() -> None:
    inputs = [reals(2, 4, 3), reals(4, 5)]
    agrees("TransposeMatMul", inputs, domain="com.microsoft", opset=1, dynamic=True, native=False, alpha=0.3, transA=1)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_channels_last(dtype: str) -> None:
    x = RNG.integers(0, 100, (2, 7, 6, 3)).astype(dtype)
    attributes = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "ceil_mode": 1}
    agrees("NhwcMaxPool", [x], domain="com.microsoft", opset=1, dynamic=True, native=dtype == "int8", **attributes)
