"""Sequences and optionals where they cross the border of a program: from ONNX's types to tensors, and what those are called."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import (
    Anything,
    ElementSizes,
    Form,
    OptionalForm,
    OptionalValue,
    RunTimeForm,
    RunTimeSequence,
    StaticSequence,
    TensorForm,
    conform,
    describe,
    form_of,
    placeholder,
)
from onnx2torch_mlir.core.signature import OptionalSpec, SequenceSpec, Spec, TensorSpec
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.families.dtypes import element_type, narrow_element, torch_dtype
from onnx2torch_mlir.model import Kind, ValueType


def form_of_type(described: ValueType, dims: Mapping[str, int] | None = None) -> Form:
    """The form that values of an ONNX type have where nothing else is known; ``dims`` are pinned.

    Raises:
        Refusal: O2M-C008 for a type that has none, O2M-R019 for a tensor without element type.
    """
    if described.kind in (Kind.SEQUENCE, Kind.OPTIONAL) and described.element is not None:
        inside = form_of_type(described.element, dims)
        if described.kind is Kind.SEQUENCE and isinstance(inside, TensorForm):
            return RunTimeForm(inside.dtype, inside.sizes)
        if described.kind is Kind.OPTIONAL and not isinstance(inside, OptionalForm):
            return OptionalForm(inside)
    if described.kind is not Kind.TENSOR:
        raise refuse("O2M-C008", f"a value of type {described.kind} has no place in a program", case=str(described.kind))
    if described.dtype is None or described.dtype == ir.DataType.UNDEFINED:
        raise refuse("O2M-R019", "a tensor has no element type", case=described.name)
    sizes: ElementSizes = None
    if described.shape is not None:
        pinned = [(dims or {}).get(dim, dim) if isinstance(dim, str) else dim for dim in described.shape]
        sizes = tuple(dim if isinstance(dim, int) else None for dim in pinned)
    narrow = narrow_element(int(described.dtype))
    if narrow:
        raise refuse("O2M-C008", f"sequences and optionals of {narrow} are not supported", case=narrow)
    return TensorForm(torch_dtype(int(described.dtype)), sizes)


def type_of(name: str, value: Anything | None) -> ValueType | None:
    """The ONNX type of a value, as a function body that depends on it needs it."""
    if value is None:
        return None
    if isinstance(value, Value):
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        return ValueType(name, Kind.TENSOR, ir.DataType(element_type(value.dtype, value.element)), shape)
    return _type_of_form(name, form_of(value))


def _type_of_form(name: str, form: Form) -> ValueType:
    if isinstance(form, OptionalForm):
        return ValueType(name, Kind.OPTIONAL, element=_type_of_form("", form.inside))
    if isinstance(form, TensorForm):
        return ValueType(name, Kind.TENSOR, ir.DataType(element_type(form.dtype)), form.sizes)
    items = [item.sizes for item in form.items] if not isinstance(form, RunTimeForm) else [form.sizes]
    shape = items[0] if len(set(items)) == 1 else None
    return ValueType(
        name, Kind.SEQUENCE, element=ValueType("", Kind.TENSOR, ir.DataType(element_type(form.dtype)), shape)
    )


def composite_input(
    builder: ProgramBuilder, described: ValueType, dims: Mapping[str, int], rank: int | None = None
) -> Anything:
    """A program input that is a sequence (``x.data`` and ``x.shapes``) or an optional (``x.has`` and its value).

    ``rank`` is that of a sequence's elements where their type leaves it open.

    Raises:
        Refusal: O2M-C004 for an optional tensor without a declared rank, O2M-C008 for another kind of value.
    """
    form = form_of_type(described, dims)
    if rank is not None:
        form = _with_rank(form, rank)
    return _input(builder, described.name, described, form, dims)


def _with_rank(form: Form, rank: int) -> Form:
    if isinstance(form, OptionalForm):
        inside = _with_rank(form.inside, rank)
        assert not isinstance(inside, OptionalForm)
        return OptionalForm(inside)
    return RunTimeForm(form.dtype, (None,) * rank) if isinstance(form, RunTimeForm) and form.sizes is None else form


def _input(builder: ProgramBuilder, name: str, described: ValueType, form: Form, dims: Mapping[str, int]) -> Anything:
    if isinstance(form, OptionalForm):
        assert described.element is not None
        has = builder.input(f"{name}.has", torch.bool, [])
        inside = _input(builder, name, described.element, form.inside, dims)
        assert not isinstance(inside, OptionalValue)
        return OptionalValue(has, inside, form.inside)
    if isinstance(form, RunTimeForm):
        columns = None if form.sizes is None else len(form.sizes)
        data = builder.input(f"{name}.data", form.dtype, [None])
        return RunTimeSequence(data, builder.input(f"{name}.shapes", torch.int64, [None, columns]), form.sizes)
    if described.shape is None:
        raise refuse(
            "O2M-C004",
            f"graph input {name} has no declared rank",
            case=name,
            hint="declare its shape, with names for sizes that vary",
        )
    shape = [dims.get(dim, dim) if isinstance(dim, str) else dim for dim in described.shape]
    return builder.input(f"{name}.value", form.dtype, shape)


def completed(g: ProgramBuilder, value: Anything) -> Anything:
    """``value`` with something in place of what is known to be absent, so that tensors stand for it."""
    if isinstance(value, OptionalValue) and value.value is None and isinstance(value.form, TensorForm):
        form = TensorForm(value.form.dtype, value.form.sizes or ())
        return OptionalValue(value.has, placeholder(g, form), form)
    return conform(g, value, form_of(value))


def spec_of(name: str, value: Anything) -> Spec:
    """What a value is called, and the tensors that stand for it."""
    if isinstance(value, Value):
        return _tensor(name, value)
    if isinstance(value, StaticSequence):
        items = tuple(_tensor(f"{name}.{index}", item) for index, item in enumerate(value.items))
        return SequenceSpec(name, value.dtype, items, None, packed=False)
    if isinstance(value, RunTimeSequence):
        flat = (_tensor(f"{name}.data", value.data), _tensor(f"{name}.shapes", value.shapes))
        return SequenceSpec(name, value.dtype, flat, value.sizes, packed=True)
    if value.value is None:
        raise refuse("O2M-C004", f"{name}, {describe(value)}, is always absent and has no declared rank", case=name)
    inside = spec_of(f"{name}.value" if isinstance(value.value, Value) else name, value.value)
    assert not isinstance(inside, OptionalSpec)
    return OptionalSpec(name, _tensor(f"{name}.has", value.has), inside)


def _tensor(name: str, value: Value) -> TensorSpec:
    return TensorSpec(name, value.dtype, value.shape, value.element)

