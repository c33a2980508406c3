"""Inputs against what the program declares: names, dtypes, ranks, sizes, and the conditions on symbolic sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from onnx2torch_mlir.core.narrow import NARROW, unpacked
from onnx2torch_mlir.core.signature import Dim, TensorSpec
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine.arrays import Array, address_of_buffer, arguments, array_dtype, buffer_of, holds_flags, pointable
from onnx2torch_mlir.lowering.lowered import Lowered

_REMEMBERED = 256


class _Expected:
    """An input: its declaration, element type and rank."""

    def __init__(self, spec: TensorSpec) -> None:
        self.spec, self.dtype, self.rank = spec, array_dtype(spec), len(spec.shape)
        self.is_plain = not spec.element and self.dtype != np.bool_
        """Whether any bytes are numbers of this type, as those of bools and of packed types are not."""


class InputBinder:
    """Checks the arrays of a call and brings them into the program's order."""

    def __init__(self, lowered: Lowered) -> None:
        self._lowered = lowered
        self._names = [spec.name for spec in lowered.inputs]
        self._expected = [_Expected(spec) for spec in lowered.inputs]
        self._accepted: dict[tuple[tuple[int, ...], ...], None] = {}
        self._usual: tuple[tuple[str, np.dtype[Any], int], ...] = ()
        """The name of each input, its type, and which bits of an address are 0; empty where Python knows no buffers of some."""
        self._flags = [place for place, one in enumerate(self._expected) if one.dtype == np.bool_]
        if all(not one.spec.element and one.dtype.isbuiltin == 1 for one in self._expected):
            dtypes = [one.dtype for one in self._expected]
            self._usual = tuple((name, dtype, dtype.alignment - 1) for name, dtype in zip(self._names, dtypes, strict=True))

    def bind(self, inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[list[Array], list[int]]:
        """Dense arrays in the order of the program's inputs, and their words (arrays.arguments).

        Raises `Refusal` O2M-U003 for a wrong name, dtype, rank or size, O2M-X001 for sizes that contradict the model.
        """
        # The usual case first, and all in one loop: this is done in every call that is not like the one before, of programs
        # that take microseconds too, and what Python needs for it is no longer in the cache after others.
        if type(inputs) is dict and len(inputs) == len(self._usual):
            bound, words, shapes = [], [], []
            try:
                for name, dtype, low_bits in self._usual:
                    value = inputs[name]
                    if type(value) is not np.ndarray or value.dtype is not dtype:
                        break
                    # Only what is dense and writeable has a buffer.
                    address = address_of_buffer(buffer_of(value))
                    if address & low_bits:
                        break
                    shape = value.shape
                    bound.append(value)
                    shapes.append(shape)
                    words.append(address)
                    words += shape
                else:
                    if tuple(shapes) in self._accepted and all(holds_flags(bound[place]) for place in self._flags):
                        return bound, words
            except (KeyError, TypeError, ValueError, BufferError):
                pass
        return self._bound(inputs)

    def _bound(self, inputs: Mapping[str, Any] | Sequence[Any]) -> tuple[list[Array], list[int]]:
        bound: list[Array] = []
        for value, expected in zip(self._ordered(inputs), self._expected, strict=True):
            fits = type(value) is np.ndarray and expected.is_plain and value.dtype == expected.dtype
            if not (fits and value.ndim == expected.rank and value.flags.carray):
                value = self._array(value, expected)
            bound.append(value)
        accepted = tuple(array.shape for array in bound)
        if accepted not in self._accepted:
            self._check_sizes(accepted)
            if len(self._accepted) >= _REMEMBERED:
                self._accepted.clear()
            self._accepted[accepted] = None
        return bound, arguments(bound)

    def _ordered(self, inputs: Mapping[str, Any] | Sequence[Any]) -> Sequence[Any]:
        names = self._names
        if isinstance(inputs, list | tuple) and len(inputs) == len(names):
            return inputs
        if isinstance(inputs, Mapping):
            inputs = {**self._lowered.defaults, **inputs}
            missing = [name for name in names if name not in inputs]
            unknown = [str(name) for name in inputs if name not in names]
            if missing or unknown:
                groups = (("missing", missing), ("unknown", unknown))
                told = "; ".join(f"{kind}: {', '.join(group)}" for kind, group in groups if group)
                raise refuse(
                    "O2M-U003",
                    f"the arrays do not fit the inputs ({told})",
                    hint=f"The model's inputs are {', '.join(names) or 'none'}.",
                    case=(missing or unknown)[0],
                )
            return [inputs[name] for name in names]
        if isinstance(inputs, str | bytes | np.ndarray) or not isinstance(inputs, Sequence):
            raise refuse("O2M-U003", f"inputs have to be a dict or a sequence of arrays, not {type(inputs).__name__}")
        if len(inputs) != len(names):
            raise refuse(
                "O2M-U003",
                f"{len(inputs)} arrays were given for {len(names)} inputs",
                hint=f"The model's inputs are {', '.join(names) or 'none'}.",
            )
        return list(inputs)

    def _array(self, value: Any, expected: _Expected) -> Array:
        spec, dtype, rank = expected.spec, expected.dtype, expected.rank
        try:
            array: Array = np.asarray(value)
        except Exception as error:
            raise refuse("O2M-U003", f"is not an array: {error}", case=f"input {spec.name}") from None
        if array.dtype != dtype:
            raise refuse("O2M-U003", f"input {spec.name} is {array.dtype}, the model takes {dtype}", case=f"input {spec.name}")
        if array.ndim != rank:
            raise refuse(
                "O2M-U003",
                f"input {spec.name} has rank {array.ndim} (shape {list(array.shape)}), the model takes rank"
                f" {rank} ({declared(spec, self._lowered.dim_names)})",
                case=f"input {spec.name}",
            )
        return unpacked(array, NARROW[spec.element]) if spec.element else pointable(array)

    def _check_sizes(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        bound = check_sizes(self._lowered.inputs, shapes, self._lowered.dim_names)
        values = {symbol: sympy.Integer(size) for symbol, size in bound.items()}
        for check in self._lowered.checks:
            if check.expression.xreplace(values) == sympy.false:
                told = _bound(bound, self._lowered.dim_names)
                raise refuse("O2M-X001", f"{check.message} (here {told})" if told else check.message)


def check_sizes(
    specs: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]], dim_names: Mapping[str, str]
) -> dict[sympy.Symbol, int]:
    """The symbols of ``specs`` as the ``shapes`` of arrays bind them.

    Raises:
        Refusal: O2M-U003 for a size that is not the declared one, or not what another input makes it.
    """

    def wrong(spec: TensorSpec, axis: int, text: str) -> Exception:
        hint = f"The model takes {spec.name}: {declared(spec, dim_names)}."
        return refuse("O2M-U003", text, case=f"input {spec.name}, dim {axis}", hint=hint)

    bound: dict[sympy.Symbol, int] = {}
    origin: dict[sympy.Symbol, str] = {}
    pending: list[tuple[TensorSpec, int, Dim, int]] = []
    for spec, shape in zip(specs, shapes, strict=True):
        for axis, (dim, size) in enumerate(zip(spec.shape, shape, strict=True)):
            place = f"dim {axis} of input {spec.name}"
            if isinstance(dim, int | sympy.Integer):
                if size != int(dim):
                    raise wrong(spec, axis, f"{place} is {size}, the model takes {dim}")
            elif isinstance(dim, sympy.Symbol):
                if bound.setdefault(dim, size) != size:
                    other = f"but {origin[dim]} has made it {bound[dim]}"
                    raise wrong(spec, axis, f"{place} ('{dim_text(dim, dim_names)}') is {size}, {other}")
                origin.setdefault(dim, place)
            else:
                pending.append((spec, axis, dim, size))
    for spec, axis, dim, size in pending:
        expected = evaluate(dim, bound)
        if expected is not None and expected != size:
            place = f"dim {axis} of input {spec.name} ('{dim_text(dim, dim_names)}')"
            raise wrong(spec, axis, f"{place} is {size}, but it has to be {expected} ({_bound(bound, dim_names)})")
    return bound


def declared(spec: TensorSpec, dim_names: Mapping[str, str]) -> str:
    """The shape of ``spec`` in the words of the model."""
    return f"[{', '.join(dim_text(dim, dim_names) for dim in spec.shape)}]"


def _bound(sizes: Mapping[sympy.Symbol, int], dim_names: Mapping[str, str]) -> str:
    return ", ".join(f"{dim_text(symbol, dim_names)} = {value}" for symbol, value in sizes.items())


def evaluate(dim: Dim, bound: Mapping[sympy.Symbol, int]) -> int | None:
    """The value of a size under ``bound``; None if it depends on more than that."""
    if isinstance(dim, int):
        return dim
    value = dim.xreplace({symbol: sympy.Integer(size) for symbol, size in bound.items()})
    return int(value) if value.is_Integer else None


def dim_text(dim: Dim, names: Mapping[str, str]) -> str:
    """A size in the words of the model: its symbols by their ONNX names."""
    if isinstance(dim, int):
        return str(dim)
    named = {symbol: sympy.Symbol(names.get(str(symbol), str(symbol))) for symbol in dim.free_symbols}
    return str(dim.xreplace(named))
