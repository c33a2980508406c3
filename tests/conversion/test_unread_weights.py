"""Conversion looks at no weight, whatever takes it: the pages of the data file stay out of memory."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import onnx2torch_mlir
from tests import resident

BYTES = {TensorProto.FLOAT: 4, TensorProto.FLOAT16: 2, TensorProto.INT8: 1, TensorProto.UINT8: 1, TensorProto.INT64: 8}
F, H, I8, U8, I64 = BYTES
SIDE = 1024

# What takes the weight "w" of the type and shape: nodes that give "y" from it, from "x" [SIDE], and from small constants.
CASES = {
    "Transpose": (F, [SIDE, SIDE], ["Transpose(w)->t", "MatMul(x,t)->y"]),
    "Cast": (H, [SIDE, SIDE], ["Cast(w)->t {to: 1}", "MatMul(x,t)->y"]),
    "Reshape": (F, [SIDE * SIDE], ["Reshape(w,square)->t", "MatMul(x,t)->y"]),
    "DequantizeLinear": (I8, [SIDE, SIDE], ["DequantizeLinear(w,scale)->t", "MatMul(x,t)->y"]),
    "DequantizeLinear per axis": (U8, [SIDE, SIDE], ["DequantizeLinear(w,scales,zeros)->t {axis: 0}", "MatMul(x,t)->y"]),
    "Gather": (F, [SIDE, SIDE], ["Cast(x)->i {to: 7}", "Gather(w,i)->y"]),
    "Gather by weight": (I64, [SIDE * SIDE], ["Gather(x,w)->y"]),
    "Concat": (F, [SIDE, SIDE], ["Concat(w,w)->t {axis: 1}", "MatMul(x,t)->y"]),
    "Split": (F, [SIDE, SIDE], ["Split(w)->t,u {num_outputs: 2, axis: 1}", "MatMul(x,t)->y"]),
    "Slice": (F, [SIDE, SIDE], ["Slice(w,one,two)->t", "Mul(x,t)->y"]),
    "Conv": (F, [SIDE, SIDE, 1], ["Unsqueeze(x,zero_two)->i", "Conv(i,w)->y"]),
    "Gemm": (F, [SIDE, SIDE], ["Unsqueeze(x,zero)->i", "Gemm(i,w)->y {transB: 1}"]),
    "MatMulInteger": (I8, [SIDE, SIDE], ["Cast(x)->i {to: 2}", "MatMulInteger(i,w)->y"]),
    "Pow": (F, [SIDE, SIDE], ["Pow(x,w)->y"]),
    "Where": (F, [SIDE, SIDE], ["Greater(x,half)->c", "Where(c,w,half)->y"]),
    "ReduceSum": (F, [SIDE, SIDE], ["ReduceSum(w)->t", "Add(x,t)->y"]),
    "Expand": (F, [SIDE, SIDE], ["Shape(w)->s", "Expand(w,s)->t", "MatMul(x,t)->y"]),
    "Loop": (F, [SIDE, SIDE], ["Identity(w)->t", "MatMul(x,t)->y"]),
    "PRelu": (F, [SIDE, SIDE], ["Expand(x,square)->t", "PRelu(t,w)->y"]),
    "Clip": (F, [SIDE, SIDE], ["Clip(w,half)->t", "MatMul(x,t)->y"]),
    "LayerNormalization": (F, [SIDE, SIDE], ["LayerNormalization(w,scales)->t", "MatMul(x,t)->y"]),
    "OneHot": (I64, [SIDE, SIDE], ["OneHot(w,two0,pair)->t {axis: 0}", "ReduceMax(t)->m", "Add(x,m)->y"]),
}  # fmt: skip


def model(path: Path, dtype: int, shape: list[int], calls: list[str]) -> None:
    nodes = []
    for call in calls:
        op, inputs, outputs, attributes = re.fullmatch(r"(\w+)\(([^)]*)\)->([\w,]+)(?: \{(.*)\})?", call).groups()
        pairs = [item.split(": ") for item in attributes.split(", ")] if attributes else []
        nodes.append(helper.make_node(op, inputs.split(","), outputs.split(","), **{key: int(text) for key, text in pairs}))
    small = [
        helper.make_tensor("square", TensorProto.INT64, [2], [SIDE, SIDE]),
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
        helper.make_tensor("two", TensorProto.INT64, [1], [2]),
        helper.make_tensor("two0", TensorProto.INT64, [], [2]),
        helper.make_tensor("pair", TensorProto.FLOAT, [2], [0, 1]),
        helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
        helper.make_tensor("zero_two", TensorProto.INT64, [2], [0, 2]),
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.5]),
        helper.make_tensor("half", TensorProto.FLOAT, [], [0.5]),
        helper.make_tensor("scales", TensorProto.FLOAT, [SIDE], [0.5] * SIDE),
        helper.make_tensor("zeros", TensorProto.UINT8, [SIDE], [3] * SIDE),
    ]
    weight = onnx.TensorProto(name="w", data_type=dtype, dims=shape, data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="weights.bin")
    x, y = helper.make_tensor_value_info("x", TensorProto.FLOAT, [SIDE]), onnx.ValueInfoProto(name="y")
    graph = helper.make_graph(nodes, "g", [x], [y], [*small, weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    count = BYTES[dtype]
    for size in shape:
        count *= size
    with (path.parent / "weights.bin").open("wb") as file:
        file.truncate(count)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="what is in memory is read from Linux's /proc")
@pytest.mark.parametrize("name", CASES)
def test_no_weight_is_read(name: str, tmp_path: Path) -> None:
    dtype, shape, calls = CASES[name]
    model(tmp_path / "m.onnx", dtype, shape, calls)
    program = onnx2torch_mlir.convert(tmp_path / "m.onnx")
    program.to_mlir("torch", weights="args")
    module = program.to_mlir("linalg")
    assert resident.of_file(tmp_path / "weights.bin") == 0
    assert module.weight_bytes >= SIDE * SIDE
