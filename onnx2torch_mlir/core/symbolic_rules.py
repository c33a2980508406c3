"""Primitives on contents with sizes in them: NumPy object arrays of ints, fractions and sympy expressions.

A rule takes the arguments of the primitive with arrays for values and gives the resulting array, or None where it cannot
say. Floats come in because models compute sizes in them (``floor(height * 0.5)``); only fractions with a power of two as
denominator are kept, with which float arithmetic on sizes is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy
import torch
from sympy.logic.boolalg import Boolean

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import SymbolicArray

SIMPLEST = 4096
"""Coefficients and denominators of sizes in floats are below this, so that products stay exact in float32."""


def has_expression(item: Any) -> bool:
    """Whether a sympy expression occurs in nested arguments."""
    if isinstance(item, sympy.Basic):
        return True
    if isinstance(item, np.ndarray):
        return any(has_expression(part) for part in item.reshape(-1))
    if isinstance(item, list | tuple) or type(item).__name__ == "dict_values":
        return any(has_expression(part) for part in item)
    return False


def exact_in_float(array: SymbolicArray) -> bool:
    """Whether float32 arithmetic gives these expressions exactly, for sizes of up to some thousands."""
    return all(_simple(sympy.sympify(item)) for item in np.asarray(array, dtype=object).reshape(-1))


def _is_truth(item: Any) -> bool:
    """Whether it is a condition (sympy counts symbols among its Booleans)."""
    return isinstance(item, Boolean) and not isinstance(item, sympy.Symbol)


def _simple(item: sympy.Basic) -> bool:
    if _is_truth(item) or item.has(sympy.Piecewise):
        return False
    if any(isinstance(part, sympy.Float) for part in item.atoms(sympy.Number)):
        return False
    for term in sympy.Add.make_args(item):
        coefficient = term.as_coeff_Mul()[0]
        numerator, denominator = abs(int(coefficient.p)), int(coefficient.q)
        if denominator & (denominator - 1) or denominator > SIMPLEST or (term.free_symbols and numerator > SIMPLEST):
            return False
    return True


def cast(x: SymbolicArray, source: torch.dtype, target: torch.dtype) -> SymbolicArray | None:
    """``aten::_to_copy``: truth values become 0 and 1; fractions are cut off; others stay as they are."""
    if target is torch.bool:
        return x if source is torch.bool else _elementwise(_compare(sympy.Ne))(x, 0)
    if source is torch.bool:
        return _elementwise(lambda item: _where(item, 1, 0))(x)
    if source.is_floating_point and not target.is_floating_point:
        return _elementwise(_truncated)(x)
    if target.is_floating_point and target.itemsize < 4:
        return None
    return x


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*operands: Any, **kwargs: Any) -> Any:
        arrays = np.broadcast_arrays(*(np.asarray(item, dtype=object) for item in operands))
        flat = [function(*map(_exact, items), **kwargs) for items in zip(*(a.reshape(-1) for a in arrays), strict=True)]
        if any(item is None for item in flat):
            return None
        result = np.empty(arrays[0].shape, dtype=object)
        result.reshape(-1)[:] = flat
        return result

    return apply


def _exact(item: Any) -> Any:
    if isinstance(item, float):
        return int(item) if item.is_integer() else sympy.Rational(item) if np.isfinite(item) else sympy.nan
    return item


def _known(item: Any) -> bool:
    return item not in (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)


def _sum(a: Any, b: Any) -> Any:
    total = sympy.sympify(a + b)
    total = D.expanded(total) if _known(total) else total
    return to_dim(total) if _known(total) else None


def _product(a: Any, b: Any) -> Any:
    result = sympy.sympify(a * b)
    return to_dim(result) if _known(result) else None


def _divide(a: Any, b: Any, *, rounding_mode: str) -> Any:
    if b == 0 or not (_integral(a) and _integral(b)):
        return None
    if rounding_mode == "floor" or (D.is_nonnegative(to_dim(a)) and D.is_nonnegative(to_dim(b))):
        return D.floor_div(to_dim(a), to_dim(b))
    if isinstance(b, int) and b > 0:
        # Towards zero, as the two parts of which one is 0: half of what one size is larger than another, in pads.
        above, below = (D.floor_div(D.maximum(0, to_dim(part)), b) for part in (a, -a))
        return to_dim(above - below)
    return None


def _quotient(a: Any, b: Any) -> Any:
    """True division: by numbers only."""
    if b == 0 or (has_expression([b]) and not sympy.sympify(b).is_Rational):
        return None
    return _product(a, sympy.Rational(1, b))


def _integral(item: Any) -> bool:
    return isinstance(item, int) or (item.is_Boolean and bool(item.is_integer)) or D.is_whole(item)


def _rounded(divide: Callable[[Dim, Dim], Dim]) -> Callable[[Any], Any]:
    def apply(a: Any) -> Any:
        if _integral(a):
            return a
        numerator, denominator = sympy.together(a).as_numer_denom()
        if not (denominator.is_Integer and _integral(numerator)):
            return None
        return divide(to_dim(sympy.expand(numerator)), to_dim(denominator))

    return apply


_floor = _rounded(D.floor_div)


def _truncated(a: Any) -> Any:
    if _integral(a):
        return a
    floor = _floor(a)
    return floor if floor is not None and D.is_nonnegative(floor) else None


def _remainder(a: Any, b: Any) -> Any:
    return None if b == 0 or not (_integral(a) and _integral(b)) else D.modulo(to_dim(a), to_dim(b))


def _fmod(a: Any, b: Any) -> Any:
    return _remainder(a, b) if D.is_nonnegative(to_dim(a)) and D.is_nonnegative(to_dim(b)) else None


def _power(a: Any, b: Any) -> Any:
    return to_dim(sympy.expand(sympy.sympify(a) ** b)) if isinstance(b, int) and 0 <= b <= 8 else None


def _clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    x = to_dim(x) if low is None else D.maximum(to_dim(x), to_dim(low))
    return x if high is None else D.minimum(x, to_dim(high))


def _compare(relation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def decide(a: Any, b: Any) -> Any:
        if isinstance(a, bool | int) and isinstance(b, bool | int):
            return bool(relation(a, b))
        if _is_truth(a) or _is_truth(b):
            return None
        equal = D.known_equal(to_dim(a), to_dim(b))
        if equal is not None and relation in (sympy.Eq, sympy.Ne):
            return equal == (relation is sympy.Eq)
        difference = to_dim(D.expanded(sympy.sympify(a) - sympy.sympify(b)))
        if D.is_nonnegative(difference) and relation in (sympy.Ge, sympy.Lt):
            return relation is sympy.Ge
        if D.is_nonnegative(to_dim(-difference)) and relation in (sympy.Le, sympy.Gt):
            return relation is sympy.Le
        if D.is_nonnegative(to_dim(difference - 1)) and relation in (sympy.Gt, sympy.Le):
            return relation is sympy.Gt
        if D.is_nonnegative(to_dim(-difference - 1)) and relation in (sympy.Lt, sympy.Ge):
            return relation is sympy.Lt
        return relation(sympy.sympify(a), sympy.sympify(b)) if _integral(a) and _integral(b) else None

    return decide


def _truth(item: Any) -> Any:
    """A truth value, or whether a number is not 0."""
    return sympy.sympify(item if isinstance(item, bool) or _is_truth(item) else _compare(sympy.Ne)(item, 0))


def _where(condition: Any, a: Any, b: Any) -> Any:
    if condition in (True, False, sympy.true, sympy.false):
        return a if bool(condition) else b
    if a is b or a == b:
        return a
    if not isinstance(condition, sympy.Basic) or _is_truth(a) or _is_truth(b):
        return None
    return sympy.Piecewise((sympy.sympify(a), condition), (sympy.sympify(b), True))


def _reduce(function: Callable[[Any, Any], Any], start: Any) -> Callable[..., Any]:
    def apply(x: SymbolicArray, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        axes = (dim,) if isinstance(dim, int) else tuple(dim) if dim else tuple(range(x.ndim))
        result = x
        for axis in sorted((axis % max(x.ndim, 1) for axis in axes), reverse=True):
            if x.ndim == 0:
                break
            parts = np.moveaxis(result, axis, 0)
            total = np.full(parts.shape[1:], start, dtype=object)
            for part in parts:
                total = np.asarray(np.frompyfunc(function, 2, 1)(total, part), dtype=object)
            result = np.expand_dims(total, axis) if keepdim else total
        return result

    return apply


def _extremum(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    reduce = _reduce(lambda a, b: b if a is None else function(to_dim(a), to_dim(b)), None)
    return lambda x, dim=(), keepdim=False: None if x.size == 0 else reduce(x, dim, keepdim)


def _accumulate(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(x: SymbolicArray, dim: int, **_: Any) -> Any:
        if x.ndim == 0 or x.size == 0:
            return x
        return np.frompyfunc(function, 2, 1).accumulate(x, axis=dim, dtype=object)

    return apply


def _slice(x: SymbolicArray, dim: int, start: Any, end: Any, step: int = 1) -> SymbolicArray | None:
    if has_expression([start, end]):
        return None
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _positions(index: SymbolicArray) -> np.ndarray[Any, Any] | None:
    return None if has_expression(index) else index.astype(np.int64)


def _index_select(x: SymbolicArray, dim: int, index: SymbolicArray) -> SymbolicArray | None:
    places = _positions(index)
    return None if places is None else np.take(x, places, axis=dim)


def _gather(x: SymbolicArray, dim: int, index: SymbolicArray) -> SymbolicArray | None:
    places = _positions(index)
    if places is None or x.ndim == 0:
        return None
    own = tuple(slice(size) if axis != dim % x.ndim else slice(None) for axis, size in enumerate(places.shape))
    return np.take_along_axis(x[own], places, axis=dim)


def _index(x: SymbolicArray, indices: Sequence[SymbolicArray | None]) -> SymbolicArray | None:
    if has_expression([item for item in indices if item is not None]):
        return None
    chosen = tuple(slice(None) if item is None else item.astype(np.int64) for item in indices)
    return np.asarray(x[chosen], dtype=object)


def _scatter(x: SymbolicArray, dim: int, index: SymbolicArray, source: SymbolicArray) -> SymbolicArray | None:
    places = _positions(index)
    if places is None or x.ndim == 0:
        return None
    result = x.copy()
    own = tuple(slice(size) if axis != dim % x.ndim else slice(None) for axis, size in enumerate(places.shape))
    np.put_along_axis(result[own], places, source[tuple(map(slice, places.shape))], axis=dim)
    return result


def _pad(x: SymbolicArray, pad: Sequence[Any], value: Any = 0) -> SymbolicArray | None:
    if has_expression(list(pad)):
        return None
    rest = [(0, 0)] * (x.ndim - len(pad) // 2)
    widths = [*rest, *reversed([(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)])]
    kept = x[tuple(slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(widths, x.shape, strict=True))]
    return np.pad(kept, [(max(low, 0), max(high, 0)) for low, high in widths], constant_values=value)


def _static(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        return None if has_expression(list(args)) else function(x, *args, **kwargs)

    return apply


_BINARY: dict[str, Callable[..., Any]] = {
    "add": _elementwise(_sum),
    "sub": _elementwise(lambda a, b: _sum(a, -sympy.sympify(b))),
    "mul": _elementwise(_product),
    "div": _elementwise(_quotient),
    "remainder": _elementwise(_remainder),
    "fmod": _elementwise(_fmod),
    "eq": _elementwise(_compare(sympy.Eq)),
    "ne": _elementwise(_compare(sympy.Ne)),
    "lt": _elementwise(_compare(sympy.Lt)),
    "le": _elementwise(_compare(sympy.Le)),
    "gt": _elementwise(_compare(sympy.Gt)),
    "ge": _elementwise(_compare(sympy.Ge)),
}

RULES: dict[str, Callable[..., Any]] = {
    **{f"aten.{name}.{kind}": rule for name, rule in _BINARY.items() for kind in ("Tensor", "Scalar")},
    "aten.div.Tensor_mode": _elementwise(_divide),
    "aten.div.Scalar_mode": _elementwise(_divide),
    "aten.pow.Tensor_Tensor": _elementwise(_power),
    "aten.pow.Tensor_Scalar": _elementwise(_power),
    "aten.clamp.default": _elementwise(_clamp),
    "aten.clamp.Tensor": _elementwise(_clamp),
    "aten.neg.default": _elementwise(lambda a: to_dim(-sympy.sympify(a))),
    "aten.abs.default": _elementwise(lambda a: a if D.is_nonnegative(to_dim(a)) else None),
    "aten.floor.default": _elementwise(_floor),
    "aten.ceil.default": _elementwise(_rounded(D.ceil_div)),
    "aten.trunc.default": _elementwise(_truncated),
    "aten.maximum.default": _elementwise(lambda a, b: D.maximum(to_dim(a), to_dim(b))),
    "aten.minimum.default": _elementwise(lambda a, b: D.minimum(to_dim(a), to_dim(b))),
    "aten.logical_not.default": _elementwise(lambda a: sympy.Not(_truth(a))),
    "aten.logical_and.default": _elementwise(lambda a, b: sympy.And(_truth(a), _truth(b))),
    "aten.logical_or.default": _elementwise(lambda a, b: sympy.Or(_truth(a), _truth(b))),
    "aten.where.self": _elementwise(_where),
    "aten._to_copy.default": cast,
    "aten.clone.default": lambda x, **_: x,
    "aten.view.default": _static(lambda x, size: x.reshape(size)),
    "aten.permute.default": lambda x, dims: np.transpose(x, dims),
    "aten.expand.default": _static(lambda x, size: np.broadcast_to(x, size)),
    "aten.unsqueeze.default": lambda x, dim: np.expand_dims(x, dim),
    "aten.squeeze.dims": lambda x, dim: np.squeeze(x, tuple(dim)),
    "aten.slice.Tensor": _slice,
    "aten.select.int": _static(lambda x, dim, index: np.asarray(np.take(x, index, axis=dim), dtype=object)),
    "aten.cat.default": lambda tensors, dim=0: np.concatenate(tensors, axis=dim),
    "aten.flip.default": lambda x, dims: np.flip(x, dims),
    "aten.constant_pad_nd.default": _pad,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.index.Tensor": _index,
    "aten.scatter.src": _scatter,
    "aten.cumsum.default": _accumulate(_sum),
    "aten.cumprod.default": _accumulate(_product),
    "aten.sum.dim_IntList": _reduce(_sum, 0),
    "aten.prod.dim_int": _reduce(_product, 1),
    "aten.amax.default": _extremum(D.maximum),
    "aten.amin.default": _extremum(D.minimum),
}
"""Rule by primitive."""

TRUTHS = {"eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "logical_or"}
"""Operations that give truth values."""
