"""Weights that are computed from other weights when a program is loaded, such as dequantized ones.

The compiler writes down how (compiler/derivation.py): a list of steps, each a list of JSON values that begins with its kind
and refers to earlier steps by number. Integers are signed here, whatever MLIR's operation takes them for.

Imports no torch: the compiler's worker process reads it too.

- ``["weight", number]``
- ``["full", value, type, shape]``
- ``["reshape", step, shape]``, ``["slice", step, offsets, sizes, strides]``, ``["flip", step, axes]``
- ``["pad", step, value, low, high]``: ``value`` around the step's numbers
- ``["nest", steps, maps, shape, body, result, order]``: a pointwise nest over ``shape``; a map names the loop of each axis of
  an operand, or is -1 where an axis stays at 0; ``body`` is a list of operations (name, operands, type), whose operands are
  numbers of the nest's operands, then of earlier operations; ``order`` has the loop of each axis of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Step = list[Any]
Derived = tuple[list[int], bool, list[Step]]
"""A weight that is computed: its shape, whether code reads it as it is and not only packed, and its steps."""

_TYPES: dict[str, Any] = {
    "i1": np.bool_,
    **{f"i{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)},
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}
_LONG = 16
"""Times around from which on a loop is worth to be NumPy's innermost."""
_EXACT = 1 << 23
"""Integers up to this magnitude, and differences of two, are exact in float32."""


@dataclass(frozen=True)
class Codes:
    """Floats as ``(code - zero) * scale``, computed in float32, or integers ``code - zero``; all of one shape.

    Codes of floats are integers, or floats of 16 bits.
    """

    code: Array
    zero: Array | None = None
    scale: Array | None = None
    is_float: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self.code.shape

    def moved(self, move: Callable[[Array], Array]) -> Codes:
        """The numbers in another order or shape."""
        zero, scale = (None if part is None else move(part) for part in (self.zero, self.scale))
        return Codes(move(self.code), zero, scale, self.is_float)

    def numbers(self) -> Array:
        """The floats, or the integers."""
        if not self.is_float:
            return self.code if self.zero is None else self.code - self.zero
        shapes = [part.shape for part in (self.code, self.zero, self.scale) if part is not None]
        result = _spread(self.code, np.broadcast_shapes(*shapes)).astype(np.float32)
        with np.errstate(all="ignore"):
            if self.zero is not None:
                result -= self.zero
            if self.scale is not None:
                result *= self.scale
        return result


Value = Array | Codes
Values = dict[int, Value]
Weights = Sequence[Array] | Mapping[int, Array]


def evaluated(steps: Sequence[Step], weights: Weights) -> Value:
    """What the last of ``steps`` makes of ``weights``: codes, where it ends in a dequantization."""
    values: dict[int, Value] = {}
    last = {source: number for number, step in enumerate(steps) for source in _sources(step)}
    for number, (kind, *rest) in enumerate(steps):
        values[number] = _STEPS[kind](values, weights, *rest)
        for source in _sources(steps[number]):
            if last[source] == number:
                values.pop(source, None)
    return values[len(steps) - 1]


def _sources(step: Step) -> list[int]:
    """The steps that a step refers to."""
    if step[0] in ("reshape", "slice", "flip", "pad"):
        return [step[1]]
    return list(step[1]) if step[0] == "nest" else []


def _weight(values: Values, weights: Weights, number: int) -> Value:
    array = weights[number]
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array


def _full(values: Values, weights: Weights, value: float, type_: str, shape: list[int]) -> Value:
    return np.broadcast_to(np.asarray(value, _TYPES[type_]), shape)


def _reshape(values: Values, weights: Weights, step: int, shape: list[int]) -> Value:
    return _moved(values[step], lambda array: _dense(array).reshape(shape))


def _slice(values: Values, weights: Weights, step: int, offsets: list[int], sizes: list[int], strides: list[int]) -> Value:
    parts = tuple(slice(o, o + (n - 1) * s + 1 if n else o, s) for o, n, s in zip(offsets, sizes, strides, strict=True))
    return _moved(values[step], lambda array: array[parts])


def _flip(values: Values, weights: Weights, step: int, axes: list[int]) -> Value:
    return _moved(values[step], lambda array: np.flip(array, tuple(axes)))


def _pad(values: Values, weights: Weights, step: int, value: float, low: list[int], high: list[int]) -> Value:
    return np.pad(numbers_of(values[step]), list(zip(low, high, strict=True)), constant_values=value)


def _nest(
    values: Values,
    weights: Weights,
    steps: list[int],
    maps: list[list[int]],
    shape: list[int],
    body: list[Any],
    result: int,
    order: list[int],
) -> Value:
    # NumPy's innermost loop is the last one, where operands move along different ones: it had better be long.
    loops = sorted(range(len(shape)), key=lambda loop: shape[loop] >= _LONG)
    found = [_moved(values[step], partial(_along, map_, loops)) for step, map_ in zip(steps, maps, strict=True)]
    for name, operands, *more in body:
        found.append(_operation(name, [found[i] for i in operands], *more))
    sizes, axes = tuple(shape[loop] for loop in loops), [loops.index(loop) for loop in order]
    return _moved(found[result], lambda array: _spread(array, sizes).transpose(axes))


_STEPS: dict[str, Callable[..., Value]] = {
    "weight": _weight,
    "full": _full,
    "reshape": _reshape,
    "slice": _slice,
    "flip": _flip,
    "pad": _pad,
    "nest": _nest,
}


def _moved(value: Value, move: Callable[[Array], Array]) -> Value:
    return value.moved(move) if isinstance(value, Codes) else move(value)


def _dense(array: Array) -> Array:
    """The array, or a copy before it is laid out anew where a short last axis has its numbers far apart: NumPy would take few
    numbers at a time."""
    if not (array.ndim and 1 < array.shape[-1] < _LONG and array.strides[-1] > array.itemsize):
        return array
    copy = np.empty(array.shape, array.dtype)
    for place in range(array.shape[-1]):
        copy[..., place] = array[..., place]
    return copy


def _along(map_: list[int], loops: list[int], array: Array) -> Array:
    """An operand over the loops: an axis for each, of size 1 where the operand does not move, or is the same all along."""
    is_same = [n > 1 and not stride for n, stride in zip(array.shape, array.strides, strict=True)]
    kept = (0 if dim < 0 else slice(0, 1) if same else slice(None) for dim, same in zip(map_, is_same, strict=True))
    array = array[tuple(kept)]
    dims = [dim for dim in map_ if dim >= 0]
    sizes = dict(zip(dims, array.shape, strict=True))
    axes = sorted(range(len(dims)), key=lambda axis: loops.index(dims[axis]))
    return array.transpose(axes).reshape([sizes.get(loop, 1) for loop in loops])


def _spread(array: Array, shape: tuple[int, ...]) -> Array:
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _operation(name: str, operands: list[Value], type_: str, detail: Any = None) -> Value:
    """The result of an operation of the dialect arith; ``detail`` is a constant's value or a comparison's kind."""
    if name == "arith.constant":
        return np.asarray(detail, _TYPES[type_])
    if name in ("arith.sitofp", "arith.uitofp"):
        return _as_float(operands[0], signed=name == "arith.sitofp")
    if name == "arith.extf" and type_ == "f32" and not isinstance(operands[0], Codes):
        return Codes(operands[0])
    if name == "arith.subi" and not isinstance(operands[0], Codes):
        return _with(Codes(operands[0], is_float=False), zero=numbers_of(operands[1]))
    if name == "arith.subf" and isinstance(operands[0], Codes) and operands[0].zero is None and operands[0].scale is None:
        return _with(operands[0], zero=numbers_of(operands[1]))
    if name == "arith.mulf":
        for one, other in (operands, operands[::-1]):
            if isinstance(one, Codes) and one.scale is None:
                return _with(one, scale=numbers_of(other))
    arrays = [numbers_of(value) for value in operands]
    if name == "arith.select":
        return np.where(*arrays)
    if name == "arith.cmpi":
        unsigned = detail.startswith("u")
        compare = _COMPARISONS[detail[1:] if len(detail) == 3 else detail]
        result: Array = compare(*(map(_unsigned, arrays) if unsigned else arrays))
        return result
    with np.errstate(all="ignore"):
        return _OPERATIONS[name](*arrays).astype(_TYPES[type_], copy=False)


def _as_float(value: Value, *, signed: bool) -> Value:
    """An integer as float32: as codes, where float32 holds the integers and what is subtracted from them exactly."""
    if not (signed and isinstance(value, Codes)):
        numbers = numbers_of(value)
        value = Codes(numbers if signed else _unsigned(numbers))
    if all(map(_is_exact, (part for part in (value.code, value.zero) if part is not None))):
        return Codes(value.code, None if value.zero is None else value.zero.astype(np.float32))
    whole: Array = value.code if value.zero is None else value.code - value.zero
    return whole.astype(np.float32)


def _is_exact(array: Array) -> bool:
    """Whether float32 holds all these integers, and differences of two."""
    few = array.dtype.itemsize < 4 or not array.size
    return few or (int(array.min()) >= -_EXACT and int(array.max()) <= _EXACT)


def _with(codes: Codes, **parts: Array) -> Codes:
    """Codes with another part, all of one shape."""
    known = {"zero": codes.zero, "scale": codes.scale, **parts}
    shape = np.broadcast_shapes(codes.shape, *(part.shape for part in known.values() if part is not None))
    whole = {name: None if part is None else _spread(part, shape) for name, part in known.items()}
    return Codes(_spread(codes.code, shape), whole["zero"], whole["scale"], codes.is_float)


def numbers_of(value: Value) -> Array:
    """The array that a value stands for."""
    return value.numbers() if isinstance(value, Codes) else value


def _unsigned(array: Array) -> Array:
    return array if array.dtype == np.bool_ else array.view(f"u{array.itemsize}")


_COMPARISONS: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_OPERATIONS: dict[str, Callable[..., Array]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": lambda x, y: np.right_shift(_unsigned(x), _unsigned(y)),
    "arith.extsi": lambda x: -x.astype(np.int8) if x.dtype == np.bool_ else x,
    "arith.extui": _unsigned,
    "arith.trunci": lambda x: x,
    "arith.extf": lambda x: x,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
}
OPERATIONS = frozenset({*_OPERATIONS, "arith.constant", "arith.sitofp", "arith.uitofp", "arith.select", "arith.cmpi"})
"""The operations that may be in the body of a nest."""
TYPES = frozenset(_TYPES)
"""The element types that they may have."""
