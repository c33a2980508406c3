"""Native parts and host steps run one after the other; values pass by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.hosting import holds_host_type, settled
from onnx2torch_mlir.model import Kind, ValueType


@dataclass(frozen=True)
class ValueInfo:
    """An input or output: strings and what is no tensor have the dtype object; ``kind`` is ONNX's ("tensor", "map" …).

    ``shape`` holds sizes and names of sizes, "?" for those without one; it is None where the rank is open, or no tensor.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...] | None
    kind: str = "tensor"

    def __str__(self) -> str:
        if self.kind != "tensor":
            return f"{self.name}: {self.kind}"
        element = "string" if self.dtype == object else self.dtype.name
        return f"{self.name}: {element}[{'…' if self.shape is None else ', '.join(map(str, self.shape))}]"


def described(value: ValueType, pinned: Mapping[str, int]) -> ValueInfo:
    """How a value of the model looks to its caller."""
    tensor = value.kind is Kind.TENSOR and value.dtype is not None
    dtype = value.dtype.numpy() if tensor and value.dtype is not None and not holds_host_type(value) else np.dtype(object)
    shape = None
    if tensor and value.shape is not None:
        shape = tuple("?" if dim is None else pinned.get(dim, dim) if isinstance(dim, str) else dim for dim in value.shape)
    return ValueInfo(value.name, dtype, shape, str(value.kind))


@dataclass(frozen=True)
class Step:
    """One part: the names of what it takes and gives, and the function from the ones to the others."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    run: Callable[[Mapping[str, Any]], Mapping[str, Any]]


class SplitEngine:
    """Runs ``steps`` in order; the interface is the native engine's."""

    def __init__(
        self,
        inputs: Sequence[ValueInfo],
        outputs: Sequence[ValueInfo],
        steps: Sequence[Step],
        held: Mapping[str, Any],
        defaults: Mapping[str, Any],
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._steps = tuple(steps)
        self._held = dict(held)
        self._defaults = dict(defaults)
        last = {name: number for number, step in enumerate(steps) for name in step.inputs}
        kept = {info.name for info in outputs}
        self._done_with = [
            tuple(name for name in step.inputs if last[name] == number and name not in kept)
            for number, step in enumerate(steps)
        ]

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The outputs, in order, for ``inputs`` by name or in order; strings are object arrays of str.

        Raises:
            Refusal: O2M-U003 for inputs that do not fit, O2M-X001 and O2M-X002 where a part fails.
        """
        values = self._held | {info.name: _checked(info, value) for info, value in self._ordered(inputs)}
        for step, done_with in zip(self._steps, self._done_with, strict=True):
            values.update(step.run({name: values[name] for name in step.inputs}))
            for name in done_with:
                del values[name]
        return [_own(values[info.name], inputs) for info in self.outputs]

    def __call__(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        """The same as `run`."""
        return self.run(inputs)

    def _ordered(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[tuple[ValueInfo, Any]]:
        names = [info.name for info in self.inputs]
        hint = f"The model's inputs are {', '.join(names) or 'none'}."
        if isinstance(inputs, Mapping):
            inputs = {**self._defaults, **inputs}
            missing = [name for name in names if name not in inputs]
            unknown = [str(name) for name in inputs if name not in names]
            if missing or unknown:
                reason = f"the values do not fit the inputs (missing: {missing}, unknown: {unknown})"
                raise refuse("O2M-U003", reason, hint=hint, case=(missing or unknown)[0])
            return [(info, inputs[info.name]) for info in self.inputs]
        if isinstance(inputs, str | bytes | np.ndarray) or not isinstance(inputs, Sequence):
            raise refuse("O2M-U003", f"inputs have to be a dict or a sequence of values, not {type(inputs).__name__}")
        if len(inputs) != len(names):
            raise refuse("O2M-U003", f"{len(inputs)} values were given for {len(names)} inputs", hint=hint)
        return list(zip(self.inputs, inputs, strict=True))


def _checked(info: ValueInfo, value: Any) -> Any:
    case = f"input {info.name}"
    if info.kind != "tensor":
        return value
    try:
        array = np.asarray(value)
    except Exception as error:
        raise refuse("O2M-U003", f"is not an array: {error}", case=case) from None
    if info.dtype == object:
        words = settled(array)
        if array.dtype.kind not in "OSU" or not all(isinstance(word, str) for word in words.reshape(-1).tolist()):
            raise refuse("O2M-U003", f"input {info.name} is {array.dtype}, the model takes strings", case=case)
        array = words
    elif array.dtype != info.dtype:
        raise refuse("O2M-U003", f"input {info.name} is {array.dtype}, the model takes {info.dtype}", case=case)
    if info.shape is None:
        return array
    if array.ndim != len(info.shape):
        raise refuse("O2M-U003", f"input {info.name} has shape {list(array.shape)}, the model takes {info}", case=case)
    for axis, (dim, size) in enumerate(zip(info.shape, array.shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            reason = f"dim {axis} of input {info.name} is {size}, the model takes {dim}"
            raise refuse("O2M-U003", reason, case=f"{case}, dim {axis}", hint=f"The model takes {info}.")
    return array


def _own(value: Any, inputs: Mapping[str, Any] | Sequence[Any]) -> Any:
    """An output that shares no memory with an input."""
    given = inputs.values() if isinstance(inputs, Mapping) else inputs
    if isinstance(value, np.ndarray) and (
        not value.flags.writeable or any(isinstance(item, np.ndarray) and np.may_share_memory(value, item) for item in given)
    ):
        return value.copy()
    return value
