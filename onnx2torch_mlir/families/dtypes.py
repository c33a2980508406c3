"""ONNX element types and their torch dtypes (https://onnx.ai/onnx/repo-docs/IR.html#tensor-element-types).

Types of less than a byte have no torch dtype of their own: they are held unpacked in the next wider one.
"""

from __future__ import annotations

import torch

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
    21: ("uint4", None),
    22: ("int4", None),
    23: ("float4e2m1", None),
    24: ("float8e8m0", torch.float8_e8m0fnu),
    25: ("uint2", None),
    26: ("int2", None),
}
"""Number in TensorProto.DataType -> (name in ONNX type strings, torch dtype or None where there is none yet)."""

_NAMES: dict[str, torch.dtype | None] = dict(ELEMENT_TYPES.values())

UNSIGNED = frozenset({torch.uint8, torch.uint16, torch.uint32, torch.uint64})


def torch_dtype(element_type: int) -> torch.dtype:
    """The dtype of an ONNX element type.

    Raises:
        Refusal: O2M-C008 where it has none.
    """
    name, dtype = ELEMENT_TYPES.get(int(element_type), (str(element_type), None))
    if dtype is None:
        raise refuse("O2M-C008", f"tensors of element type {name} are not supported yet", case=name)
    return dtype


_ALIASES = {"double": "double", "float64": "double", "float32": "float"}


def named_dtype(type_string: str) -> torch.dtype | None:
    """The dtype of a schema's type string such as ``tensor(float16)``, or None."""
    name = type_string.removeprefix("tensor(").removesuffix(")")
    return _NAMES.get(_ALIASES.get(name, name))


def describe(dtype: torch.dtype) -> str:
    """ONNX's name of a dtype."""
    return next((name for name, item in ELEMENT_TYPES.values() if item is dtype), str(dtype))


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


def element_type(dtype: torch.dtype) -> int:
    """The number in TensorProto.DataType of a dtype."""
    return next(number for number, (_, item) in ELEMENT_TYPES.items() if item is dtype)
