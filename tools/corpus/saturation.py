"""A model for onnxruntime to compute exactly where its products of uint8 with int8 would saturate.

On a CPU without instructions for dot products of 8 bits, onnxruntime adds pairs of such products in 16 bits, which overflow
into a limit; ONNX declares 32 bits. Products of uint8 with uint8 are exact there. So weights of int8, and their zero points,
are moved by 128: the same model, in numbers that do not saturate.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

_PRODUCTS = ("MatMulInteger", "ConvInteger")


def unsaturated(path: str) -> onnx.ModelProto | None:
    """The model at ``path`` with weights of uint8 in integer products of dynamically quantized values; None without any."""
    model = onnx.load(path)
    graph = model.graph
    tensors = {item.name: item for item in graph.initializer}
    dynamic = {node.output[0] for node in graph.node if node.op_type == "DynamicQuantizeLinear"}
    moved: dict[str, str] = {}

    def unsigned(name: str) -> str:
        if name not in moved:
            array = numpy_helper.to_array(tensors[name]).astype(np.int16) + 128
            moved[name] = f"{name}.unsigned"
            graph.initializer.append(numpy_helper.from_array(array.astype(np.uint8), moved[name]))
        return moved[name]

    for node in graph.node:
        if node.op_type not in _PRODUCTS or node.input[0] not in dynamic or not _is_int8(tensors, node.input[1]):
            continue
        zero = node.input[3] if len(node.input) > 3 else ""
        if zero and not _is_int8(tensors, zero):
            continue
        if not zero:
            zero = "zero.of.unsigned"
            if zero not in tensors:
                tensors[zero] = helper.make_tensor(zero, onnx.TensorProto.INT8, [], [0])
        inputs = [*node.input, "", ""][:3]
        inputs[1] = unsigned(node.input[1])
        node.ClearField("input")
        node.input.extend([*inputs, unsigned(zero)])
    return model if moved else None


def _is_int8(tensors: dict[str, onnx.TensorProto], name: str) -> bool:
    return name in tensors and tensors[name].data_type == onnx.TensorProto.INT8
