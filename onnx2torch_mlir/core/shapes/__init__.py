"""Shape rules: the result type of every primitive, from the types of its arguments.

One rule per family of primitives, on sizes as expressions. They replace PyTorch's own FakeTensor rules while a program is
built: those guard on symbolic sizes (a dynamic pad or slice raises, or invents a symbol) and cost a millisecond per call.
The tests compare every rule with FakeTensor's on static shapes.
"""

from onnx2torch_mlir.core.shapes import contraction, movement, pointwise, quantization, reduction, window
from onnx2torch_mlir.core.shapes.rules import Result, TensorType, infer, rule_names

__all__ = [
    "Result",
    "TensorType",
    "contraction",
    "infer",
    "movement",
    "pointwise",
    "quantization",
    "reduction",
    "rule_names",
    "window",
]
