"""Values that are no tensors: sequences and optionals of tensors, made of the tensors that stand for them.

A sequence whose number of elements is known while the program is built is a tuple of values, and whatever is done with it
leaves no trace in the program. Any other sequence is two tensors. A `Form` says which tensors stand for a value: it is
what control flow carries, and what the inputs and outputs of a program are described by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sympy
import torch

from onnx2torch_mlir.core import dims as D
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.signature import Dim
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse

ElementSizes: TypeAlias = tuple[int | None, ...] | None
"""Sizes that all elements of a sequence have, None for one in which they may differ; None if their rank is open."""


@dataclass(frozen=True)
class StaticSequence:
    """``items``, whose number is known while the program is built; ``dtype`` is the elements' (there may be none)."""

    items: tuple[Value, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class RunTimeSequence:
    """A sequence of a length that is only known at run time.

    ``data`` [total] are the elements, flattened, one after the other; ``shapes`` int64 [length, rank] are their sizes. The row
    of an element of lower rank is filled up with -1. ``sizes`` says what is known of the elements; if it is None, the
    number of columns of ``shapes`` is known at run time only.
    """

    data: Value
    shapes: Value
    sizes: ElementSizes

    @property
    def dtype(self) -> torch.dtype:
        """The elements' dtype."""
        return self.data.dtype

    @property
    def length(self) -> Dim:
        """Number of elements."""
        return self.shapes.shape[0]


SequenceValue: TypeAlias = StaticSequence | RunTimeSequence


@dataclass(frozen=True)
class OptionalValue:
    """A value that may be absent.

    ``has`` is a 0-d bool; ``value`` is what is there, with arbitrary contents where nothing is, or None where nothing is
    for certain: then ``form`` says what could have been.
    """

    has: Value
    value: Value | SequenceValue | None
    form: Form


Anything: TypeAlias = Value | StaticSequence | RunTimeSequence | OptionalValue


@dataclass(frozen=True)
class TensorForm:
    """One tensor; what is known of its sizes is told, but two forms are equal without."""

    dtype: torch.dtype
    sizes: ElementSizes = dataclasses.field(default=None, compare=False)


@dataclass(frozen=True)
class StaticForm:
    """One tensor for each element."""

    dtype: torch.dtype
    items: tuple[TensorForm, ...]


@dataclass(frozen=True)
class RunTimeForm:
    """Two tensors: data and shapes."""

    dtype: torch.dtype
    sizes: ElementSizes


@dataclass(frozen=True)
class OptionalForm:
    """A 0-d bool, and what stands for the value."""

    inside: TensorForm | StaticForm | RunTimeForm


Form: TypeAlias = TensorForm | StaticForm | RunTimeForm | OptionalForm


def known_sizes(shape: Sequence[Dim]) -> tuple[int | None, ...]:
    """The sizes that are numbers, None for the others."""
    return tuple(size if isinstance(size, int) else None for size in shape)


def describe(value: Anything | Form | None) -> str:
    """The kind of a value in words, for findings."""
    if isinstance(value, OptionalValue | OptionalForm):
        return "an optional value"
    if isinstance(value, StaticSequence | RunTimeSequence | StaticForm | RunTimeForm):
        return "a sequence"
    return "a tensor" if value is not None else "absent"


def form_of(value: Anything) -> Form:
    """What stands for ``value``."""
    if isinstance(value, Value):
        return TensorForm(value.dtype, known_sizes(value.shape))
    if isinstance(value, OptionalValue):
        inside = value.form if value.value is None else form_of(value.value)
        assert not isinstance(inside, OptionalForm)
        return OptionalForm(inside)
    if isinstance(value, RunTimeSequence):
        return RunTimeForm(value.dtype, value.sizes)
    return StaticForm(value.dtype, tuple(TensorForm(item.dtype, known_sizes(item.shape)) for item in value.items))


def join(a: Form, b: Form) -> Form:
    """The form that takes values of either form: sequences of different lengths become run-time sequences.

    Raises:
        Refusal: O2M-C003 where one is a tensor and the other a sequence, or elements differ in their dtype.
    """
    if isinstance(a, OptionalForm) or isinstance(b, OptionalForm):
        inside = join(a.inside if isinstance(a, OptionalForm) else a, b.inside if isinstance(b, OptionalForm) else b)
        assert not isinstance(inside, OptionalForm)
        return OptionalForm(inside)
    if isinstance(a, TensorForm) or isinstance(b, TensorForm):
        if not (isinstance(a, TensorForm) and isinstance(b, TensorForm)):
            raise refuse("O2M-C003", f"{describe(a)} is joined with {describe(b)}")
        return TensorForm(a.dtype, _join_tensor_sizes(a.sizes, b.sizes))
    if a.dtype is not b.dtype:
        raise refuse("O2M-C003", f"a sequence of {a.dtype} is joined with a sequence of {b.dtype}")
    if isinstance(a, StaticForm) and isinstance(b, StaticForm) and _ranks(a) == _ranks(b):
        return a
    if isinstance(a, StaticForm) and not a.items and isinstance(b, RunTimeForm):
        return b
    if isinstance(b, StaticForm) and not b.items and isinstance(a, RunTimeForm):
        return a
    return RunTimeForm(a.dtype, _join_sizes(_element_sizes(a), _element_sizes(b)))


def _ranks(form: StaticForm) -> list[int]:
    return [len(item.sizes or ()) for item in form.items]


def _element_sizes(form: StaticForm | RunTimeForm) -> Iterator[ElementSizes]:
    if isinstance(form, RunTimeForm):
        yield form.sizes
    else:
        yield from (item.sizes for item in form.items)


def _join_sizes(a: Iterator[ElementSizes], b: Iterator[ElementSizes]) -> ElementSizes:
    every = [*a, *b]
    if not every:
        return ()
    result = every[0]
    for sizes in every[1:]:
        if result is None or sizes is None:
            return None
        if len(result) != len(sizes):
            result = (None,) * max(len(result), len(sizes))
        else:
            result = tuple(x if x == y else None for x, y in zip(result, sizes, strict=True))
    return result


def _join_tensor_sizes(a: ElementSizes, b: ElementSizes) -> ElementSizes:
    if a is None or b is None or len(a) != len(b):
        return a if b is None else b if a is None else a
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def as_run_time(g: ProgramBuilder, sequence: SequenceValue, form: RunTimeForm | None = None) -> RunTimeSequence:
    """``sequence`` as two tensors, with as many columns of sizes as ``form`` has."""
    if isinstance(sequence, StaticSequence):
        own = join_items(sequence)
        if any(item.element for item in sequence.items):
            raise refuse("O2M-C003", "a sequence of elements of less than a byte whose length is known at run time only")
        width = len(own.sizes or ())
        rows = [_row(g, item.shape, width) for item in sequence.items]
        flat = [g.reshape(item, [D.product(item.shape)]) for item in sequence.items]
        data = g.cat(flat, 0) if flat else g.full([0], 0, sequence.dtype)
        shapes = g.cat(rows, 0) if rows else g.full([0, width], 0, torch.int64)
        sequence = RunTimeSequence(data, shapes, own.sizes)
    if form is None or form.sizes == sequence.sizes:
        return sequence
    wanted = len(form.sizes) if form.sizes is not None else None
    columns = sequence.shapes.shape[1]
    if wanted is not None and isinstance(columns, int) and columns < wanted:
        return RunTimeSequence(sequence.data, widen(g, sequence.shapes, wanted), form.sizes)
    return RunTimeSequence(sequence.data, sequence.shapes, form.sizes)


def join_items(sequence: StaticSequence) -> RunTimeForm:
    """The form that ``sequence`` has as a run-time sequence."""
    own = form_of(sequence)
    assert isinstance(own, StaticForm)
    return RunTimeForm(sequence.dtype, _join_sizes(_element_sizes(own), iter(())))


def _row(g: ProgramBuilder, shape: Sequence[Dim], width: int) -> Value:
    return g.reshape(g.sizes([*shape, *[-1] * (width - len(shape))]), [1, width])


def widen(g: ProgramBuilder, shapes: Value, columns: Dim) -> Value:
    """Rows of sizes filled up to ``columns`` with -1, the size that an element does not have."""
    missing = columns - shapes.shape[1]
    return g.pad(shapes, [0, 0], [0, D.to_dim(missing)], -1)


def conform(g: ProgramBuilder, value: Anything, form: Form) -> Anything:
    """``value`` in a ``form`` that `join` has found for it.

    Raises:
        Refusal: O2M-C004 where something must stand for an absent value of unknown rank.
    """
    if isinstance(form, OptionalForm):
        if not isinstance(value, OptionalValue):
            value = OptionalValue(g.scalar(True, torch.bool), value, form.inside)
        inside = placeholder(g, form.inside) if value.value is None else conform(g, value.value, form.inside)
        assert not isinstance(inside, OptionalValue)
        return OptionalValue(value.has, inside, form.inside)
    if isinstance(form, RunTimeForm):
        assert isinstance(value, StaticSequence | RunTimeSequence)
        return as_run_time(g, value, form)
    return value


def element_of(g: ProgramBuilder, optional: OptionalValue) -> Value | SequenceValue:
    """What is there; asserted when the program runs if that is not known.

    Raises:
        Refusal: O2M-C006 where it is known to be absent.
    """
    present = optional.has.known()
    if optional.value is None or present is False:
        raise refuse("O2M-C006", "the optional value is absent")
    if present is None:
        number = g.item(g.cast(g.reshape(optional.has, []), torch.int64), signed=True)
        g.require(sympy.Eq(sympy.sympify(number), 1), f"{g.origin or 'a node'}: the optional value is absent")
    return optional.value


def placeholder(g: ProgramBuilder, form: Form) -> Value | SequenceValue:
    """What stands for an absent value: zeros, and sizes of 0 where none are known."""
    if isinstance(form, TensorForm):
        if form.sizes is None:
            raise refuse("O2M-C004", "an optional tensor that is absent has no declared rank", case="rank")
        return g.full([size or 0 for size in form.sizes], 0, form.dtype)
    if isinstance(form, StaticForm):
        items = [placeholder(g, item) for item in form.items]
        return StaticSequence(tuple(item for item in items if isinstance(item, Value)), form.dtype)
    assert isinstance(form, RunTimeForm)
    return RunTimeSequence(
        g.full([0], 0, form.dtype), g.full([0, len(form.sizes or ())], 0, torch.int64), form.sizes
    )


def flatten(values: Sequence[Anything]) -> tuple[list[Value], list[Form]]:
    """The tensors that stand for ``values``, and the forms from which `unflatten` makes them again."""
    forms = [form_of(value) for value in values]
    tensors = [tensor for value in values for tensor in _tensors(value)]
    return tensors, forms


def _tensors(value: Anything | None) -> Iterator[Value]:
    if isinstance(value, Value):
        yield value
    elif isinstance(value, StaticSequence):
        yield from value.items
    elif isinstance(value, RunTimeSequence):
        yield from (value.data, value.shapes)
    elif isinstance(value, OptionalValue):
        yield value.has
        yield from _tensors(value.value)


def count(form: Form) -> int:
    """Number of tensors that stand for a value of this form."""
    if isinstance(form, OptionalForm):
        return 1 + count(form.inside)
    return 1 if isinstance(form, TensorForm) else len(form.items) if isinstance(form, StaticForm) else 2


def unflatten(tensors: Sequence[Value], forms: Sequence[Form]) -> list[Anything]:
    """The values of ``forms`` that ``tensors`` stand for."""
    rest = iter(tensors)
    return [_built(rest, form) for form in forms]


def _built(tensors: Iterator[Value], form: Form) -> Anything:
    if isinstance(form, TensorForm):
        return next(tensors)
    if isinstance(form, StaticForm):
        return StaticSequence(tuple(next(tensors) for _ in form.items), form.dtype)
    if isinstance(form, RunTimeForm):
        return RunTimeSequence(next(tensors), next(tensors), form.sizes)
    has = next(tensors)
    inside = _built(tensors, form.inside)
    assert not isinstance(inside, OptionalValue)
    return OptionalValue(has, inside, form.inside)
