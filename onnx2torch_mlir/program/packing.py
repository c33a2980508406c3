"""Lists of arrays and absent values at the border of a program whose own inputs and outputs are tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import sympy

from onnx2torch_mlir.core.signature import OptionalSpec, SequenceSpec, Spec, TensorSpec
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.engine.arrays import Array, numpy_dtype


class FlatProgram(Protocol):
    """A program on tensors."""

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
        """The outputs in order."""
        ...


class PackedProgram:
    """A program some of whose inputs or outputs are sequences (lists of arrays) or optionals (None where absent)."""

    def __init__(
        self,
        flat: FlatProgram,
        inputs: Sequence[Spec],
        outputs: Sequence[Spec],
        dim_names: Mapping[str, str],
        defaults: Mapping[str, Any],
    ) -> None:
        self.flat = flat
        self.inputs = tuple(named(spec, dim_names) for spec in inputs)
        self.outputs = tuple(named(spec, dim_names) for spec in outputs)
        self._defaults = defaults

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The outputs, in order, for ``inputs`` by name or in order.

        Raises:
            Refusal: O2M-U003 for inputs that do not fit; what the program itself refuses.
        """
        values = self._ordered(inputs)
        sizes: dict[sympy.Symbol, int] = {}
        for spec, value in zip(self.inputs, values, strict=True):
            tensor = spec.value if isinstance(spec, OptionalSpec) else spec
            if isinstance(tensor, TensorSpec) and value is not None:
                dims = zip(tensor.shape, np.shape(value), strict=False)
                sizes |= {dim: size for dim, size in dims if isinstance(dim, sympy.Symbol)}
        flat = [array for spec, value in zip(self.inputs, values, strict=True) for array in packed(spec, value, sizes)]
        results = iter(self.flat.run(flat))
        return [unpacked(spec, results) for spec in self.outputs]

    def __call__(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The same as `run`."""
        return self.run(inputs)

    def _ordered(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        names = [spec.name for spec in self.inputs]
        hint = f"The model's inputs are {', '.join(names) or 'none'}."
        if isinstance(inputs, Mapping):
            inputs = {**self._defaults, **inputs}
            unknown = [str(name) for name in inputs if name not in names]
            missing = [spec.name for spec in self.inputs if spec.name not in inputs and not isinstance(spec, OptionalSpec)]
            if unknown or missing:
                reason = f"the values do not fit the inputs (missing: {missing}, unknown: {unknown})"
                raise refuse("O2M-U003", reason, hint=hint, case=(missing or unknown)[0])
            return [inputs.get(name) for name in names]
        if isinstance(inputs, str | bytes | np.ndarray) or not isinstance(inputs, Sequence):
            raise refuse("O2M-U003", f"inputs have to be a dict or a sequence of values, not {type(inputs).__name__}")
        if len(inputs) != len(names):
            raise refuse("O2M-U003", f"{len(inputs)} values are given for {len(names)} inputs", hint=hint)
        return list(inputs)


def named(spec: Spec, dim_names: Mapping[str, str]) -> Any:
    """``spec`` with the model's names for the symbols in it."""
    if isinstance(spec, OptionalSpec):
        return replace(spec, value=named(spec.value, dim_names))
    if isinstance(spec, SequenceSpec):
        return replace(spec, flat=tuple(named(item, dim_names) for item in spec.flat))
    symbols = {symbol: sympy.Symbol(dim_names.get(str(symbol), str(symbol))) for symbol in _symbols(spec)}
    return replace(spec, shape=tuple(dim if isinstance(dim, int) else dim.xreplace(symbols) for dim in spec.shape))


def _symbols(spec: TensorSpec) -> set[Any]:
    return {symbol for dim in spec.shape if not isinstance(dim, int) for symbol in dim.free_symbols}


def packed(spec: Spec, value: Any, sizes: Mapping[sympy.Symbol, int]) -> list[Any]:
    """The arrays that stand for ``value``; for an absent one, zeros of the ``sizes`` that other inputs have.

    Raises:
        Refusal: O2M-U003 where the value is not of the kind of ``spec``.
    """
    if isinstance(spec, TensorSpec):
        return [value]
    if isinstance(spec, OptionalSpec):
        absent = value is None
        if not absent:
            inside = packed(spec.value, value, sizes)
        elif isinstance(spec.value, SequenceSpec):
            inside = packed(spec.value, [], sizes)
        else:
            shape = [dim if isinstance(dim, int) else sizes.get(dim, 0) for dim in spec.value.shape]
            inside = [np.zeros(shape, numpy_dtype(spec.value.dtype))]
        return [np.array(not absent), *inside]
    if isinstance(value, np.ndarray) or not isinstance(value, Sequence) or isinstance(value, str | bytes):
        reason = f"{type(value).__name__} is given for {spec}: it takes a list of arrays"
        raise refuse("O2M-U003", reason, case=spec.name)
    return _packed_sequence(spec, [_element(spec, item, index) for index, item in enumerate(value)])


def _element(spec: SequenceSpec, item: Any, index: int) -> Array:
    array: Array = np.asarray(item)
    dtype = numpy_dtype(spec.dtype)
    if array.dtype != dtype:
        raise refuse("O2M-U003", f"element {index} of {spec} is {array.dtype}, not {dtype}", case=spec.name)
    sizes = spec.sizes
    fits = sizes is None or (
        array.ndim <= len(sizes)
        and (
            array.ndim < len(sizes)
            or all(want is None or size == want for size, want in zip(array.shape, sizes, strict=True))
        )
    )
    if not fits:
        raise refuse("O2M-U003", f"element {index} of {spec} has the shape {list(array.shape)}", case=spec.name)
    return array


def _packed_sequence(spec: SequenceSpec, items: Sequence[Array]) -> list[Array]:
    columns = max((item.ndim for item in items), default=0) if spec.sizes is None else len(spec.sizes)
    shapes = np.full((len(items), columns), -1, np.int64)
    for row, item in zip(shapes, items, strict=True):
        row[: item.ndim] = item.shape
    flat = [np.zeros(0, numpy_dtype(spec.dtype)), *(item.reshape(-1) for item in items)]
    return [np.concatenate(flat), shapes]


def unpacked(spec: Spec, arrays: Iterator[Array]) -> Any:
    """The value that the next of ``arrays`` stand for."""
    if isinstance(spec, TensorSpec):
        return next(arrays)
    if isinstance(spec, OptionalSpec):
        has = bool(next(arrays))
        value = unpacked(spec.value, arrays)
        return value if has else None
    if not spec.packed:
        return [next(arrays) for _ in spec.flat]
    data, shapes = next(arrays), next(arrays)
    result: list[Array] = []
    start = 0
    for row in shapes.tolist():
        shape = [size for size in row if size >= 0]
        end = start + int(np.prod(shape, dtype=np.int64))
        result.append(data[start:end].reshape(shape).copy())
        start = end
    return result
