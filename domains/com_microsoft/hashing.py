"""MurmurHash3: hashes of numbers, as their bytes lie in memory."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value

_MASK = 0xFFFFFFFF
_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_FINAL = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))


def murmur_hash3(g: ProgramBuilder, x: Value, *, positive: int = 1, seed: int = 0) -> Value:
    """The 32-bit hash of each element; as uint32 if ``positive``, else as int32.

    Source: com.microsoft MurmurHash3; MurmurHash3_x86_32 of https://github.com/aappleby/smhasher. Words of 32 bits are
    kept in int64, whose products lose only what lies above 64 bits.
    """
    state = g.full(x.shape, seed & _MASK, torch.int64)
    for word in _words(g, x):
        mixed = _product(g, _rotated(g, _product(g, word, _FIRST), 15), _SECOND)
        state = _rotated(g, g.binary("bitwise_xor", state, mixed), 13)
        state = _low(g, g.add(g.mul(state, 5), 0xE6546B64))
    state = g.binary("bitwise_xor", state, x.dtype.itemsize)
    for shift, factor in _FINAL:
        state = g.binary("bitwise_xor", state, _right(g, state, shift))
        state = state if factor == 1 else _product(g, state, factor)
    if positive:
        return g.cast(state, torch.uint32)
    return g.cast(g.where(g.binary("gt", state, 2**31 - 1), g.sub(state, 2**32), state), torch.int32)


def _words(g: ProgramBuilder, x: Value) -> list[Value]:
    """The bits of ``x`` as numbers 0 … 2^32 - 1, the lower ones first."""
    integer = {torch.float32: torch.int32, torch.float64: torch.int64}.get(x.dtype)
    bits = x if integer is None else g.call("aten.view.dtype", x, integer)
    wide = g.cast(bits, torch.int64)
    return [_low(g, wide)] if x.dtype.itemsize == 4 else [_low(g, wide), _low(g, _right(g, wide, 32))]


def _low(g: ProgramBuilder, x: Value) -> Value:
    return g.binary("bitwise_and", x, _MASK)


def _right(g: ProgramBuilder, x: Value, bits: int) -> Value:
    return g.binary("bitwise_right_shift", x, bits)


def _product(g: ProgramBuilder, x: Value, factor: int) -> Value:
    return _low(g, g.mul(x, factor))


def _rotated(g: ProgramBuilder, x: Value, bits: int) -> Value:
    left = _low(g, g.binary("bitwise_left_shift", x, bits))
    return g.binary("bitwise_or", left, _right(g, x, 32 - bits))
