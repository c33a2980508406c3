"""The memory that a model needs whoever runs it: its weights, and the values of which all are needed at one moment."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import onnx
from onnx import helper, numpy_helper, shape_inference


def memory_of(path: Path) -> dict[str, int]:
    """Bytes of the ``weights``, and of the inputs, outputs and intermediate results that are ``live`` together.

    Weights are initializers and the numbers that nodes hold as attributes, as those of trees do. Nodes run in the order of the
    file, one at a time; values whose sizes are not known count as nothing.
    """
    model = onnx.load(path)
    graph = model.graph
    weights = {tensor.name: numpy_helper.to_array(tensor).nbytes for tensor in graph.initializer}
    attributes = sum(_numbers(attribute) for node in graph.node for attribute in node.attribute)
    with contextlib.suppress(ValueError, RuntimeError):  # the model is too large to be passed, or not understood
        graph = shape_inference.infer_shapes(model, data_prop=True).graph
    sizes = {value.name: _bytes(value) for value in (*graph.input, *graph.output, *graph.value_info)}
    last: dict[str, int] = {}
    for place, node in enumerate(graph.node):
        last |= dict.fromkeys(node.input, place)
    kept = {value.name for value in (*graph.input, *graph.output)}
    held = peak = sum(sizes[value.name] for value in graph.input if value.name not in weights)
    for place, node in enumerate(graph.node):
        held += sum(sizes.get(name, 0) for name in node.output)
        peak = max(peak, held)
        ended = {name for name in (*node.input, *node.output) if last.get(name, place) == place}
        held -= sum(sizes.get(name, 0) for name in ended if name not in kept and name not in weights)
    return {"weights": sum(weights.values()) + attributes, "live": peak}


def _numbers(attribute: onnx.AttributeProto) -> int:
    """The bytes of the numbers of an attribute: int64 and float32, or a tensor's."""
    tensors = [*attribute.tensors, *([attribute.t] if attribute.HasField("t") else [])]
    held = sum(numpy_helper.to_array(tensor).nbytes for tensor in tensors if tensor.data_type != onnx.TensorProto.STRING)
    return held + 8 * len(attribute.ints) + 4 * len(attribute.floats)


def _bytes(value: onnx.ValueInfoProto) -> int:
    tensor = value.type.tensor_type
    if not tensor.elem_type or tensor.elem_type == onnx.TensorProto.STRING:
        return 0
    return math.prod(dim.dim_value for dim in tensor.shape.dim) * helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
