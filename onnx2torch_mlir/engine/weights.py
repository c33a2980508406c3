"""The contents of a program's weights, as it declares them."""

from __future__ import annotations

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine import arrays
from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.lowering.lowered import Weight


def loaded(weight: Weight) -> Array:
    """A dense array, without copying where that is possible; raises `Refusal` O2M-X002 if it is not what is declared."""
    case = f"weight {weight.name}"
    try:
        array = arrays.from_anything(weight.array() if callable(weight.array) else weight.array, weight.spec.dtype)
    except ValueError as error:
        raise refuse("O2M-X002", f"{case} {error}", case=case) from None
    if array.dtype != arrays.numpy_dtype(weight.spec.dtype) or array.shape != tuple(weight.spec.shape):
        raise refuse("O2M-X002", f"{case} is {array.dtype}{list(array.shape)}, declared {weight.spec}", case=case)
    return array
