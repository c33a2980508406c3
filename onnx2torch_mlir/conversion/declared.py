"""Results compared with what ONNX declares: the operator's schema, and the types stored in the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Finding, Severity, refuse
from onnx2torch_mlir.families.dtypes import describe, named_dtype, named_element
from onnx2torch_mlir.model import Kind, value_type_of
from onnx2torch_mlir.specs import Formal, OperatorVersion


def check_inputs(version: OperatorVersion, inputs: Sequence[Any]) -> None:
    """No element type of less than a byte comes where the operator does not take it.

    Raises:
        Refusal: O2M-C005 where one does.
    """
    for formal, value in _paired(version.inputs, inputs):
        if isinstance(value, Value) and value.element:
            allowed = version.type_constraints.get(formal.type, (formal.type,))
            if f"tensor({value.element})" not in allowed:
                reason = f"{version} does not take {value.element} as input {formal.name}"
                raise refuse("O2M-C005", reason, case=f"{formal.name}={value.element}")


def check_schema(version: OperatorVersion, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """``outputs`` with the element types that the schema's type variables give them.

    A converter need not say that what it gives holds elements of less than a byte where an input of the same type
    variable does.

    Raises:
        Refusal: O2M-C009 where a converter gives another type.
    """
    bound: dict[str, tuple[torch.dtype, str]] = {}
    for formal, value in _paired(version.inputs, inputs):
        if isinstance(value, Value) and formal.homogeneous:
            bound.setdefault(formal.type, (value.dtype, value.element))
    checked = list(outputs)
    for index, (formal, value) in enumerate(_paired(version.outputs, outputs)):
        if not isinstance(value, Value):
            continue
        expected, element = bound.get(formal.type, (None, "")) if formal.homogeneous else (None, "")
        if formal.type in version.type_constraints:
            allowed = version.type_constraints[formal.type]
            if expected is None and len(allowed) == 1:
                expected = named_dtype(allowed[0])
        else:
            expected = named_dtype(formal.type)
        if element and not value.element:
            checked[index] = value = value.tagged(element)
        if expected is not None and (value.dtype, value.element) != (expected, element):
            found, declared = describe(value.dtype, value.element), describe(expected, element)
            raise refuse(
                "O2M-C009", f"output {formal.name} came out as {found}, {version} declares {declared}", case=formal.name
            )
    return checked


def _paired(formals: Sequence[Formal], values: Sequence[Any]) -> Iterator[tuple[Formal, Any]]:
    for index, value in enumerate(values):
        if formals:
            yield formals[min(index, len(formals) - 1)], value


def check_declared(node: ir.Node, outputs: Sequence[Any]) -> Iterator[Finding]:
    """What the model's own value types say otherwise: a dtype is an error, a rank or size a warning (they may lie)."""
    for value, output in zip(node.outputs, outputs, strict=False):
        if isinstance(output, Value):
            yield from check_value(value, output)


def check_value(value: ir.Value, output: Value) -> Iterator[Finding]:
    """The same for one value."""
    declared = value_type_of(value)
    if declared.kind is not Kind.TENSOR:
        return
    if declared.dtype is not None:
        word = f"tensor({_onnx_name(declared.dtype)})"
        name, element = named_dtype(word), named_element(word)
        if name is not None and (name, element) != (output.dtype, output.element):
            found = describe(output.dtype, output.element)
            yield Finding(
                "O2M-C007",
                f"{value.name} is declared {_onnx_name(declared.dtype)} but comes out as {found}",
                case=value.name or "",
            )
    if declared.shape is None:
        return
    if len(declared.shape) != output.rank:
        yield Finding(
            "O2M-C007",
            f"{value.name} is declared with rank {len(declared.shape)} but comes out with rank {output.rank}",
            case=value.name or "",
            severity=Severity.WARNING,
        )
        return
    for axis, (said, size) in enumerate(zip(declared.shape, output.shape, strict=True)):
        if isinstance(said, int) and isinstance(size, int) and said != size:
            yield Finding(
                "O2M-C010",
                f"dim {axis} of {value.name} is declared {said} but comes out as {size}",
                case=value.name or "",
                severity=Severity.WARNING,
            )


def _onnx_name(dtype: ir.DataType) -> str:
    return dtype.name.lower()
