"""Optimizer steps against ONNX's reference evaluator, and Gradient against PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from onnx2torch_mlir.diagnostics import Refusal
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, convert
from tests.one_node import Array, agrees, eager, native_run

DOMAIN = "ai.onnx.preview.training"
RANDOM = np.random.default_rng(5)


def tensors(count: int, dtype: Any) -> list[Array]:
    shapes = [(3, 2), (4,)]
    return [RANDOM.uniform(0.1, 1.0, shapes[index % 2]).astype(dtype) for index in range(2 * count)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize(
    ("op", "kinds", "attributes"),
    [
        ("Adagrad", 3, {"norm_coefficient": 0.1, "epsilon": 1e-5, "decay_factor": 0.2}),
        ("Adagrad", 3, {}),
        ("Adam", 4, {"norm_coefficient": 0.1, "norm_coefficient_post": 0.01, "alpha": 0.8, "beta": 0.95}),
        ("Momentum", 3, {"norm_coefficient": 0.1, "alpha": 0.9, "beta": 0.5, "mode": "standard"}),
        ("Momentum", 3, {"norm_coefficient": 0.0, "alpha": 0.9, "beta": 0.5, "mode": "nesterov"}),
    ],
)
def test_optimizers(op: str, kinds: int, attributes: dict[str, Any], step: int, dtype: Any, dynamic: bool) -> None:
    inputs: list[Array | None] = [np.array(0.1, dtype), np.array(step, np.int64), *tensors(kinds, dtype)]
    if op == "Adam" and dtype is np.float64:
        pytest.skip("the reference evaluator gives float32 for several tensors")
    agrees(op, inputs, opset=1, domain=DOMAIN, outputs=2 * (kinds - 1), dynamic=dynamic, rtol=1e-5, **attributes)


def test_optimizers_refuse_odd_lists() -> None:
    inputs: list[Array | None] = [np.array(0.1, np.float32), np.array(0, np.int64), *tensors(2, np.float32)]
    with pytest.raises(Refusal, match="no multiple of 3"):
        agrees("Adagrad", inputs, opset=1, domain=DOMAIN, expected=[None])


def check(
    nodes: Sequence[Any],
    feeds: dict[str, Array],
    function: Any,
    *,
    xs: Sequence[str],
    zs: Sequence[str] = (),
    weights: dict[str, Array] | None = None,
    dynamic: bool = False,
    opset: int = 17,
) -> None:
    """The gradient of ``y``, which ``nodes`` compute, is autograd's of ``function(*xs, *zs)``."""
    weights = weights or {}
    more: dict[str, Any] = {"zs": list(zs)} if zs else {}
    gradient = helper.make_node("Gradient", [*xs, *zs], [f"d{x}" for x in xs], domain=DOMAIN, xs=list(xs), y="y", **more)

    def declared(name: str, value: Array) -> Any:
        shape = [f"{name}{axis}" if dynamic else size for axis, size in enumerate(value.shape)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)

    graph = helper.make_graph(
        [*nodes, gradient],
        "gradient",
        [declared(name, value) for name, value in feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in ("y", *(f"d{x}" for x in xs))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    program = convert(read(helper.make_model(graph, opset_imports=imports, ir_version=9)))
    assert isinstance(program, CoreProgram)
    values = [torch.from_numpy((feeds | weights)[name]) for name in (*xs, *zs)]
    leaves = [value.clone().requires_grad_() for value in values[: len(xs)]]
    y = function(*leaves, *values[len(xs) :])
    wanted = [y.detach(), *torch.autograd.grad(y, leaves, torch.ones_like(y))]
    for results in (eager(program, list(feeds.values())), native_run(program, list(feeds.values()))):
        for result, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, want.numpy(), rtol=1e-4, atol=1e-5)


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradient_of_a_perceptron(dynamic: bool) -> None:
    nodes = [
        node("MatMul", "x w", "h"),
        node("Relu", "h", "r"),
        node("MatMul", "r v", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("Mul", "p t", "q"),
        node("ReduceSum", "q", "y", keepdims=0),
    ]
    feeds = {"x": normal(3, 4), "t": normal(3, 2)}
    weights = {"w": normal(4, 5), "v": normal(5, 2)}

    def function(w: torch.Tensor, v: torch.Tensor, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(torch.relu(x @ w) @ v, -1) * t).sum()

    check(nodes, feeds, function, xs=["w", "v"], zs=["x", "t"], weights=weights, dynamic=dynamic)


ACTIVATIONS = {
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "Exp": torch.exp,
    "Softplus": torch.nn.functional.softplus,
    "Sin": torch.sin,
    "Erf": torch.erf,
    "LogSoftmax": lambda x: torch.log_softmax(x, -1),
    "Abs": torch.abs,
    "Elu": torch.nn.functional.elu,
}


@pytest.mark.parametrize("op", ACTIVATIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradient_of_activations(op: str, dynamic: bool) -> None:
    check([node(op, "x", "y")], {"x": normal(3, 5)}, ACTIVATIONS[op], xs=["x"], dynamic=dynamic, opset=13)


@pytest.mark.parametrize(
    ("attributes", "arguments", "channels"),
    [
        ({}, {}, 4),
        ({"strides": [2, 1], "pads": [1, 1, 1, 1]}, {"stride": (2, 1), "padding": 1}, 4),
        ({"dilations": [2, 2], "pads": [2, 2, 2, 2]}, {"dilation": 2, "padding": 2}, 4),
        ({"group": 2}, {"groups": 2}, 2),
    ],
)
def test_gradient_of_a_convolution(attributes: dict[str, Any], arguments: dict[str, Any], channels: int) -> None:
    feeds = {"x": normal(2, 4, 7, 8), "w": normal(6, channels, 3, 3), "b": normal(6)}

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.nn.functional.conv2d(x, w, b, **arguments))

    nodes = [node("Conv", "x w b", "c", **attributes), node("Sigmoid", "c", "y")]
    check(nodes, feeds, function, xs=["x", "w", "b"])


def test_gradient_of_a_small_network() -> None:
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("MaxPool", "c", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "m", "f"),
        node("Gemm", "f v b", "s", transB=1),
        node("ReduceMean", "s", "y", keepdims=0),
    ]
    feeds = {"x": normal(2, 1, 6, 6), "w": normal(3, 1, 3, 3), "v": normal(4, 27), "b": normal(4)}

    def function(w: torch.Tensor, v: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        m = torch.nn.functional.max_pool2d(torch.nn.functional.conv2d(x, w, padding=1), 2)
        return (m.flatten(1) @ v.T + b).mean()

    check(nodes, feeds, function, xs=["w", "v", "b"], zs=["x"])


def test_gradient_through_slices_broadcasts_and_gathers() -> None:
    nodes = [
        node("Slice", "x first last axes", "s"),
        node("Mul", "s b", "m"),
        node("Gather", "m index", "g", axis=1),
        node("Concat", "g m", "y", axis=1),
    ]
    weights = {"first": np.array([1]), "last": np.array([4]), "axes": np.array([1]), "index": np.array([2, 0, 2])}

    def function(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        m = x[:, 1:4] * b
        return torch.cat([m[:, [2, 0, 2]], m], 1)

    check(nodes, {"x": normal(3, 5), "b": normal(3)}, function, xs=["x", "b"], weights=weights)


def test_gradient_of_products_of_symbolic_sizes_and_of_a_maximum() -> None:
    nodes = [node("MatMul", "x w", "h"), node("Tanh", "h", "t"), node("ReduceMax", "t", "y", axes=[1], keepdims=0)]
    feeds = {"x": normal(3, 4), "w": normal(4, 2)}
    check(nodes, feeds, lambda x, w: (x @ w).tanh().amax(1), xs=["x", "w"], dynamic=True)


def test_gradient_at_other_values_and_at_an_intermediate_one() -> None:
    first = helper.make_node("Mul", ["x", "x"], ["h"])
    second = helper.make_node("Mul", ["h", "h"], ["y"])
    gradient = helper.make_node("Gradient", ["other"], ["d"], domain=DOMAIN, xs=["h"], y="y")
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "other", "d")]
    graph = helper.make_graph([first, second, gradient], "g", floats[:2], floats[2:])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    program = convert(read(helper.make_model(graph, opset_imports=imports, ir_version=9)))
    assert isinstance(program, CoreProgram)
    (result,) = native_run(program, [np.ones(2, np.float32), np.array([3, 5], np.float32)])
    np.testing.assert_array_equal(result, np.array([6, 10], np.float32))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(Refusal, match="no value named nowhere"):
        agrees("Gradient", [normal(2)], opset=1, domain=DOMAIN, expected=[None], xs=["nowhere"], y="out0")
