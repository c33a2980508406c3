"""The border of a model that onnxruntime runs: what it cannot take or hand over as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]

_CARRIERS = {
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.FLOAT8E4M3FN: TensorProto.FLOAT,
    TensorProto.FLOAT8E4M3FNUZ: TensorProto.FLOAT,
    TensorProto.FLOAT8E5M2: TensorProto.FLOAT,
    TensorProto.FLOAT8E5M2FNUZ: TensorProto.FLOAT,
    TensorProto.INT4: TensorProto.INT8,
    TensorProto.UINT4: TensorProto.UINT8,
}
"""Element types without a NumPy type of their own, and the type that holds each of their values."""


class Border:
    """Casts at the inputs and outputs of a model for element types without a NumPy type; arrays for sparse inputs."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        held = {tensor.name for tensor in model.graph.initializer}
        self._inputs = {
            value.name: value.type.tensor_type.elem_type
            for value in model.graph.input
            if value.type.tensor_type.elem_type in _CARRIERS and value.name not in held
        }
        self._sparse = {value.name for value in model.graph.input if value.type.HasField("sparse_tensor_type")}
        self._outputs = [value.type.tensor_type.elem_type for value in model.graph.output]
        self.needed = bool(self._inputs) or any(kind in _CARRIERS for kind in self._outputs)

    def model(self, ir_version: int) -> onnx.ModelProto:
        """A copy of the model with the casts."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        model.ir_version = ir_version
        if not self.needed:
            return model
        graph = model.graph
        before = []
        for value in graph.input:
            if value.name in self._inputs:
                kind = self._inputs[value.name]
                before.append(helper.make_node("Cast", [f"{value.name}/carried"], [value.name], to=kind))
                value.name = f"{value.name}/carried"
                value.type.tensor_type.elem_type = _CARRIERS[kind]
        nodes = [*before, *graph.node]
        for value, kind in zip(graph.output, self._outputs, strict=True):
            if kind in _CARRIERS:
                nodes.append(helper.make_node("Cast", [value.name], [f"{value.name}/carried"], to=_CARRIERS[kind]))
                value.name = f"{value.name}/carried"
                value.type.tensor_type.elem_type = _CARRIERS[kind]
        del graph.node[:]
        graph.node.extend(nodes)
        return model

    def feeds(self, feeds: Mapping[str, Array]) -> dict[str, Any]:
        """Arrays under the names and types of the model with the casts."""
        feeds = {name: _sparse(array) if name in self._sparse else array for name, array in feeds.items()}
        carried = {name: helper.tensor_dtype_to_np_dtype(_CARRIERS[kind]) for name, kind in self._inputs.items()}
        return {
            f"{name}/carried" if name in carried else name: array.astype(carried[name]) if name in carried else array
            for name, array in feeds.items()
        }

    def results(self, outputs: Sequence[Any]) -> list[Any]:
        """Results in their declared types."""
        return [
            item.astype(helper.tensor_dtype_to_np_dtype(kind)) if kind in _CARRIERS else item
            for item, kind in zip(outputs, self._outputs, strict=True)
        ]


def _sparse(array: Array) -> Any:
    """A matrix as onnxruntime takes it for a sparse one: the numbers that are not 0, and the two indices of each."""
    import onnxruntime

    indices = np.argwhere(array)
    numbers = np.ascontiguousarray(array[tuple(indices.T)])
    device = onnxruntime.OrtDevice.make("cpu", 0)
    shape = np.array(array.shape, np.int64)
    sparse = onnxruntime.SparseTensor.sparse_coo_from_numpy(shape, numbers, indices.reshape(-1).astype(np.int64), device)
    return onnxruntime.OrtValue.ort_value_from_sparse_tensor(sparse)
