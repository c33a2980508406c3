"""Shape rules of the pointwise primitives: NumPy broadcasting, equal dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from onnx2torch_mlir.core.primitives import POINTWISE_BINARY, POINTWISE_UNARY
from onnx2torch_mlir.core.shapes.rules import TensorType, rule
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder

_TO_BOOL = {"logical_not", "isnan", "isinf"}
_COMPARE = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"}


def _name(primitive: str) -> str:
    return f"aten.{primitive}" if "." in primitive else f"aten.{primitive}.default"


def _same_dtype(values: list[Value]) -> torch.dtype:
    first = values[0].dtype
    if any(value.dtype is not first for value in values):
        types = ", ".join(str(value.dtype).removeprefix("torch.") for value in values)
        raise refuse("O2M-C006", f"operands have different dtypes: {types}")
    return first


@rule(*(_name(item) for item in POINTWISE_UNARY if item not in _TO_BOOL), "aten.clone.default", "aten.clamp.default")
def same_type(builder: ProgramBuilder, x: Value, *args: Any, **kwargs: Any) -> TensorType:
    """The operand's own type."""
    return TensorType(x.dtype, x.shape)


@rule(*(_name(item) for item in POINTWISE_UNARY if item in _TO_BOOL))
def to_bool(builder: ProgramBuilder, x: Value) -> TensorType:
    """Bool, of the operand's shape."""
    return TensorType(torch.bool, x.shape)


def _binary(builder: ProgramBuilder, a: Value, b: Value | float, **kwargs: Any) -> tuple[torch.dtype, tuple[Any, ...]]:
    if not isinstance(a, Value):
        assert isinstance(b, Value)
        return b.dtype, b.shape
    if not isinstance(b, Value):
        return a.dtype, a.shape
    return _same_dtype([a, b]), builder.broadcast([a.shape, b.shape])


@rule(*(_name(item) for item in POINTWISE_BINARY if item.split(".")[0] not in _COMPARE))
def arithmetic(builder: ProgramBuilder, a: Value, b: Any, **kwargs: Any) -> TensorType:
    """The operands' common dtype and broadcast shape."""
    return TensorType(*_binary(builder, a, b))


@rule(*(_name(item) for item in POINTWISE_BINARY if item.split(".")[0] in _COMPARE))
def comparison(builder: ProgramBuilder, a: Value, b: Any) -> TensorType:
    """Bool, of the broadcast shape."""
    return TensorType(torch.bool, _binary(builder, a, b)[1])


@rule("aten.where.self")
def where(builder: ProgramBuilder, condition: Value, a: Value, b: Value) -> TensorType:
    """The common dtype of the two branches, all three broadcast."""
    return TensorType(_same_dtype([a, b]), builder.broadcast([condition.shape, a.shape, b.shape]))


@rule("aten.clamp.Tensor")
def clamp_tensor(
    builder: ProgramBuilder, x: Value, minimum: Value | None = None, maximum: Value | None = None
) -> TensorType:
    """The operands broadcast."""
    values = [value for value in (x, minimum, maximum) if value is not None]
    return TensorType(_same_dtype(values), builder.broadcast([value.shape for value in values]))


@rule("aten.view.dtype")
def view_dtype(builder: ProgramBuilder, x: Value, dtype: torch.dtype) -> TensorType:
    """The operand's bits read as another dtype of the same width."""
    if dtype.itemsize != x.dtype.itemsize:
        raise refuse("O2M-C006", f"{x.dtype} read as {dtype}, which has another width")
    return TensorType(dtype, x.shape)


@rule("aten._to_copy.default")
def to_copy(builder: ProgramBuilder, x: Value, *, dtype: torch.dtype) -> TensorType:
    """The operand's shape in ``dtype``."""
    return TensorType(dtype, x.shape)
