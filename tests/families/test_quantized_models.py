"""Quantized models, hand-made and from onnxruntime's quantizers, against onnxruntime at two sets of sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from onnx2torch_mlir.model import read
from onnx2torch_mlir.program import CoreProgram, convert

Array = np.ndarray[Any, Any]
Node = onnx.NodeProto
RANDOM = np.random.default_rng(8)
U8, I8 = np.uint8, np.int8


def precise(model: bytes) -> onnxruntime.InferenceSession:
    """A session whose kernels do not saturate the sums of two products, as those for AVX2 do of uint8 by int8."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def steps_apart(program: CoreProgram, model: bytes, inputs: Sequence[dict[str, Array]], steps: Sequence[float]) -> float:
    """The greatest difference from onnxruntime's outputs in their steps, native and in eager PyTorch."""
    session, native, eager = precise(model), program.compile(), program.eager()
    worst = 0.0
    for feeds in inputs:
        wanted = session.run(None, feeds)
        for results in (native.run(list(feeds.values())), eager.run(list(feeds.values()))):
            for result, want, step in zip(results, wanted, steps, strict=True):
                assert result.shape == want.shape and result.dtype == want.dtype
                worst = max(worst, float(np.abs(result.astype(np.float64) - want).max(initial=0.0)) / step)
    return worst


class Graph:
    """A graph of nodes between pairs of quantizers; quantized tensors are asked for by ``quantized``."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: list[TensorProto] = []
        self.outputs: list[str] = []
        self.steps: list[float] = []

    def parameters(self, name: str, scale: Any, zero: Any) -> list[str]:
        self.constants.append(numpy_helper.from_array(np.asarray(scale, np.float32), f"{name}_scale"))
        self.constants.append(numpy_helper.from_array(np.asarray(zero), f"{name}_zero"))
        return [f"{name}_scale", f"{name}_zero"]

    def quantized(self, source: str, scale: float, zero: Any, *, output: bool = False) -> str:
        """``source`` quantized and dequantized."""
        given = self.parameters(source, scale, zero)
        self.nodes.append(helper.make_node("QuantizeLinear", [source, *given], [f"{source}_q"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{source}_q", *given], [f"{source}_d"]))
        if output:
            self.outputs.append(f"{source}_d")
            self.steps.append(scale)
        return f"{source}_d"

    def weight(self, name: str, data: Array, scale: Any, **attributes: int) -> str:
        zero = np.zeros(np.shape(scale), data.dtype)
        self.constants.append(numpy_helper.from_array(data, name))
        given = [name, *self.parameters(name, scale, zero)]
        self.nodes.append(helper.make_node("DequantizeLinear", given, [f"{name}_d"], **attributes))
        return f"{name}_d"

    def put(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def model(self, **shapes: Sequence[int | str]) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in shapes.items()]
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "quantized", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def whole(dtype: Any, *shape: int) -> Array:
    return RANDOM.integers(np.iinfo(dtype).min + 1, np.iinfo(dtype).max, shape).astype(dtype)


def image_graph() -> Graph:
    """Convolutions of each kind, pooling, joining, sums and products, each between quantizers of its own."""
    g = Graph()
    x = g.quantized("x", 0.03, U8(117))
    scales = RANDOM.uniform(0.001, 0.004, 6).astype(np.float32)
    k = g.weight("k", whole(I8, 6, 4, 3, 3), scales, axis=0)
    b = g.weight("b", whole(np.int16, 6).astype(np.int32), np.float32(0.03) * scales, axis=0)
    c = g.put("Relu", [g.put("Conv", [x, k, b], "c", pads=[1, 1, 1, 1], strides=[2, 1])], "r")
    c = g.quantized(c, 0.05, U8(3), output=True)
    d = g.put("Conv", [x, g.weight("kd", whole(I8, 4, 1, 3, 3), 0.002)], "d", group=4, pads=[1, 1, 1, 1])
    d = g.quantized(d, 0.02, I8(-9), output=True)
    t = g.put("ConvTranspose", [x, g.weight("kt", whole(I8, 4, 3, 2, 2), 0.003)], "t", strides=[2, 2])
    g.quantized(t, 0.04, U8(99), output=True)
    g.quantized(g.put("Add", [x, d], "s"), 0.06, U8(120), output=True)
    g.quantized(g.put("Mul", [x, d], "m"), 0.08, U8(120), output=True)
    a = g.put("AveragePool", [x], "a", kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 1])
    g.quantized(a, 0.02, U8(7), output=True)
    g.quantized(g.put("GlobalAveragePool", [c], "g"), 0.01, U8(0), output=True)
    p = g.put("MaxPool", [x], "p", kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1])
    g.quantized(g.put("Transpose", [g.put("Concat", [p, x], "j", axis=1)], "o", perm=[0, 2, 3, 1]), 0.03, U8(117), output=True)
    return g


def token_graph() -> Graph:
    """Products of matrices of each kind."""
    g = Graph()
    x = g.quantized("x", 0.03, U8(110))
    scales = RANDOM.uniform(0.001, 0.004, 12).astype(np.float32)
    product = g.put("MatMul", [x, g.weight("w", whole(I8, 16, 12), scales, axis=1)], "m")
    bias = g.weight("b", whole(np.int16, 12).astype(np.int32), np.float32(0.03) * scales, axis=0)
    y = g.quantized(g.put("Add", [product, bias], "y"), 0.05, U8(128), output=True)
    scores = g.put("MatMul", [y, g.put("Transpose", [y], "yt", perm=[0, 2, 1])], "scores")
    scores = g.quantized(scores, 0.4, U8(60), output=True)
    weights = g.quantized(g.put("Softmax", [scores], "weights"), 1 / 256, U8(0))
    mixed = g.quantized(g.put("MatMul", [weights, y], "mixed"), 0.04, I8(0), output=True)
    flat = g.put("Reshape", [mixed, g.put("Constant", [], "shape", value_ints=[-1, 12])], "flat")
    last = g.put("Gemm", [flat, g.weight("v", whole(I8, 5, 12), scales[:5], axis=0)], "last", transB=1)
    g.quantized(last, 0.05, I8(3), output=True)
    coarse = g.put("MatMul", [x, g.weight("z", whole(I8, 16, 12), scales[0])], "coarse")
    g.quantized(coarse, 0.0003, np.uint8(128), output=True)
    return g


def test_between_quantizers_over_images() -> None:
    g = image_graph()
    model = g.model(x=["N", 4, "H", "W"]).SerializeToString()
    inputs = [{"x": (RANDOM.standard_normal(s) * 2).astype(np.float32)} for s in ((2, 4, 9, 7), (1, 4, 3, 8))]
    assert steps_apart(convert(read(model)), model, inputs, g.steps) < 1.01


def test_between_quantizers_over_tokens() -> None:
    g = token_graph()
    model = g.model(x=["N", "S", 16]).SerializeToString()
    # Not of one token: onnxruntime's quantized softmax makes 0 of a probability of 1.
    inputs = [{"x": (RANDOM.standard_normal(s) * 2).astype(np.float32)} for s in ((2, 5, 16), (1, 2, 16))]
    assert steps_apart(convert(read(model)), model, inputs, g.steps) < 1.01


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.batches: Iterator[dict[str, Array]] = iter([{"x": images(2)} for _ in range(3)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.batches, None)


def images(count: int) -> Array:
    return RANDOM.standard_normal((count, 3, 8, 8)).astype(np.float32)


def floats(*shape: int) -> Array:
    return (RANDOM.standard_normal(shape) * 0.3).astype(np.float32)


def network(path: Path) -> Path:
    """A small network of floats to quantize."""
    weights = {"k": floats(8, 3, 3, 3), "kb": floats(8), "d": floats(8, 1, 3, 3), "w": floats(8, 10), "wb": floats(10)}
    text = """<ir_version: 8, opset_import: ["": 17]> network (float[N, 3, 8, 8] x) => (float[N, 10] y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, k, kb)   r = Relu(c)   e = Conv<group = 8, pads = [1, 1, 1, 1]>(r, d)
        s = Add(r, e)   p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(s)   g = GlobalAveragePool(p)
        f = Flatten(g)  y = Gemm(f, w, wb) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.save(model, path)
    return path


QUANTIZERS: dict[str, dict[str, Any]] = {
    "u8s8 per channel": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True},
    "u16u8": {"activation_type": QuantType.QUInt16, "weight_type": QuantType.QUInt8},
    "u8s4": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt4},
    "operators": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "quant_format": QuantFormat.QOperator},
}


@pytest.mark.parametrize("name", QUANTIZERS)
def test_onnxruntimes_quantizer(name: str, tmp_path: Path) -> None:
    path = tmp_path / "quantized.onnx"
    quantize_static(network(tmp_path / "floats.onnx"), path, Calibration(), **QUANTIZERS[name])
    constants = {item.name: numpy_helper.to_array(item) for item in onnx.load(path).graph.initializer}
    inputs = [{"x": images(3)}, {"x": images(1)}]
    assert steps_apart(convert(read(path)), path.read_bytes(), inputs, [float(constants["y_scale"])]) < 1.01


def test_onnxruntimes_dynamic_quantizer(tmp_path: Path) -> None:
    path = tmp_path / "quantized.onnx"
    quantize_dynamic(network(tmp_path / "floats.onnx"), path, weight_type=QuantType.QUInt8)
    assert steps_apart(convert(read(path)), path.read_bytes(), [{"x": images(3)}], [1e-5]) < 1
