"""LabelEncoder between numbers."""

from __future__ import annotations

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import describe
from onnx2torch_mlir.families.lookup import look_up, sorted_table

NAN_IS_A_KEY = 4
"""The version from which NaN is found among the keys; before it equals nothing, itself included."""


def label_encoder(
    g: ProgramBuilder,
    x: Value,
    *,
    keys_floats: list[float] | None = None,
    keys_int64s: list[int] | None = None,
    keys_strings: list[str] | None = None,
    keys_tensor: Value | None = None,
    values_floats: list[float] | None = None,
    values_int64s: list[int] | None = None,
    values_strings: list[str] | None = None,
    values_tensor: Value | None = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_tensor: Value | None = None,
    opset: int,
) -> Value:
    """Every element replaced by the value at its key (of equal keys, the first), or by the default.

    Source: ONNX LabelEncoder.

    Raises:
        Refusal: O2M-C003 where keys or values are strings, O2M-C005 where they do not fit the operand or each other.
    """
    if keys_strings or values_strings:
        raise refuse("O2M-C003", "keys or values that are strings have no place in a tensor program", case="strings")
    keys = _listed(keys_floats, keys_int64s, keys_tensor, "keys")
    values = _listed(values_floats, values_int64s, values_tensor, "values")
    if keys.dtype is not x.dtype:
        raise refuse("O2M-C005", f"the keys are of {describe(keys.dtype)}, the operand of {describe(x.dtype)}", case="keys")
    if keys.shape != values.shape:
        raise refuse("O2M-C005", f"{keys.numel()} keys and {values.numel()} values", case="keys")
    default = default_float if values.is_floating_point() else default_int64
    if default_tensor is not None:
        default = _tensor(default_tensor, "default_tensor").reshape(-1)[0].item()
    result = look_up(g, x, *sorted_table(keys, values), default)
    if opset >= NAN_IS_A_KEY and keys.is_floating_point() and bool(keys.isnan().any()):
        value = values[keys.isnan()][0].item()
        result = g.where(g.unary("isnan", x), g.scalar(value, values.dtype), result)
    return result


def _listed(floats: list[float] | None, ints: list[int] | None, tensor: Value | None, name: str) -> torch.Tensor:
    if floats:
        return torch.tensor(floats, dtype=torch.float32)
    if ints:
        return torch.tensor(ints, dtype=torch.int64)
    if tensor is None:
        raise refuse("O2M-C005", f"there are no {name}", case=name)
    return _tensor(tensor, f"{name}_tensor").reshape(-1)


def _tensor(value: Value, name: str) -> torch.Tensor:
    if value.tensor is None or value.tensor.numel() == 0:
        raise refuse("O2M-C005", f"attribute {name} has no elements", case=name)
    return value.tensor
