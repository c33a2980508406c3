"""ONNX in: models read, checked and normalized as onnx_ir graphs, their weights mapped and never loaded."""

from onnx2torch_mlir.model.reading import read
from onnx2torch_mlir.model.types import Dim, Kind, LoadedModel, ValueType, value_type, value_type_of
from onnx2torch_mlir.model.weights import MappedTensor, array, is_aligned

__all__ = [
    "Dim", "Kind", "LoadedModel", "MappedTensor", "ValueType", "array", "is_aligned", "read", "value_type",
    "value_type_of",
]  # fmt: skip
