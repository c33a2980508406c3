"""Tensors as MLIR attributes: big ones by reference to their memory, small ones as readable numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch_mlir import ir

_RESOURCE = re.compile(r"dense_resource<(\w+)>")

SMALL_BYTES = 256
"""Tensors up to this size are written as ``dense<...>``, which passes can fold and people can read."""

_ALIGNMENT = 16
"""Of a resource in bytecode: what any allocator gives, for MLIR refuses bytecode that lies in less aligned memory."""

ELEMENT_TYPES: dict[torch.dtype, Callable[[], ir.Type]] = {
    torch.bool: lambda: ir.IntegerType.get_signless(1),
    torch.int8: lambda: ir.IntegerType.get_signed(8),
    torch.int16: lambda: ir.IntegerType.get_signed(16),
    torch.int32: lambda: ir.IntegerType.get_signed(32),
    torch.int64: lambda: ir.IntegerType.get_signed(64),
    torch.uint8: lambda: ir.IntegerType.get_unsigned(8),
    torch.uint32: lambda: ir.IntegerType.get_unsigned(32),
    torch.float16: lambda: ir.F16Type.get(),
    torch.bfloat16: lambda: ir.BF16Type.get(),
    torch.float32: lambda: ir.F32Type.get(),
    torch.float64: lambda: ir.F64Type.get(),
    torch.float8_e5m2: lambda: ir.Float8E5M2Type.get(),
    torch.float8_e4m3fn: lambda: ir.Float8E4M3FNType.get(),
    torch.float8_e5m2fnuz: lambda: ir.Float8E5M2FNUZType.get(),
    torch.float8_e4m3fnuz: lambda: ir.Float8E4M3FNUZType.get(),
    torch.float8_e8m0fnu: lambda: ir.Float8E8M0FNUType.get(),
    torch.complex64: lambda: ir.ComplexType.get(ir.F32Type.get()),
    torch.complex128: lambda: ir.ComplexType.get(ir.F64Type.get()),
}
"""Element types of the torch dialect, which keeps the signedness of integers. torch-mlir's dtype table
(``torch_mlir.extras.fx_importer.TORCH_DTYPE_TO_INT``) has no uint16 and no uint64, and its passes abort on them."""

_SIGNLESS_STORAGE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The memory of ``tensor`` as a NumPy array, without a copy if it is contiguous.

    Element types that NumPy lacks (bfloat16, float8) come as integers of the same width.
    """
    with torch.utils._python_dispatch._disable_current_modes():
        tensor = tensor.detach()
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        tensor = tensor.contiguous()
        if tensor.dtype is torch.bfloat16 or (tensor.dtype.is_floating_point and tensor.dtype.itemsize == 1):
            tensor = tensor.view(_SIGNLESS_STORAGE[tensor.dtype.itemsize])
        return tensor.numpy()


def elements(tensor: torch.Tensor, name: str, element_type: ir.Type | None = None) -> ir.Attribute:
    """``tensor`` as an elements attribute of the current context; ``name`` becomes the name of its resource.

    A tensor of more than `SMALL_BYTES` becomes a ``dense_resource`` that points into the tensor's own memory and keeps
    it alive as long as the context. Bools are always ``dense``. ``element_type`` overrides the torch dialect's.
    """
    array = as_array(tensor)
    shape = list(tensor.shape)
    mlir_type = element_type if element_type is not None else ELEMENT_TYPES[tensor.dtype]()
    if tensor.dtype is torch.bool or array.nbytes <= SMALL_BYTES:
        return ir.DenseElementsAttr.get(array, type=mlir_type, shape=shape)
    with ir.Location.unknown():
        tensor_type = ir.RankedTensorType.get(shape, mlir_type)
    return ir.DenseResourceElementsAttr.get_from_buffer(array, name, tensor_type, alignment=_ALIGNMENT)


Absent = dict[str, tuple[str, torch.Tensor]]
"""Weights that were left out of a module: their names and data, by the names of the resources that stand for them."""


def absent_elements(tensor: torch.Tensor, name: str, absent: Absent) -> ir.Attribute:
    """`elements` without the data, which go to ``absent``: a resource that passes move and do not look into."""
    resource = f"weight_{len(absent)}"
    absent[resource] = (name, tensor)
    sizes = "x".join(map(str, (*tensor.shape, ELEMENT_TYPES[tensor.dtype]())))
    return ir.Attribute.parse(f"dense_resource<{resource}> : tensor<{sizes}>")


def fill_elements(operation: Any, absent: Absent) -> None:
    """Give the `absent_elements` in ``operation``, and in all within it, their data.

    What moved them may have changed their shape, and the sign of their type; their bytes are the same.
    """
    for key, value in list(operation.attributes.items()):
        # The bindings see in a resource without data just an attribute.
        found = _RESOURCE.match(str(value)) if type(value) in (ir.Attribute, ir.DenseResourceElementsAttr) else None
        if found is not None and found[1] in absent:
            name, tensor = absent[found[1]]
            resource = ir.DenseResourceElementsAttr.get_from_buffer(as_array(tensor), name, value.type, alignment=_ALIGNMENT)
            operation.attributes[key] = resource
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                fill_elements(inner.operation, absent)
