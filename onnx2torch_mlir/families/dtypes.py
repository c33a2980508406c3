"""ONNX element types and their torch dtypes (https://onnx.ai/onnx/repo-docs/IR.html#tensor-element-types).

Types of less than a byte have no torch dtype of their own: they are held unpacked in one of a byte, see `core.narrow`.
"""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.narrow import NARROW
from onnx2torch_mlir.diagnostics import refuse

ELEMENT_TYPES: dict[int, tuple[str, torch.dtype | None]] = {
    1: ("float", torch.float32),
    2: ("uint8", torch.uint8),
    3: ("int8", torch.int8),
    4: ("uint16", torch.uint16),
    5: ("int16", torch.int16),
    6: ("int32", torch.int32),
    7: ("int64", torch.int64),
    8: ("string", None),
    9: ("bool", torch.bool),
    10: ("float16", torch.float16),
    11: ("double", torch.float64),
    12: ("uint32", torch.uint32),
    13: ("uint64", torch.uint64),
    14: ("complex64", torch.complex64),
    15: ("complex128", torch.complex128),
    16: ("bfloat16", torch.bfloat16),
    17: ("float8e4m3fn", torch.float8_e4m3fn),
    18: ("float8e4m3fnuz", torch.float8_e4m3fnuz),
    19: ("float8e5m2", torch.float8_e5m2),
    20: ("float8e5m2fnuz", torch.float8_e5m2fnuz),
    21: ("uint4", torch.uint8),
    22: ("int4", torch.int8),
    23: ("float4e2m1", torch.uint8),
    24: ("float8e8m0", torch.float8_e8m0fnu),
    25: ("uint2", torch.uint8),
    26: ("int2", torch.int8),
    27: ("float6e2m3", torch.uint8),
    28: ("float6e3m2", torch.uint8),
}
"""Number in TensorProto.DataType -> (name in ONNX type strings, torch dtype that holds it or None)."""

_NAMES: dict[str, torch.dtype | None] = dict(ELEMENT_TYPES.values())

UNSIGNED = frozenset({torch.uint8, torch.uint16, torch.uint32, torch.uint64})


def torch_dtype(element_type: int) -> torch.dtype:
    """The dtype that holds an ONNX element type.

    Raises:
        Refusal: O2M-C008 where it has none.
    """
    name, dtype = ELEMENT_TYPES.get(int(element_type), (str(element_type), None))
    if dtype is None:
        raise refuse("O2M-C008", f"tensors of element type {name} are not supported yet", case=name)
    return dtype


def narrow_element(element_type: int) -> str:
    """ONNX's name of an element type of less than a byte; empty for the others, of which the dtype says all."""
    name = ELEMENT_TYPES.get(int(element_type), ("", None))[0]
    return name if name in NARROW else ""


_ALIASES = {"double": "double", "float64": "double", "float32": "float"}


def named_dtype(type_string: str) -> torch.dtype | None:
    """The dtype of a schema's type string such as ``tensor(float16)``, or None."""
    name = _plain(type_string)
    return _NAMES.get(_ALIASES.get(name, name))


def named_element(type_string: str) -> str:
    """The element type of less than a byte that a schema's type string says, or an empty string."""
    name = _plain(type_string)
    return name if name in NARROW else ""


def _plain(type_string: str) -> str:
    return type_string.removeprefix("tensor(").removesuffix(")")


def describe(dtype: torch.dtype, element: str = "") -> str:
    """ONNX's name of a dtype, or of the ``element`` that it holds."""
    return element or next((name for name, item in ELEMENT_TYPES.values() if item is dtype), str(dtype))


def is_float(dtype: torch.dtype) -> bool:
    """Whether it is one of the floating-point types."""
    return dtype.is_floating_point


def is_integer(dtype: torch.dtype) -> bool:
    """Whether it is a signed or unsigned integer type (bool is not)."""
    return not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool


def lowest(dtype: torch.dtype) -> float | int:
    """The value that loses every maximum: minus infinity, or the smallest integer."""
    if dtype.is_floating_point:
        return float("-inf")
    return 0 if dtype is torch.bool else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> float | int:
    """The value that loses every minimum."""
    if dtype.is_floating_point:
        return float("inf")
    return 1 if dtype is torch.bool else torch.iinfo(dtype).max


def element_type(dtype: torch.dtype, element: str = "") -> int:
    """The number in TensorProto.DataType of a dtype, or of the ``element`` that it holds."""
    return next(number for number, (name, item) in ELEMENT_TYPES.items() if (name == element if element else item is dtype))
