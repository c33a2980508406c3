"""Conversion of one element between dtypes, with every case defined.

Float to integer truncates towards zero. What does not fit saturates at 32 bits (at 64 for uint32 and the 64-bit types)
and then wraps to the narrower type, as x86 code of PyTorch, NumPy and onnxruntime does inside that range. NaN becomes
0. Integers wrap. Anything to bool asks whether it differs from zero. Narrow floats go through float32.
"""

from __future__ import annotations

import torch
from torch_mlir import ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.builder import Builder
from onnx2torch_mlir.lowering.dtypes import Kind, int_range, kind, part_of, width
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
    if Kind.COMPLEX in (have, want):
        return _complex(b, x, source, target)
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


def _complex(b: Builder, x: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    if target is torch.bool:
        return b.make("complex.neq", b.i1, x, b.constant(0, source))
    if kind(target) is not Kind.COMPLEX:
        raise refuse("O2M-L002", f"a number of {source} is none of {target}", case=str(target))
    part = part_of(target)
    if kind(source) is not Kind.COMPLEX:
        return b.make("complex.create", b.element(target), cast(b, x, source, part), b.constant(0, part))
    pair = [b.make(name, b.element(part_of(source)), x) for name in ("complex.re", "complex.im")]
    return b.make("complex.create", b.element(target), *[cast(b, item, part_of(source), part) for item in pair])


def reread(b: Builder, x: ir.Value, source: torch.dtype, target: torch.dtype) -> ir.Value:
    """The bits of one element as another dtype of the same width; a complex number's real part is the lower half."""
    if Kind.COMPLEX not in (kind(source), kind(target)):
        return b.make("arith.bitcast", b.element(target), x)
    half, whole = ir.IntegerType.get_signless(width(source) // 2), ir.IntegerType.get_signless(width(source))
    shift = b.int_constant(width(source) // 2, whole)
    if kind(source) is Kind.COMPLEX:
        part = b.element(part_of(source))
        pair = [b.make("arith.bitcast", half, b.make(name, part, x)) for name in ("complex.re", "complex.im")]
        low, high = (b.make("arith.extui", whole, item) for item in pair)
        bits = b.same("arith.ori", low, b.same("arith.shli", high, shift))
        return bits if bits.type == b.element(target) else b.make("arith.bitcast", b.element(target), bits)
    part = b.element(part_of(target))
    bits = x if x.type == whole else b.make("arith.bitcast", whole, x)
    pair = [b.make("arith.trunci", half, item) for item in (bits, b.same("arith.shrui", bits, shift))]
    return b.make("complex.create", b.element(target), *[b.make("arith.bitcast", part, item) for item in pair])


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
