"""Elements as integers of the same order, so that a sort compares one kind of thing."""

from __future__ import annotations

import torch
from torch_mlir import ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import Builder
from onnx2torch_mlir.lowering.casts import cast
from onnx2torch_mlir.lowering.dtypes import Kind, int_range, kind, op_math, width


def key_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the keys of ``dtype``: int32 or int64.

    Raises:
        Refusal: O2M-L002 for complex numbers, which have no order.
    """
    if kind(dtype) is Kind.COMPLEX:
        raise refuse("O2M-L002", f"numbers of {dtype} have no order", case=str(dtype))
    return torch.int64 if width(op_math(dtype)) == 64 else torch.int32


def key_of(b: Builder, x: ir.Value, dtype: torch.dtype, descending: bool) -> ir.Value:
    """A signed integer that is smaller the earlier ``x`` comes; equal elements have the same one, and so have all NaN."""
    wide = op_math(dtype)
    keys = key_dtype(dtype)
    x = cast(b, x, dtype, wide)
    if kind(wide) is Kind.FLOAT:
        key = _of_float(b, x, wide, keys)
    elif wide in (torch.uint32, torch.uint64):
        key = b.same("arith.xori", x, b.constant(int_range(keys)[0], keys))
    else:
        key = cast(b, x, wide, keys)
    return b.same("arith.xori", key, b.constant(-1, keys)) if descending else key


def _of_float(b: Builder, x: ir.Value, dtype: torch.dtype, keys: torch.dtype) -> ir.Value:
    """The bits; those of negative numbers but for the sign turned over."""
    _, highest = int_range(keys)
    # Both zeros are equal.
    bits = b.make("arith.bitcast", b.element(keys), b.same("arith.addf", x, b.constant(0.0, dtype)))
    sign = b.same("arith.shrsi", bits, b.constant(width(keys) - 1, keys))
    turned = b.same("arith.xori", bits, b.same("arith.andi", sign, b.constant(highest, keys)))
    return b.select(b.compare("uno", x, x), b.constant(highest, keys), turned)
