"""Contents computed while the program is built: numbers by PyTorch itself, sizes by NumPy over expressions.

This is what turns a Shape → Gather → Concat → Reshape chain into sizes: every primitive whose operands are all known is
computed here and leaves no node behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.values import SymbolicArray, Value, simplify_contents

if TYPE_CHECKING:
    from onnx2torch_mlir.core.builder import ProgramBuilder

NUMERIC_LIMIT = 4096
"""Operands and results of more elements than this stay in the graph."""

SYMBOLIC_LIMIT = 64
"""The same for contents with expressions in them."""

_NOT_FOLDED = {"aten.full.default", "aten._assert_scalar.default", "aten.sym_size.int"}


def fold(builder: ProgramBuilder, primitive: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of the call if it can be computed now, else None."""
    operands = list(_values((args, kwargs.values())))
    if primitive == "aten.full.default":
        return _full(builder, *args, **kwargs)
    if primitive in _NOT_FOLDED or not all(value.is_known for value in operands):
        return None
    if any(not _small(value) for value in operands):
        return None
    if not operands and primitive != "aten.arange.start_step":
        return None
    if all(value.tensor is not None for value in operands) and not _has_expression((args, kwargs.values())):
        return _numeric(builder, primitive, args, kwargs)
    rule = _SYMBOLIC.get(primitive)
    if rule is None or any(value.contents.size > SYMBOLIC_LIMIT for value in operands if value.tensor is None):  # type: ignore[union-attr,operator]
        return None
    arrays = [value.symbolic() for value in operands]
    if any(array is None or array.size > SYMBOLIC_LIMIT or _fractional(value) for array, value in zip(arrays, operands, strict=True)):
        return None
    result = rule(*_map(args, _array), **_map(kwargs, _array))
    if result is None:
        return None
    dtype = kwargs.get("dtype") or (torch.bool if primitive.split(".")[1] in _COMPARISONS else operands[-1].dtype)
    contents = simplify_contents(np.asarray(result, dtype=object), dtype)
    return builder.known(contents, dtype)


def _values(item: Any) -> Any:
    if isinstance(item, Value):
        yield item
    elif isinstance(item, Sequence) and not isinstance(item, str) or type(item).__name__ == "dict_values":
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
    return all(isinstance(size, int) for size in value.shape) and D.product(value.shape) <= NUMERIC_LIMIT  # type: ignore[operator]


def _fractional(value: Value) -> bool:
    return value.dtype.is_floating_point or value.dtype.is_complex


def _has_expression(item: Any) -> bool:
    if isinstance(item, sympy.Basic):
        return True
    if isinstance(item, list | tuple) or type(item).__name__ == "dict_values":
        return any(_has_expression(part) for part in item)
    return False


def _full(builder: ProgramBuilder, size: Sequence[Any], fill_value: Any, *, dtype: torch.dtype) -> Value | None:
    if _has_expression(size) or _has_expression([fill_value]) or D.product(size) > SYMBOLIC_LIMIT:  # type: ignore[operator]
        return None
    return builder.known(torch.full(tuple(size), fill_value, dtype=dtype))


def _numeric(builder: ProgramBuilder, primitive: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    from onnx2torch_mlir.core.builder import overload

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


# --- symbolic rules, on object arrays ---------------------------------------------------------------------------------


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*operands: Any, **kwargs: Any) -> Any:
        arrays = np.broadcast_arrays(*(np.asarray(item, dtype=object) for item in operands))
        flat = [function(*items, **kwargs) for items in zip(*(array.reshape(-1) for array in arrays), strict=True)]
        if any(item is None for item in flat):
            return None
        result = np.empty(arrays[0].shape, dtype=object)
        result.reshape(-1)[:] = flat
        return result

    return apply


def _divide(a: Any, b: Any, *, rounding_mode: str) -> Any:
    if b == 0:
        return None
    if rounding_mode == "floor" or (D.is_nonnegative(to_dim(a)) and D.is_nonnegative(to_dim(b))):
        return D.floor_div(to_dim(a), to_dim(b))
    return None


def _remainder(a: Any, b: Any) -> Any:
    return None if b == 0 else D.modulo(to_dim(a), to_dim(b))


def _fmod(a: Any, b: Any) -> Any:
    return _remainder(a, b) if D.is_nonnegative(to_dim(a)) and D.is_nonnegative(to_dim(b)) else None


def _compare(relation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def decide(a: Any, b: Any) -> Any:
        if isinstance(a, bool | int) and isinstance(b, bool | int):
            return bool(relation(a, b))
        equal = D.known_equal(to_dim(a), to_dim(b))
        if equal is not None and relation in (sympy.Eq, sympy.Ne):
            return equal == (relation is sympy.Eq)
        difference = to_dim(sympy.sympify(a) - sympy.sympify(b))
        if D.is_nonnegative(difference) and relation in (sympy.Ge, sympy.Lt):
            return relation is sympy.Ge
        if D.is_nonnegative(to_dim(-difference)) and relation in (sympy.Le, sympy.Gt):
            return relation is sympy.Le
        return relation(sympy.sympify(a), sympy.sympify(b))

    return decide


def _where(condition: Any, a: Any, b: Any) -> Any:
    if condition in (True, False, sympy.true, sympy.false):
        return a if bool(condition) else b
    if not isinstance(condition, sympy.Basic):
        return None
    return sympy.Piecewise((sympy.sympify(a), condition), (sympy.sympify(b), True))


def _cast(x: SymbolicArray) -> SymbolicArray | None:
    if any(isinstance(item, bool) or isinstance(item, sympy.logic.boolalg.Boolean) for item in x.reshape(-1)):
        return None
    return x


def _reduce(function: Callable[[Any, Any], Any], start: Any) -> Callable[..., Any]:
    def apply(x: SymbolicArray, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        axes = (dim,) if isinstance(dim, int) else tuple(dim) if dim else tuple(range(x.ndim))
        result = x
        for axis in sorted((axis % max(x.ndim, 1) for axis in axes), reverse=True):
            parts = np.moveaxis(result, axis, 0)
            total = np.full(parts.shape[1:], start, dtype=object)
            for part in parts:
                total = np.frompyfunc(function, 2, 1)(total, part)
            result = np.asarray(total, dtype=object)
            if keepdim:
                result = np.expand_dims(result, axis)
        return result

    return apply


def _slice(x: SymbolicArray, dim: int, start: Any, end: Any, step: int = 1) -> SymbolicArray | None:
    if _has_expression([start, end]):
        return None
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _index_select(x: SymbolicArray, dim: int, index: SymbolicArray) -> SymbolicArray | None:
    return None if _has_expression(index.tolist()) else np.take(x, index.astype(np.int64), axis=dim)


def _static(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        return None if _has_expression(list(args)) else function(x, *args, **kwargs)

    return apply


_SYMBOLIC: dict[str, Callable[..., Any]] = {
    "aten.add.Tensor": _elementwise(lambda a, b: to_dim(sympy.expand(sympy.sympify(a + b)))),
    "aten.sub.Tensor": _elementwise(lambda a, b: to_dim(sympy.expand(sympy.sympify(a - b)))),
    "aten.mul.Tensor": _elementwise(lambda a, b: to_dim(sympy.sympify(a * b))),
    "aten.add.Scalar": _elementwise(lambda a, b: to_dim(sympy.expand(sympy.sympify(a + b)))),
    "aten.sub.Scalar": _elementwise(lambda a, b: to_dim(sympy.expand(sympy.sympify(a - b)))),
    "aten.mul.Scalar": _elementwise(lambda a, b: to_dim(sympy.sympify(a * b))),
    "aten.div.Tensor_mode": _elementwise(_divide),
    "aten.div.Scalar_mode": _elementwise(_divide),
    "aten.remainder.Tensor": _elementwise(_remainder),
    "aten.fmod.Tensor": _elementwise(_fmod),
    "aten.neg.default": _elementwise(lambda a: to_dim(-sympy.sympify(a))),
    "aten.abs.default": _elementwise(lambda a: a if D.is_nonnegative(to_dim(a)) else None),
    "aten.maximum.default": _elementwise(lambda a, b: D.maximum(to_dim(a), to_dim(b))),
    "aten.minimum.default": _elementwise(lambda a, b: D.minimum(to_dim(a), to_dim(b))),
    "aten.eq.Tensor": _elementwise(_compare(sympy.Eq)),
    "aten.ne.Tensor": _elementwise(_compare(sympy.Ne)),
    "aten.lt.Tensor": _elementwise(_compare(sympy.Lt)),
    "aten.le.Tensor": _elementwise(_compare(sympy.Le)),
    "aten.gt.Tensor": _elementwise(_compare(sympy.Gt)),
    "aten.ge.Tensor": _elementwise(_compare(sympy.Ge)),
    "aten.logical_not.default": _elementwise(lambda a: sympy.Not(sympy.sympify(a))),
    "aten.logical_and.default": _elementwise(lambda a, b: sympy.And(sympy.sympify(a), sympy.sympify(b))),
    "aten.logical_or.default": _elementwise(lambda a, b: sympy.Or(sympy.sympify(a), sympy.sympify(b))),
    "aten.where.self": _elementwise(_where),
    "aten._to_copy.default": _cast,
    "aten.clone.default": lambda x: x,
    "aten.view.default": _static(lambda x, size: x.reshape(size)),
    "aten.permute.default": lambda x, dims: np.transpose(x, dims),
    "aten.expand.default": _static(lambda x, size: np.broadcast_to(x, size)),
    "aten.unsqueeze.default": lambda x, dim: np.expand_dims(x, dim),
    "aten.squeeze.dims": lambda x, dim: np.squeeze(x, tuple(dim)),
    "aten.slice.Tensor": _slice,
    "aten.select.int": _static(lambda x, dim, index: np.asarray(np.take(x, index, axis=dim), dtype=object)),
    "aten.cat.default": lambda tensors, dim=0: np.concatenate(tensors, axis=dim),
    "aten.flip.default": lambda x, dims: np.flip(x, dims),
    "aten.index_select.default": _index_select,
    "aten.sum.dim_IntList": _reduce(lambda a, b: to_dim(sympy.sympify(a + b)), 0),
    "aten.prod.dim_int": _reduce(lambda a, b: to_dim(sympy.sympify(a * b)), 1),
    "aten.amax.default": lambda x, dim=(), keepdim=False: (
        None if x.size == 0 else _reduce(lambda a, b: b if a is None else D.maximum(to_dim(a), to_dim(b)), None)(x, dim, keepdim)
    ),
    "aten.amin.default": lambda x, dim=(), keepdim=False: (
        None if x.size == 0 else _reduce(lambda a, b: b if a is None else D.minimum(to_dim(a), to_dim(b)), None)(x, dim, keepdim)
    ),
}

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or"}
