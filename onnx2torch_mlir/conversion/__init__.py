"""From a read model to a core program: rows looked up, nodes bound, converters called, findings collected."""

from onnx2torch_mlir.conversion.convert import Converted, check, check_names, convert
from onnx2torch_mlir.conversion.tensors import as_tensors, from_numpy, torch_tensor

__all__ = ["Converted", "as_tensors", "check", "check_names", "convert", "from_numpy", "torch_tensor"]
