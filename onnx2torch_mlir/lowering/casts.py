"""Conversion of one element between dtypes, with every case defined.

Float to integer truncates towards zero. What does not fit saturates at 32 bits (at 64 for uint32 and the 64-bit types)
and then wraps to the narrower type, as x86 code of PyTorch, NumPy and onnxruntime does inside that range. NaN becomes
0. Integers wrap. Anything to bool asks whether it differs from zero. Narrow floats go through float32.
"""

from __future__ import annotations

import torch
from torch_mlir import ir

from onnx2torch_mlir.lowering.builder import Builder
from onnx2torch_mlir.lowering.dtypes import Kind, int_range, kind, width
from onnx2torch_mlir.lowering.float8 import decode, encode, is_float8


def cast(b: Builder, x: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    """One element of dtype ``source`` as ``target``."""
    if source is target:
        return x
    if is_float8(source):
        return cast(b, decode(b, x, source), torch.float32, target)
    if is_float8(target):
        return encode(b, cast(b, x, source, torch.float32), target)
    have, want = kind(source), kind(target)
    if want is Kind.BOOL:
        zero = b.constant(0, source)
        return b.compare("une" if have is Kind.FLOAT else "ne", x, zero)
    if have is Kind.FLOAT:
        return _float_to_float(b, x, source, target) if want is Kind.FLOAT else _float_to_int(b, x, source, target)
    if want is Kind.FLOAT:
        return _int_to_float(b, x, source, target)
    if width(source) == width(target):
        return x
    if width(source) > width(target):
        return b.make("arith.trunci", b.element(target), x)
    return b.make("arith.extsi" if have is Kind.SIGNED else "arith.extui", b.element(target), x)


def _float_to_float(b: Builder, x: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    direct = torch.float32 in (source, target) or {source, target} == {torch.float64, torch.float32}
    if not direct:
        return cast(b, cast(b, x, source, torch.float32), torch.float32, target)
    name = "arith.extf" if width(source) < width(target) else "arith.truncf"
    return b.make(name, b.element(target), x)


def _int_to_float(b: Builder, x: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    if width(target) < 32:
        return cast(b, _int_to_float(b, x, source, torch.float32), torch.float32, target)
    return b.make("arith.sitofp" if kind(source) is Kind.SIGNED else "arith.uitofp", b.element(target), x)


def _float_to_int(b: Builder, x: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    if width(source) < 32:
        return cast(b, cast(b, x, source, torch.float32), torch.float32, target)
    through = {8: torch.int32, 16: torch.int32}.get(width(target), torch.int64 if target is torch.uint32 else target)
    if through is not target:
        return cast(b, _float_to_int(b, x, source, through), through, target)
    low, high = int_range(torch.int64 if target is torch.uint64 else target)
    result = b.make("arith.fptosi", b.element(target), x)
    limit = b.constant(high, target)
    if target is torch.uint64:
        unsigned = b.make("arith.fptoui", b.element(target), x)
        top = b.compare("oge", x, b.constant(float(1 << 64), source))
        limit = b.select(top, b.constant(-1, target), unsigned)
    result = b.select(b.compare("olt", x, b.constant(float(low), source)), b.constant(low, target), result)
    result = b.select(b.compare("oge", x, b.constant(float(high + 1), source)), limit, result)
    return b.select(b.compare("uno", x, x), b.constant(0, target), result)
