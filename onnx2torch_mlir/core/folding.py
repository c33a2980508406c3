"""Contents computed while the program is built: numbers by PyTorch itself, sizes by NumPy over expressions.

This is what turns a Shape → Gather → Concat → Reshape chain into sizes: every primitive whose operands are all known is
computed here and leaves no node behind (but for quantization, which lowering has to see). The rules for contents with
expressions in them are in `symbolic_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.primitives import QUANTIZATION
from onnx2torch_mlir.core.symbolic_rules import RULES, TRUTHS, cast, exact_in_float, has_expression
from onnx2torch_mlir.core.values import SymbolicArray, Value, simplify_contents

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder

NUMERIC_LIMIT = 4096
"""Operands and results of more elements than this stay in the graph."""

SYMBOLIC_LIMIT = 64
"""The same for contents with expressions in them."""

_NOT_FOLDED = {
    *("aten.full.default", "aten._assert_scalar.default", "aten.sym_size.int"),
    *(f"quantized_decomposed.{name}" for name in QUANTIZATION),
}


def fold(builder: ProgramBuilder, primitive: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of the call if it can be computed now, else None."""
    operands = list(_values((args, kwargs.values())))
    if primitive == "aten.full.default":
        return _full(builder, *args, **kwargs)
    if primitive in _NOT_FOLDED or not all(value.is_known for value in operands):
        return None
    if any(not _small(value) for value in operands) or _widens_bytes(primitive, operands, kwargs.get("dtype")):
        return None
    if not operands and primitive != "aten.arange.start_step":
        return None
    if all(value.tensor is not None for value in operands) and not has_expression((args, kwargs.values())):
        return _numeric(builder, primitive, args, kwargs)
    rule = RULES.get(primitive)
    if rule is None or not all(_foldable(value) for value in operands):
        return None
    if primitive == "aten._to_copy.default":
        dtype = kwargs["dtype"]
        result = cast(_array(operands[0]), operands[0].dtype, dtype)
    else:
        result = rule(*_map(args, _array), **_map(kwargs, _array))
        compared = primitive.split(".")[1] in TRUTHS
        own = operands[-1 if primitive == "aten.where.self" else 0].dtype
        dtype = torch.bool if compared else kwargs.get("dtype") or own
    if result is None:
        return None
    result = _in_small_numbers(builder, np.asarray(result, dtype=object))
    if result is None or (_fractional(dtype) and not exact_in_float(result)):
        return None
    contents = simplify_contents(np.asarray(result, dtype=object), dtype)
    return builder.known(contents, dtype)


def _in_small_numbers(builder: ProgramBuilder, array: SymbolicArray) -> SymbolicArray | None:
    """``array`` in expressions that stay small however many operations follow, or None: then it is computed at run time."""
    if all(map(_is_small, array.reshape(-1))):
        return array
    result = np.empty(array.shape, dtype=object)
    result.reshape(-1)[:] = [
        item if _is_small(item) or item.is_Boolean else builder.bounded(item) for item in array.reshape(-1)
    ]
    return result if all(map(_is_small, result.reshape(-1))) else None


def _is_small(item: Any) -> bool:
    return not isinstance(item, sympy.Basic) or D.fits(item)


def _values(item: Any) -> Any:
    if isinstance(item, Value):
        yield item
    elif (isinstance(item, Sequence) and not isinstance(item, str)) or type(item).__name__ == "dict_values":
        for part in item:
            yield from _values(part)


def _map(item: Any, function: Callable[[Value], Any]) -> Any:
    if isinstance(item, Value):
        return function(item)
    if isinstance(item, list | tuple):
        return type(item)(_map(part, function) for part in item)
    if isinstance(item, dict):
        return {key: _map(part, function) for key, part in item.items() if key != "dtype"}
    return item


def _array(value: Value) -> SymbolicArray:
    array = value.symbolic()
    assert array is not None
    return array


def _small(value: Value) -> bool:
    return all(isinstance(size, int) for size in value.shape) and D.product(value.shape) <= NUMERIC_LIMIT


def _widens_bytes(primitive: str, operands: Sequence[Value], dtype: torch.dtype | None) -> bool:
    """Whether a call makes numbers of weights that are bytes: sums of products of bytes have code of their own."""
    if primitive != "aten._to_copy.default" or dtype is None:
        return False
    (value,) = operands
    bytes_ = value.dtype in (torch.int8, torch.uint8)
    return bytes_ and dtype.itemsize > 1 and len(value.shape) > 1 and D.product(value.shape) > SYMBOLIC_LIMIT


def _foldable(value: Value) -> bool:
    contents = value.contents
    if contents is None or value.dtype.is_complex or (value.dtype.is_floating_point and value.dtype.itemsize < 4):
        return False
    if isinstance(contents, torch.Tensor):
        return contents.numel() <= SYMBOLIC_LIMIT and bool(contents.isfinite().all())
    return contents.size <= SYMBOLIC_LIMIT


def _fractional(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def _full(builder: ProgramBuilder, size: Sequence[Any], fill_value: Any, *, dtype: torch.dtype) -> Value | None:
    if has_expression(size) or has_expression([fill_value]) or D.product(size) > SYMBOLIC_LIMIT:
        return None
    return builder.known(torch.full(tuple(size), fill_value, dtype=dtype))


def _numeric(builder: ProgramBuilder, primitive: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    from onnx2torch_mlir.core.nodes import overload

    try:
        result = overload(primitive)(*_map(list(args), _tensor), **{k: _map(v, _tensor) for k, v in kwargs.items()})
    except (RuntimeError, NotImplementedError, IndexError):
        return None
    if isinstance(result, torch.Tensor):
        return builder.known(result.contiguous()) if result.numel() <= NUMERIC_LIMIT else None
    if any(item.numel() > NUMERIC_LIMIT for item in result):
        return None
    return tuple(builder.known(item.contiguous()) for item in result)


def _tensor(value: Value) -> torch.Tensor:
    tensor = value.tensor
    assert tensor is not None
    return tensor
