"""Softmaxes and normalizations against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx2torch_mlir.diagnostics import Refusal
from tests.one_node import agrees

RANDOM = np.random.default_rng(4)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def positive(*shape: int) -> Any:
    return RANDOM.uniform(0.2, 2.0, shape).astype(np.float32)


def on_axis_zero(x: Any, kind: str) -> Any:
    shifted = x - x.max(0, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(0, keepdims=True))
    first = x.argmax(0) == np.arange(len(x))[:, None]
    return {"Softmax": np.exp(log), "LogSoftmax": log, "Hardmax": first * 1.0}[kind]


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_on_both_sides_of_opset_13(kind: str, axis: int) -> None:
    data = floats(2, 3, 4)
    agrees(kind, [data], opset=13, dynamic=True, native=axis == 1, axis=axis)
    rows = data.reshape(int(np.prod(data.shape[: axis % 3])), -1)
    expected = on_axis_zero(rows.T, kind).T.reshape(data.shape).astype(np.float32)
    agrees(kind, [data], opset=12, dynamic=True, native=axis == 1, expected=[expected], axis=axis)


@pytest.mark.parametrize("opset", [1, 11, 13, 22])
def test_default_axis_of_softmax(opset: int) -> None:
    data = floats(2, 3, 4)
    rows = data.reshape(2, 12) if opset < 13 else data.reshape(6, 4)
    expected = on_axis_zero(rows.T, "Softmax").T.reshape(data.shape)
    agrees("Softmax", [data], opset=opset, native=False, expected=[expected])


def test_softmax_of_extremes_and_halves() -> None:
    agrees("Softmax", [np.array([[1e4, 1e4, -1e4], [-1e4, 0, 5]], np.float32)], opset=13)
    agrees("Softmax", [floats(2, 5, dtype=np.float16)], opset=13, rtol=1e-3)
    agrees("Softmax", [floats(0, 5)], opset=13)


def channels(count: int) -> list[Any]:
    return [positive(count), floats(count), floats(count), positive(count)]


def batch_norm(x: Any, scale: Any, bias: Any, mean: Any, var: Any, eps: float = 1e-5) -> Any:
    shape = (-1, *[1] * (x.ndim - 2))
    scale, bias, mean, var = (item.reshape(shape) for item in (scale, bias, mean, var))
    return ((x - mean) / np.sqrt(var + eps) * scale + bias).astype(np.float32)


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (1, 3, 2, 2)])
def test_batch_normalization(opset: int, shape: tuple[int, ...]) -> None:
    inputs = [floats(*shape), *channels(3)]
    attributes: dict[str, Any] = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
    if opset < 7:
        attributes["is_test"] = 1
    agrees(
        "BatchNormalization",
        inputs,
        opset=opset,
        known=[1, 2, 3, 4],
        native=opset == 15,
        expected=[batch_norm(*inputs, eps=1e-3)],
        epsilon=1e-3,
        **attributes,
    )


def test_batch_normalization_of_every_place() -> None:
    data, parameters = floats(4, 3, 2), [positive(3, 2), floats(3, 2), floats(3, 2), positive(3, 2)]
    scale, bias, mean, var = parameters
    expected = (data - mean) / np.sqrt(var + 1e-5) * scale + bias
    agrees("BatchNormalization", [data, *parameters], opset=7, expected=[expected], spatial=0)


def test_batch_normalization_in_training() -> None:
    inputs = [floats(4, 3, 5), *channels(3)]
    agrees("BatchNormalization", inputs, opset=15, outputs=3, training_mode=1, momentum=0.8, rtol=1e-4)
    with pytest.raises(Refusal, match="training"):
        agrees("BatchNormalization", inputs, opset=15, outputs=3, expected=[None] * 3)


@pytest.mark.parametrize(("opset", "spatial"), [(1, 1), (6, 1), (6, 0), (7, 0), (9, 1)])
def test_batch_normalization_in_training_of_old(opset: int, spatial: int) -> None:
    """Five outputs: by the statistics of the batch, the running ones carried on, those of the batch."""
    places = () if spatial else (5,)
    data, scale, bias, mean, var = floats(4, 3, 5), *(np.abs(floats(3, *places)) + 0.1 for _ in range(4))
    axes = (0, 2) if spatial else 0
    own, own_var = data.mean(axes), data.var(axes)
    wide = [item[:, None] if spatial else item for item in (scale, bias, own, own_var)]
    y = (data - wide[2]) / np.sqrt(wide[3] + 1e-5) * wide[0] + wide[1]
    carried = [0.8 * mean + 0.2 * own, 0.8 * var + 0.2 * own_var]
    attributes: dict[str, Any] = {"consumed_inputs": [0] * 5} if opset == 1 else {}
    attributes |= {"spatial": 0} if not spatial else {}
    inputs, expected = [data, scale, bias, mean, var], [y, *carried, own, own_var]
    options: dict[str, Any] = {"opset": opset, "momentum": 0.8, "rtol": 1e-4, "atol": 1e-5, **attributes}
    agrees("BatchNormalization", inputs, outputs=5, expected=expected, dynamic=True, **options)
    if opset < 7:  # what is written down counts with one output too
        agrees("BatchNormalization", inputs, expected=[y], is_test=0, native=False, **options)
        with pytest.raises(Refusal, match="training"):
            agrees("BatchNormalization", inputs, outputs=5, expected=expected, is_test=1, **options)


def test_batch_normalization_of_one_dim_and_of_halves_in_training() -> None:
    """[N] is one channel; halves are computed in float32, and the running statistics have a type of their own."""
    data, one = floats(6), np.ones(1, np.float32)
    y = (data - data.mean()) / np.sqrt(data.var() + 1e-5)
    agrees("BatchNormalization", [data, one, 0 * one, one, one], opset=14, outputs=3, training_mode=1,
           expected=[y, 0.9 * one + 0.1 * data.mean(), 0.9 * one + 0.1 * data.var()], rtol=1e-4)  # fmt: skip
    data = 100 + floats(400, 2, dtype=np.float16)
    wide, zero = data.astype(np.float32), np.zeros(2, np.float32)
    y = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5)
    half = np.ones(2, np.float16)
    agrees("BatchNormalization", [data, half, zero.astype(np.float16), zero, zero], opset=15, outputs=3, training_mode=1,
           expected=[y.astype(np.float16), 0.1 * wide.mean(0), 0.1 * wide.var(0)], rtol=1e-2, atol=1e-2)  # fmt: skip


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalization(axis: int, bias: bool) -> None:
    data = floats(2, 3, 4)
    sizes = data.shape[axis % 3 :]
    inputs = [data, positive(*sizes), *([floats(*sizes)] if bias else [])]
    known = range(1, len(inputs))
    converted = agrees("LayerNormalization", inputs, opset=17, outputs=3, axis=axis, known=known, rtol=1e-4, atol=1e-5)
    targets = [str(node.target) for node in converted.exported.graph.nodes if node.op == "call_function"]
    assert targets[0] == "aten.native_layer_norm.default"


def test_layer_normalization_by_a_scale_that_broadcasts() -> None:
    agrees("LayerNormalization", [floats(2, 3, 4), positive(1), floats(3, 1)], opset=17, axis=1, rtol=1e-4, atol=1e-5)


def test_layer_normalization_with_dynamic_sizes() -> None:
    inputs = [floats(2, 3, 4), positive(4), floats(4)]
    agrees("LayerNormalization", inputs, opset=17, dynamic=True, rtol=1e-4, atol=1e-5)


def test_layer_normalization_of_halves() -> None:
    inputs = [floats(2, 64, dtype=np.float16), np.ones(64, np.float16), np.zeros(64, np.float16)]
    agrees("LayerNormalization", inputs, opset=17, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_normalization(axis: int) -> None:
    data, scale = floats(2, 3, 4), positive(4)
    axes = tuple(range(axis % 3, 3))
    expected = data / np.sqrt((data * data).mean(axes, keepdims=True) + 1e-5) * scale
    agrees("RMSNormalization", [data, scale], opset=23, axis=axis, expected=[expected], rtol=1e-4)


@pytest.mark.parametrize("shape", [(2, 4, 5), (2, 4, 3, 2)])
def test_instance_normalization(shape: tuple[int, ...]) -> None:
    inputs = [floats(*shape), positive(4), floats(4)]
    agrees("InstanceNormalization", inputs, opset=6, dynamic=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(opset: int) -> None:
    data, count = floats(2, 6, 3, 2), 3 if opset == 18 else 6
    scale, bias = positive(count), floats(count)
    grouped = data.reshape(2, 3, 12)
    normal = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-5)
    full = [np.repeat(item, 6 // count).reshape(6, 1, 1) for item in (scale, bias)]
    expected = normal.reshape(data.shape) * full[0] + full[1]
    agrees(
        "GroupNormalization", [data, scale, bias], opset=opset, num_groups=3, expected=[expected], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_lrn(size: int) -> None:
    data = floats(2, 5, 3, 2)
    squares = np.zeros_like(data)
    for channel in range(5):
        first, last = max(0, channel - (size - 1) // 2), min(4, channel + size // 2)
        squares[:, channel] = (data[:, first : last + 1] ** 2).sum(1)
    expected = data / (1.5 + 0.1 / size * squares) ** 0.6
    attributes = {"size": size, "alpha": 0.1, "beta": 0.6, "bias": 1.5}
    agrees("LRN", [data], opset=13, dynamic=True, native=size == 5, expected=[expected], **attributes)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p: int) -> None:
    data = floats(2, 3, 4)
    data[0, :, 0] = 0
    norm = np.linalg.norm(data, ord=p, axis=1, keepdims=True)
    expected = np.divide(data, norm, out=np.zeros_like(data), where=norm != 0)
    agrees("LpNormalization", [data], opset=22, dynamic=True, axis=1, p=p, expected=[expected])


def test_mean_variance_normalization() -> None:
    agrees("MeanVarianceNormalization", [floats(2, 3, 4, 2)], opset=13, rtol=1e-4, atol=1e-5)
    data = floats(2, 3, 4)
    expected = (data - data.mean((0, 1), keepdims=True)) / data.std((0, 1), keepdims=True)
    for dtype, rtol in ((np.float64, 1e-6), (np.float16, 4e-3)):
        given = [data.astype(dtype)]
        wanted = [expected.astype(dtype)]
        agrees("MeanVarianceNormalization", given, opset=9, axes=[-2, 0], dynamic=True, expected=wanted, rtol=rtol, atol=rtol)
