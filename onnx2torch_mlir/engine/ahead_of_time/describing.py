"""A lowered program as a C program sees it, and the conditions on its sizes as assertions of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy
from torch_mlir import ir

from onnx2torch_mlir.core.signature import Dim, TensorSpec
from onnx2torch_mlir.diagnostics import Finding, Refusal, refuse
from onnx2torch_mlir.engine.ahead_of_time.interface import ELEMENT_TYPES, MAX_RANK, CValue, Interface
from onnx2torch_mlir.engine.binding import dim_text
from onnx2torch_mlir.lowering.assertions import assert_dims
from onnx2torch_mlir.lowering.lowered import Lowered

_TAKEN = re.compile(r"o2m.*|(mq|sem|shm|dbm)$")
"""Beginnings of names that the code itself has, or with ``_open`` the C library."""


def c_name(text: str) -> str:
    """``text`` as the beginning of C names: letters, digits and underscores, a letter first, no name that is taken."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return name if re.match(r"[A-Za-z]", name) and not _TAKEN.match(name) else f"model_{name}"


def interface(lowered: Lowered, prefix: str, features: Sequence[str]) -> Interface:
    """What C sees of ``lowered``, whose functions begin with ``prefix``.

    Raises:
        Refusal: O2M-U001 for a prefix that is none, O2M-M003 with every input and output that C cannot have.
    """
    if c_name(prefix) != prefix:
        hint = f"Such as {c_name(prefix)}."
        reason = f"{prefix!r} cannot begin the names of C functions: letters, digits and _, a letter first, none that is taken"
        raise refuse("O2M-U001", reason, hint=hint, case="name")
    groups = (("input", lowered.inputs), ("output", lowered.outputs))
    findings = [finding for role, specs in groups for spec in specs for finding in _unfit(role, spec)]
    if findings:
        raise Refusal(findings)
    numbers: dict[Dim, int] = {}
    inputs = tuple(
        replace(_value(spec, lowered.dim_names), sizes=tuple(_size(dim, numbers) for dim in spec.shape))
        for spec in lowered.inputs
    )
    outputs = tuple(_value(spec, lowered.dim_names) for spec in lowered.outputs)
    shapes = tuple(tuple(int(size) for size in weight.spec.shape) for weight in lowered.weights)
    return Interface(prefix, inputs, outputs, shapes, tuple(features))


def with_assertions(lowered: Lowered) -> Lowered:
    """The same with its conditions on the sizes of inputs as assertions of the module: who calls it need not check them."""
    computed = [
        (number, axis, f"dim {axis} of input {spec.name} has to be {dim_text(dim, lowered.dim_names)}")
        for number, spec in enumerate(lowered.inputs)
        for axis, dim in enumerate(spec.shape)
        if not isinstance(dim, int | sympy.Integer | sympy.Symbol)
    ]
    if not computed and not lowered.checks:
        return lowered
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)
        module = ir.Module.parse(lowered.bytecode)
        assert_dims(module, lowered.inputs, computed, lowered.checks)
        return replace(lowered, bytecode=_bytecode(module), checks=())


def _bytecode(module: ir.Module) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _dtype_name(spec: TensorSpec) -> str:
    return spec.element or str(spec.dtype).removeprefix("torch.")


def _unfit(role: str, spec: TensorSpec) -> list[Finding]:
    case = f"{role} {spec.name}"
    found = []
    if _dtype_name(spec) not in ELEMENT_TYPES:
        hint = "Cast it within the model, such as to int8."
        found.append(Finding("O2M-M003", f"{case} is {_dtype_name(spec)}: C has no such elements", hint, case))
    if len(spec.shape) > MAX_RANK:
        reason = f"{case} has {len(spec.shape)} dims, C programs pass at most {MAX_RANK}"
        found.append(Finding("O2M-M003", reason, "Reshape it within the model.", case))
    return found


def _value(spec: TensorSpec, dim_names: Mapping[str, str]) -> CValue:
    shape = tuple(int(dim) if isinstance(dim, int | sympy.Integer) else dim_text(dim, dim_names) for dim in spec.shape)
    return CValue(spec.name, _dtype_name(spec), shape)


def _size(dim: Dim, numbers: dict[Dim, int]) -> int:
    """A size, or the number of the name that stands for it; computed sizes have names of their own."""
    if isinstance(dim, int | sympy.Integer):
        return int(dim)
    key = dim if isinstance(dim, sympy.Symbol) else sympy.Dummy()
    return -1 - numbers.setdefault(key, len(numbers))
