"""Conversion between element types by ONNX's rules: those of a byte or less have their own, others are the machine's."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import describe
from onnx2torch_mlir.families.narrow import numbers, to_e8m0, to_narrow

FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz})

_TOO_LARGE = {
    torch.float8_e4m3fn: ("gt", 464.0),
    torch.float8_e4m3fnuz: ("ge", 248.0),
    torch.float8_e5m2fnuz: ("ge", 61440.0),
}
"""Numbers that round (half to even) to more than the dtype's largest, where it has no infinity to hold them."""


def cast_to(
    g: ProgramBuilder, x: Value, dtype: torch.dtype, *, element: str = "", saturate: bool = True, round_mode: str = "up"
) -> Value:
    """``x`` in ``dtype``, or as the ``element`` of less than a byte that it holds.

    Source: the tables of https://onnx.ai/onnx/operators/onnx__Cast.html.

    Raises:
        Refusal: O2M-C003 for conversions of complex numbers.
    """
    if (dtype, element) == (x.dtype, x.element):
        return x
    x = numbers(g, x)
    if x.dtype.is_complex or dtype.is_complex:
        raise refuse("O2M-C003", f"conversion from {describe(x.dtype)} to {describe(dtype)}", case=describe(dtype))
    if element:
        return to_narrow(g, x, element)
    if dtype is torch.float8_e8m0fnu:
        return to_e8m0(g, x, saturate=saturate, round_mode=round_mode)
    if dtype in FLOAT8:
        return _to_float8(g, x, dtype, saturate)
    return g.cast(x, dtype)


def _to_float8(g: ProgramBuilder, x: Value, dtype: torch.dtype, saturate: bool) -> Value:
    wide = g.cast(x, torch.float64 if x.dtype is torch.float64 else torch.float32)
    limit = torch.finfo(dtype).max
    if saturate:
        wide = g.call("aten.clamp.default", wide, -limit, limit)
    elif dtype in _TOO_LARGE:
        comparison, bound = _TOO_LARGE[dtype]
        wide = g.where(g.binary(comparison, g.unary("abs", wide), bound), float("nan"), wide)
    return g.cast(wide, dtype)
