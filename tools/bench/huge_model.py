"""The model of the memory benchmark: many linear layers, their weights in an external file that is one hole."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

_PAGE = 4096


def write_model(path: Path, *, layers: int, width: int) -> int:
    """Write ``layers`` layers of ``width`` x ``width`` float32 with a dynamic batch to ``path``; returns the weights' bytes.

    The data file beside it has no blocks on the disk, but its size: every byte reads as 0.
    """
    nodes, initializers, offset, value = [], [], 0, "x"
    for layer in range(layers):
        names = (f"model.layers.{layer}.weight", f"model.layers.{layer}.bias")
        for name, dims in zip(names, ([width, width], [width]), strict=True):
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
            length = 4 * width ** len(dims)
            for key, entry in (("location", f"{path.name}.data"), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(entry))
            offset += -(-length // _PAGE) * _PAGE
            initializers.append(tensor)
        product, total, result = f"product.{layer}", f"total.{layer}", f"layer.{layer}"
        transposed = f"transposed.{layer}"
        nodes += [
            helper.make_node("Transpose", [names[0]], [transposed], perm=[1, 0], name=f"/layers.{layer}/Transpose"),
            helper.make_node("MatMul", [value, transposed], [product], name=f"/layers.{layer}/MatMul"),
            helper.make_node("Add", [product, names[1]], [total], name=f"/layers.{layer}/Add"),
            helper.make_node("Relu", [total], [result], name=f"/layers.{layer}/Relu"),
        ]
        value = result
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])] for name in ("x", value)
    )
    graph = helper.make_graph(nodes, "huge", inputs, outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    with path.with_name(f"{path.name}.data").open("wb") as file:
        file.truncate(offset)
    return offset
