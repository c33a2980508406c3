"""Blocked layouts against onnxruntime: its operators one by one, and a network that it optimized itself."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn

from onnx2torch_mlir.domains.com_microsoft_nchwc import blocks
from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import convert
from onnx2torch_mlir.verification import compare, generate_inputs, run_reference
from tests.one_node import agrees

RNG = np.random.default_rng(9)
BLOCK = blocks.of_this_machine()


def reals(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


X = reals(2, 2 * BLOCK, 7, 6)

CASES = [
    ("ReorderInput", [reals(2, 12, 3, 5)], {}),
    ("ReorderInput", [reals(2, 3, 5, 12)], {"channels_last": 1}),
    ("ReorderOutput", [X], {"channels": 2 * BLOCK - 3}),
    ("ReorderOutput", [X], {"channels": 2 * BLOCK, "channels_last": 1}),
    ("MaxPool", [X], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1], "ceil_mode": 1}),
    ("MaxPool", [X], {"kernel_shape": [2, 2], "dilations": [2, 1], "auto_pad": "SAME_UPPER"}),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ("AveragePool", [X], {"kernel_shape": [3, 3], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    ("GlobalAveragePool", [X], {}),
    ("GlobalMaxPool", [X], {}),
    ("Upsample", [X], {"scales": [1, 1, 2, 3]}),
    ("Upsample", [X], {"scales": [1, 1, 2, 3], "mode": "linear"}),
    ("Upsample", [X], {"scales": [1, 1, 3, 1], "mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
    ("Upsample", [X], {"scales": [1, 1, 2, 2], "mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    ("Conv", [reals(2, 3, 7, 6), reals(BLOCK, 3, 3, 3), reals(BLOCK)], {"pads": [1, 1, 1, 1], "activation": "Relu"}),
    ("Conv", [X, reals(BLOCK, 2 * BLOCK, 3, 3), None, reals(2, BLOCK, 7, 6)], {"auto_pad": "SAME_LOWER"}),
    ("Conv", [X, reals(BLOCK, 2 * BLOCK, 1, 1)], {"activation": "LeakyRelu", "activation_params": [0.2], "strides": [2, 2]}),
    ("Conv", [X, reals(2 * BLOCK, 1, 3, 3), reals(2 * BLOCK)], {"group": 2 * BLOCK, "dilations": [2, 2]}),
    ("Conv", [X, reals(4 * BLOCK, BLOCK, 2, 3)], {"group": 2}),
]


@pytest.mark.parametrize(("op", "inputs", "attributes"), CASES, ids=[f"{index}-{case[0]}" for index, case in enumerate(CASES)])
def test_alone(op: str, inputs: Any, attributes: Any) -> None:
    """What it takes and gives are blocked tensors, as they are."""
    options = {"native": op.startswith("Reorder"), "rtol": 1e-4, "atol": 1e-5}
    agrees(op, inputs, domain="com.microsoft.nchwc", opset=1, known=(1, 2), **options, **attributes)


class Network(nn.Module):
    """All kinds of convolutions; channels that fill no block; sums, concatenations, activations between them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 20, 3, padding=1)
        self.strided = nn.Conv2d(20, 24, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.norm = nn.BatchNorm2d(24)
        self.grouped = nn.Conv2d(24, 48, 1, groups=3)
        self.narrow = nn.Conv2d(24, 20, 1)
        self.joined = nn.Conv2d(48, 8, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.strided(nn.functional.max_pool2d(torch.relu(self.stem(x)), 2))
        z = torch.relu(self.norm(self.depthwise(y))) + y
        joined = self.joined(torch.cat([torch.sigmoid(z), nn.functional.avg_pool2d(y, 3, 1, 1)], 1))
        larger = nn.functional.interpolate(self.narrow(z), scale_factor=2.0)
        return larger, self.grouped(z), joined.mean((2, 3))


@pytest.fixture(scope="module")
def optimized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network as onnxruntime writes it after all of its optimizations."""
    torch.manual_seed(0)
    model = Network().eval()
    for item in model.modules():
        if isinstance(item, nn.BatchNorm2d) and item.running_mean is not None and item.running_var is not None:
            item.running_mean.normal_()
            item.running_var.uniform_(0.5, 2.0)
    buffer = io.BytesIO()
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    options = {"input_names": ["x"], "dynamic_axes": axes, "opset_version": 17}
    torch.onnx.export(model, (torch.randn(1, 3, 32, 32),), buffer, dynamo=False, **options)
    path = tmp_path_factory.mktemp("nchwc") / "optimized.onnx"
    session = onnxruntime.SessionOptions()
    session.log_severity_level = 4
    session.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(buffer.getvalue(), session, providers=["CPUExecutionProvider"])
    return path


def test_a_network_is_plain_again(optimized: Path) -> None:
    """No element is moved but those of the filters, which are not part of the program; and all sizes agree."""
    loaded = read(optimized)
    domains = [node.domain for node in loaded.ir.graph]
    assert domains.count("com.microsoft.nchwc") > 8
    program = convert(loaded)
    called = [str(node.target) for node in program.exported.graph.nodes if node.op == "call_function"]
    assert not [name for name in called if "permute" in name or "view" in name]
    engine = program.compile()
    for sizes in ({"n": 1, "h": 32, "w": 32}, {"n": 2, "h": 48, "w": 40}):
        feeds = generate_inputs(loaded, sizes)
        theirs = run_reference(optimized, feeds)
        for value, own, reference in zip(loaded.outputs, engine.run(feeds), theirs.outputs, strict=True):
            comparison = compare(value.name, own, reference)
            assert comparison.agrees, f"at {sizes}: {comparison.reason()}"


def graph_of(*nodes: tuple[str, tuple[int, ...], dict[str, int]]) -> ir.Graph:
    made: list[ir.Node] = []
    for op, shape, attributes in nodes:
        before = made[-1].outputs[0] if made else ir.Value(name="x")
        inputs = [before, ir.Value(name="w", shape=ir.Shape(shape))] if shape else [before]
        items = [ir.AttrInt64(name, number) for name, number in attributes.items()]
        made.append(ir.Node(blocks.DOMAIN, op, inputs, items))
    return ir.Graph([], [], nodes=made)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("Conv", (32, 3, 3, 3), {}), ("Conv", (24, 32, 1, 1), {})], 8),
        ([("Conv", (32, 3, 3, 3), {}), ("ReorderOutput", (), {"channels": 20})], 16),
        ([("Conv", (32, 12, 3, 3), {})], 16),
        ([("Conv", (32, 32, 3, 3), {}), ("ReorderOutput", (), {"channels": 32})], BLOCK),
        ([("Conv", (32, 32, 3, 3), {}), ("ReorderOutput", (), {"channels": 28})], BLOCK),
        ([("MaxPool", (), {}), ("ReorderOutput", (), {"channels": 20})], BLOCK),
    ],
)
def test_the_size_of_a_block(nodes: Any, expected: int) -> None:
    """It is told by channels that are no multiples of 16; else it is this machine's."""
    graph = graph_of(*nodes)

    class Around:
        node = graph[0]

    assert blocks.block_of(Around()) == expected


def test_blocks_of_16() -> None:
    """What a machine with wider registers writes: 20 channels in blocks of 16, filters of all three orders."""
    x = reals(2, 12, 5, 6)
    first, second, third = reals(20, 12, 3, 3), reals(20, 20, 1, 1), reals(20, 1, 3, 3)

    def filled(w: Any, filters: int, channels: int) -> Any:
        return np.pad(w, [(0, filters - w.shape[0]), (0, channels - w.shape[1]), (0, 0), (0, 0)])

    def by_filters(w: Any) -> Any:
        apart = w.reshape(-1, 16, *w.shape[1:])
        return apart.transpose(0, 2, 3, 4, 1).reshape(w.shape)

    def by_both(w: Any) -> Any:
        apart = w.reshape(w.shape[0] // 16, 16, w.shape[1] // 16, 16, *w.shape[2:])
        return apart.transpose(0, 2, 4, 5, 3, 1).reshape(w.shape)

    text = """<ir_version: 9, opset_import: ["" : 17, "com.microsoft.nchwc" : 1]>
        agraph (float[N, 12, H, W] x, float[32, 12, 3, 3] a, float[32, 32, 1, 1] b, float[32, 1, 3, 3] c)
            => (float[N, 20, H, W] y) {
            one = com.microsoft.nchwc.Conv <activation = "Relu", pads = [1, 1, 1, 1]> (x, a)
            two = com.microsoft.nchwc.Conv (one, b)
            three = com.microsoft.nchwc.Conv <group = 32, pads = [1, 1, 1, 1]> (two, c)
            sum = Add (three, one)
            y = com.microsoft.nchwc.ReorderOutput <channels = 20> (sum)
        }"""
    model = onnx.parser.parse_model(text)
    arrays = {"a": by_filters(filled(first, 32, 12)), "b": by_both(filled(second, 32, 32))}
    arrays["c"] = by_filters(filled(third, 32, 1))
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    del model.graph.input[1:]
    tensors = [torch.from_numpy(item) for item in (x, first, second, third)]
    one = torch.relu(nn.functional.conv2d(tensors[0], tensors[1], padding=1))
    expected = nn.functional.conv2d(nn.functional.conv2d(one, tensors[2]), tensors[3], padding=1, groups=20) + one
    (found,) = convert(read(model)).eager().run([x])
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-4)
