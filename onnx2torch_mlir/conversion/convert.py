"""`convert`: a read model becomes an ExportedProgram of core primitives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from onnx2torch_mlir import collection
from onnx2torch_mlir.conversion.border import completed, composite_input, spec_of
from onnx2torch_mlir.conversion.declared import check_value
from onnx2torch_mlir.conversion.driver import GraphConverter
from onnx2torch_mlir.conversion.element_ranks import element_rank
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import Anything, flatten
from onnx2torch_mlir.core.export import finish
from onnx2torch_mlir.core.signature import Spec
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, Severity, refuse
from onnx2torch_mlir.families.dtypes import narrow_element, torch_dtype
from onnx2torch_mlir.model import Kind, LoadedModel, ValueType, expand_functions
from onnx2torch_mlir.specs import Ledger, SpecTable, default_ledger, default_table


@dataclass(frozen=True)
class Converted:
    """A core program with its ONNX names.

    ``inputs`` and ``outputs`` describe the run-time values in order, and which of the program's tensors stand for each;
    ``dim_names`` maps symbols to ONNX dims; ``findings`` are warnings and notes; ``known`` are the contents of outputs that
    were computed now, by name.
    """

    exported: ExportedProgram
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    dim_names: Mapping[str, str]
    findings: tuple[Finding, ...]
    known: Mapping[str, torch.Tensor] = field(default_factory=dict)


def convert(
    loaded: LoadedModel,
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, torch.Tensor] | None = None,
    table: SpecTable | None = None,
    ledger: Ledger | None = None,
) -> Converted:
    """The core program of ``loaded``.

    ``dims`` pins ONNX dims to numbers; ``constants`` gives inputs their contents, so that they are inputs no more.

    Raises:
        Refusal: with every finding of the model, if one of them is an error.
    """
    with collection.paused():
        builder, given, outputs, findings = _walk(loaded, dims or {}, constants or {}, table, ledger)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise Refusal(findings)
    outputs = [completed(builder, value) for value in outputs]
    inputs = tuple(spec_of(name, value) for name, value in given)
    specs = tuple(spec_of(described.name, value) for described, value in zip(loaded.outputs, outputs, strict=True))
    known = {
        described.name: value.tensor
        for described, value in zip(loaded.outputs, outputs, strict=True)
        if isinstance(value, Value) and value.is_computed and value.tensor is not None
    }
    exported = finish(builder, flatten(outputs)[0])
    return Converted(exported, inputs, specs, dict(builder.table.names), tuple(findings), known)


def check(
    loaded: LoadedModel,
    *,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, torch.Tensor] | None = None,
    table: SpecTable | None = None,
    ledger: Ledger | None = None,
) -> list[Finding]:
    """Every reason why ``loaded`` would not convert, and every warning; empty where there is none."""
    try:
        with collection.paused():
            return list(_walk(loaded, dims or {}, constants or {}, table, ledger)[3])
    except Refusal as refusal:
        return list(refusal.findings)


def _walk(
    loaded: LoadedModel,
    dims: Mapping[str, int],
    constants: Mapping[str, torch.Tensor],
    table: SpecTable | None,
    ledger: Ledger | None,
) -> tuple[ProgramBuilder, list[tuple[str, Anything]], list[Anything], list[Finding]]:
    check_names(loaded, dims, constants)
    table, ledger = table or default_table(), ledger or default_ledger()
    loaded = expand_functions(loaded, table, ledger)
    builder = ProgramBuilder()
    converter = GraphConverter(builder, table, ledger, loaded.opsets)
    findings = list(loaded.findings)
    graph = loaded.ir.graph
    given: list[tuple[str, Anything]] = []
    for value, described in zip(graph.inputs, loaded.inputs, strict=True):
        if described.name in constants:
            known = builder.known(constants[described.name])
            converter.values[value] = known.tagged(narrow_element(int(described.dtype or 0)))
            continue
        try:
            given.append((described.name, _input(builder, described, value, dims)))
            converter.values[value] = given[-1][1]
        except Refusal as refusal:
            findings.extend(item.at(NodeRef(described.name, "graph input")) for item in refusal.findings)
    converter.add_initializers(graph)
    converter.nodes(list(graph), "main")
    findings += converter.findings
    outputs: list[Anything] = []
    for value in graph.outputs:
        result = converter.value(value)
        if isinstance(result, Anything):
            outputs.append(result)
            if value.producer() is None and isinstance(result, Value):
                findings.extend(check_value(value, result))
        elif not any(finding.severity is Severity.ERROR for finding in findings):
            reason = f"graph output {value.name} has no value"
            findings.append(Finding("O2M-C008", reason, case=value.name or ""))
    return builder, given, outputs, findings


def check_names(loaded: LoadedModel, dims: Mapping[str, int], constants: Mapping[str, torch.Tensor]) -> None:
    """Every dim in ``dims`` and every input in ``constants`` is the model's.

    Raises:
        Refusal: O2M-U002 and O2M-U001 for those that are not.
    """
    known = {dim for value in loaded.inputs for dim in value.shape or () if isinstance(dim, str)}
    findings = [
        Finding("O2M-U002", f"no input of the model has a dim named {name}", hint=_choices(known), case=name)
        for name in dims
        if name not in known
    ]
    names = {value.name for value in loaded.inputs}
    findings += [
        Finding("O2M-U001", f"the model has no input named {name}", hint=_choices(names), case=name)
        for name in constants
        if name not in names
    ]
    if findings:
        raise Refusal(findings)


def _choices(names: set[str]) -> str:
    return f"there are: {', '.join(sorted(names))}" if names else "there is none"


def _input(builder: ProgramBuilder, described: ValueType, value: ir.Value, dims: Mapping[str, int]) -> Anything:
    if described.kind not in (Kind.TENSOR, Kind.SPARSE_TENSOR):  # sparse tensors are held, and given, with their zeros
        return composite_input(builder, described, dims, element_rank(value))
    if described.dtype is None or described.dtype == ir.DataType.UNDEFINED:
        raise refuse("O2M-R019", f"graph input {described.name} has no element type", case=described.name)
    if described.shape is None:
        raise refuse(
            "O2M-C004",
            f"graph input {described.name} has no declared rank",
            case=described.name,
            hint="declare its shape, with names for sizes that vary",
        )
    shape = [dims.get(dim, dim) if isinstance(dim, str) else dim for dim in described.shape]
    result = builder.input(described.name, torch_dtype(int(described.dtype)), shape)
    result.element = narrow_element(int(described.dtype))
    return result
