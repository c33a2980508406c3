"""Conversions of the element type, and operators that give their input back."""

from __future__ import annotations

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.cast import cast_to
from onnx2torch_mlir.families.dtypes import narrow_element, torch_dtype
from onnx2torch_mlir.families.narrow import reread


def cast(g: ProgramBuilder, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """``x`` in the element type ``to``.

    Raises:
        Refusal: O2M-C008 where torch has no such dtype.
    """
    return cast_to(g, x, torch_dtype(to), element=narrow_element(to), saturate=bool(saturate), round_mode=round_mode)


def cast_named(g: ProgramBuilder, x: Value, *, to: str) -> Value:
    """Before opset 6 the element type is a string such as ``FLOAT16``.

    Raises:
        Refusal: O2M-C005 for a name that is no element type.
    """
    from onnx2torch_mlir.families.dtypes import ELEMENT_TYPES

    for number, (name, _) in ELEMENT_TYPES.items():
        if name == to.lower():
            return cast(g, x, to=number)
    raise refuse("O2M-C005", f"{to!r} is no element type", case="to")


def cast_like(
    g: ProgramBuilder, x: Value, target: Value, *, saturate: int = 1, round_mode: str = "up"
) -> Value:
    """``x`` in the element type of ``target``."""
    return cast_to(g, x, target.dtype, element=target.element, saturate=bool(saturate), round_mode=round_mode)


def bit_cast(g: ProgramBuilder, x: Value, *, to: int) -> Value:
    """The bits of ``x`` read as the element type ``to``.

    Raises:
        Refusal: O2M-C006 where the widths differ, O2M-C008 where torch has no such dtype.
    """
    dtype, element = torch_dtype(to), narrow_element(to)
    if (dtype, element) == (x.dtype, x.element):
        return x
    if element or x.element:
        return reread(g, x, dtype, element)
    result: Value = g.call("aten.view.dtype", x, dtype)
    return result
