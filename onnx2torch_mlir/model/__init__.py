"""ONNX in: models read, checked and normalized as onnx_ir graphs, their weights mapped and never loaded."""

from onnx2torch_mlir.model.extraction import extract, graph_model, one_node_model
from onnx2torch_mlir.model.functions import expand_functions, function_body
from onnx2torch_mlir.model.places import captured_by, node_ref, sub_graphs, values_captured, values_read, walk
from onnx2torch_mlir.model.reading import overridden, read
from onnx2torch_mlir.model.stored_lists import StoredList
from onnx2torch_mlir.model.types import Dim, Kind, LoadedModel, ValueType, value_type, value_type_of
from onnx2torch_mlir.model.weights import MappedTensor, array, is_aligned

__all__ = [
    "Dim", "Kind", "LoadedModel", "MappedTensor", "StoredList", "ValueType", "array", "captured_by", "expand_functions",
    "extract", "function_body", "graph_model", "is_aligned", "node_ref", "one_node_model", "overridden", "read", "sub_graphs",
    "value_type", "value_type_of", "values_captured", "values_read", "walk",
]  # fmt: skip
