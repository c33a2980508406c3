"""Element types: torch's dtypes as MLIR types, and the five kinds that decide how arithmetic on them works."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any

import torch
from torch_mlir import ir

from onnx2torch_mlir.diagnostics import refuse


class Kind(StrEnum):
    """How a dtype computes; MLIR integers are signless, so signedness lives here."""

    FLOAT = "f"
    SIGNED = "s"
    UNSIGNED = "u"
    BOOL = "b"
    COMPLEX = "c"


_INTEGERS = {
    torch.bool: (1, Kind.BOOL),
    torch.int8: (8, Kind.SIGNED),
    torch.int16: (16, Kind.SIGNED),
    torch.int32: (32, Kind.SIGNED),
    torch.int64: (64, Kind.SIGNED),
    torch.uint8: (8, Kind.UNSIGNED),
    torch.uint16: (16, Kind.UNSIGNED),
    torch.uint32: (32, Kind.UNSIGNED),
    torch.uint64: (64, Kind.UNSIGNED),
}

_FLOATS: dict[torch.dtype, Any] = {
    torch.float16: ir.F16Type,
    torch.bfloat16: ir.BF16Type,
    torch.float32: ir.F32Type,
    torch.float64: ir.F64Type,
    torch.float8_e4m3fn: ir.Float8E4M3FNType,
    torch.float8_e4m3fnuz: ir.Float8E4M3FNUZType,
    torch.float8_e5m2: ir.Float8E5M2Type,
    torch.float8_e5m2fnuz: ir.Float8E5M2FNUZType,
    torch.float8_e8m0fnu: ir.Float8E8M0FNUType,
}

_PARTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@cache
def kind(dtype: torch.dtype) -> Kind:
    """The kind of ``dtype``; refuses (O2M-L002) dtypes without arithmetic here."""
    if dtype in _INTEGERS:
        return _INTEGERS[dtype][1]
    if dtype in _FLOATS:
        return Kind.FLOAT
    if dtype in _PARTS:
        return Kind.COMPLEX
    raise refuse("O2M-L002", f"there is no lowering of {dtype}", case=str(dtype))


@cache
def width(dtype: torch.dtype) -> int:
    """Bits of ``dtype``; a bool has 1."""
    return _INTEGERS[dtype][0] if dtype in _INTEGERS else dtype.itemsize * 8


def element_type(dtype: torch.dtype) -> ir.Type:
    """The MLIR type of one element, in the current context; refuses (O2M-L002) what MLIR or the rules lack."""
    if dtype in _INTEGERS:
        return ir.IntegerType.get_signless(_INTEGERS[dtype][0])
    if dtype in _FLOATS:
        return _FLOATS[dtype].get()
    if dtype in _PARTS:
        return ir.ComplexType.get(_FLOATS[_PARTS[dtype]].get())
    raise refuse("O2M-L002", f"there is no lowering of {dtype}", case=str(dtype))


def part_of(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the real and the imaginary part of a complex ``dtype``."""
    return _PARTS[dtype]


def op_math(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which arithmetic on ``dtype`` is done: float32 for the narrower floats, as PyTorch does on CPUs."""
    return torch.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype


def int_range(dtype: torch.dtype) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype (0 and 1 for bool); refuses (O2M-L002) what has no order."""
    if dtype not in _INTEGERS:
        raise refuse("O2M-L002", f"numbers of {dtype} have no smallest and no largest", case=str(dtype))
    bits, sort = _INTEGERS[dtype]
    if sort is Kind.SIGNED:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


_CATEGORY = {Kind.BOOL: 0, Kind.SIGNED: 1, Kind.UNSIGNED: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


def promote(operands: list[tuple[torch.dtype, int | None]]) -> torch.dtype:
    """PyTorch's result type of (dtype, rank) pairs; rank None stands for a Python number.

    Dimensioned tensors come first; zero-dim tensors, then numbers, count only where their category is higher.
    """
    groups: list[torch.dtype | None] = [None, None, None]
    for dtype, rank in operands:
        level = 2 if rank is None else 1 if rank == 0 else 0
        known = groups[level]
        groups[level] = dtype if known is None else torch.promote_types(known, dtype)
    result: torch.dtype | None = None
    for level, group in enumerate(groups):
        if group is None:
            continue
        candidate = _of_number(group) if level == 2 else group
        if result is None:
            result = candidate
        elif _CATEGORY[kind(candidate)] > _CATEGORY[kind(result)]:
            result = torch.promote_types(result, candidate)
    assert result is not None
    return result


def _of_number(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.is_floating_point else dtype
