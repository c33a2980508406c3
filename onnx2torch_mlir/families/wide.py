"""Unsigned integers of more than a byte, computed in int64: PyTorch has no arithmetic on them.

The results are ONNX's: uint16 and uint32 fit into int64, and uint64 is the same modulo 2**64; where its order matters,
the sign bit is flipped, which maps the order of uint64 onto that of int64.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value

WIDE_UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})

_SIGN_BIT = -(2**63)

ORDERED = frozenset(
    f"aten.{name}"
    for name in ("lt.Tensor", "le.Tensor", "gt.Tensor", "ge.Tensor", "maximum.default", "minimum.default")
)
"""Primitives whose result depends on the order of the operand's values."""


def widen(g: ProgramBuilder, x: Value, *, ordered: bool = False) -> Value:
    """``x`` in int64 where its dtype is unsigned and wider than a byte, else ``x`` itself."""
    if x.dtype not in WIDE_UNSIGNED:
        return x
    wide = g.cast(x, torch.int64)
    return _flip(g, wide) if ordered and x.dtype is torch.uint64 else wide


def narrow(g: ProgramBuilder, x: Value, dtype: torch.dtype, *, ordered: bool = False) -> Value:
    """Back from `widen` (modulo the range of ``dtype``)."""
    if x.dtype is dtype or dtype not in WIDE_UNSIGNED:
        return x
    return g.cast(_flip(g, x) if ordered and dtype is torch.uint64 else x, dtype)


def in_int64(g: ProgramBuilder, compute: Callable[..., Value], *operands: Value, ordered: bool = False) -> Value:
    """``compute(*operands)`` with wide unsigned operands widened; a result of int64 goes back to their dtype."""
    dtype = operands[0].dtype
    result = compute(*(widen(g, x, ordered=ordered) for x in operands))
    return narrow(g, result, dtype, ordered=ordered) if result.dtype is torch.int64 else result


def call(g: ProgramBuilder, core: str, *operands: Value) -> Value:
    """The primitive ``core`` on operands of one dtype, which may be a wide unsigned one."""
    return in_int64(g, lambda *items: g.call(core, *items), *operands, ordered=core in ORDERED)


def divide_uint64(g: ProgramBuilder, a: Value, b: Value) -> Value:
    """Quotient of two int64 values that stand for uint64, as int64.

    The signed quotient of ``a / 2`` is at most one too small when doubled (Warren, Hacker's Delight, 9-3).
    """
    large = g.binary("lt", b, 0)
    divisor = g.where(large, 1, b)
    half = g.binary("bitwise_and", g.binary("bitwise_right_shift", a, 1), 2**63 - 1)
    guess = g.mul(g.binary("div", half, divisor, rounding_mode="trunc"), 2)
    rest = g.sub(a, g.mul(guess, divisor))
    small = g.add(guess, g.cast(_not_below(g, rest, divisor), torch.int64))
    return g.where(large, g.cast(_not_below(g, a, b), torch.int64), small)


def _not_below(g: ProgramBuilder, a: Value, b: Value) -> Value:
    return g.binary("ge", _flip(g, a), _flip(g, b))


def _flip(g: ProgramBuilder, x: Value) -> Value:
    return g.binary("bitwise_xor", x, _SIGN_BIT)
