"""Sequences and optionals in control flow: taken apart into tensors before an operator, put together again after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import (
    Anything,
    Form,
    OptionalForm,
    OptionalValue,
    RunTimeSequence,
    conform,
    element_of,
    flatten,
    form_of,
    join,
    unflatten,
)
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.subprograms import SubProgramBuilder, cond
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

Step = Callable[[ProgramBuilder, list[Any]], list[Any]]
"""A body of control flow that takes and gives any values."""

_ATTEMPTS = 8


def branch(g: ProgramBuilder, condition: Value, bodies: tuple[Step, Step]) -> list[Any]:
    """`cond` for branches that give any values: sequences of different lengths come out as run-time sequences.

    Raises:
        Refusal: O2M-C003 where the branches give values of different kinds, dtypes or ranks.
    """
    forms: list[Form] = []

    def joined(builders: Sequence[ProgramBuilder], results: Sequence[list[Any]]) -> list[list[Value]]:
        forms[:] = [join(form_of(a), form_of(b)) for a, b in zip(*results, strict=True)]
        return [
            flatten([conform(builder, value, form) for value, form in zip(result, forms, strict=True)])[0]
            for builder, result in zip(builders, results, strict=True)
        ]

    return unflatten(cond(g, condition, bodies, joined), forms)


class Carried:
    """What a loop carries, as tensors: ``tensors`` before it, ``step`` as a body that takes and gives tensors.

    A body takes the trip number and what is carried; it gives whether to go on, what is carried on, and further tensors.
    Sequences that change their length are carried as run-time sequences.
    """

    def __init__(self, g: ProgramBuilder, step: Step, initial: Sequence[Anything]) -> None:
        self._g = g
        self._step = step
        self._forms = [form_of(value) for value in initial]
        self._given = self._forms
        if not all(isinstance(value, Value) for value in initial):
            self._settle(initial)
        self.tensors, _ = flatten([conform(g, value, form) for value, form in zip(initial, self._forms, strict=True)])

    def _settle(self, initial: Sequence[Anything]) -> None:
        for _ in range(_ATTEMPTS):
            self._given = _given(self._g, self._step, initial, self._forms)
            forms = [join(before, after) for before, after in zip(self._forms, self._given, strict=True)]
            if forms == self._forms:
                return
            self._forms = forms
        raise refuse("O2M-C003", "a sequence that a loop carries gets elements of a higher rank in every trip")

    def step(self, b: ProgramBuilder, values: list[Value]) -> list[Value]:
        """The body on tensors."""
        trip, *tensors = values
        go_on, *results = self._step(b, [trip, *unflatten(tensors, self._forms)])
        count = len(self._forms)
        carried = [conform(b, value, form) for value, form in zip(results[:count], self._forms, strict=True)]
        return [go_on, *flatten(carried)[0], *results[count:]]

    def restored(self, results: Sequence[Value]) -> list[Any]:
        """What the loop gives for the tensors that it gave.

        A value that was optional only before the first trip comes out as one that is there, which is asserted.
        """
        count = len(self.tensors)
        values = unflatten(results[:count], self._forms)
        plain = [
            element_of(self._g, value) if isinstance(value, OptionalValue) and not isinstance(form, OptionalForm) else value
            for value, form in zip(values, self._given, strict=True)
        ]
        return [*plain, *results[count:]]


def _given(g: ProgramBuilder, step: Step, initial: Sequence[Anything], forms: Sequence[Form]) -> list[Form]:
    """The forms of what the body carries on; it is converted aside, and nothing of that stays in the program."""
    aside = SubProgramBuilder(g)
    with g.table.inside():
        trip = aside.parameter("trip", TensorType(torch.int64, ()))
        conformed = [conform(aside, value, form) for value, form in zip(initial, forms, strict=True)]
        tensors = [aside.parameter("carry", type_) for value in conformed for type_ in _types(g, value)]
        results = step(aside, [trip, *unflatten(tensors, forms)])
        return [form_of(value) for value in results[1 : 1 + len(forms)]]


def _types(g: ProgramBuilder, value: Anything) -> list[TensorType]:
    """The types of the tensors that stand for ``value`` inside a loop, where the length of a sequence is not known."""
    if isinstance(value, OptionalValue):
        assert value.value is not None
        return [TensorType(torch.bool, ()), *_types(g, value.value)]
    if isinstance(value, RunTimeSequence):
        columns: Dim = g.table.new_symbol("rank of the elements") if value.sizes is None else len(value.sizes)
        length = g.table.new_symbol("length of a sequence")
        total = g.table.new_symbol("size of a sequence")
        return [TensorType(value.dtype, (total,)), TensorType(torch.int64, (length, columns))]
    return [TensorType(item.dtype, item.shape, item.element) for item in flatten([value])[0]]
