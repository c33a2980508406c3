"""Core program -> torch dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind
from torch_mlir import ir

from onnx2torch_mlir.core.weights import weight_name
from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, Severity, refuse
from onnx2torch_mlir.handoff.arguments import FILE_SUFFIXES, INPUT_ATTRIBUTE, WEIGHT_ATTRIBUTE, Weights, check_weights
from onnx2torch_mlir.handoff.context import Report, collecting, new_context
from onnx2torch_mlir.handoff.elements import ELEMENT_TYPES, Absent
from onnx2torch_mlir.handoff.function_arguments import name_arguments
from onnx2torch_mlir.handoff.importer import CoreImporter, Form, NotCarriedError
from onnx2torch_mlir.handoff.iree_parameters import make_parameters
from onnx2torch_mlir.handoff.module import MlirModule
from onnx2torch_mlir.handoff.types import place_of_node

_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True)
class _ProgramView:
    """What the importer reads of an ExportedProgram; the program itself is not touched."""

    graph: torch.fx.Graph
    graph_signature: ExportGraphSignature
    state_dict: Mapping[str, torch.Tensor]
    constants: Mapping[str, Any]
    range_constraints: Mapping[Any, Any]


def to_torch(
    exported: ExportedProgram,
    *,
    weights: Weights = "inline",
    func_name: str = "main",
    symbolic_shapes: bool = False,
    input_names: Sequence[str] | None = None,
) -> MlirModule:
    """``exported`` as a module of the torch dialect with one public function ``func_name``.

    The function takes the program's inputs as ``!torch.vtensor`` (argument attribute ``onnx2mlir.input``: the name,
    that of ``input_names`` where they are given: a placeholder of the program cannot be called ``input.1``).
    With ``weights="inline"`` weights are ``torch.vtensor.literal`` operations that point into the memory of the
    program's own tensors. With ``"args"`` they follow the inputs as arguments with the attribute ``onnx2mlir.weight``;
    with ``"external"`` likewise, and `MlirModule.save` writes their data beside the module, as a ``.safetensors`` file
    under these names. With ``"irpa"`` they are parameters of IREE (`iree_parameters`), their data in a ``.irpa`` file.
    ``symbolic_shapes`` adds ``torch.bind_symbolic_shape`` for the inputs, which IREE reads and torch-mlir's own
    pipelines refuse.

    Raises:
        Refusal: O2M-H001 for what the torch dialect cannot carry, O2M-U001 for an unknown value of ``weights``.
    """
    return import_core(exported, weights, func_name, Form(), symbolic_shapes=symbolic_shapes, input_names=input_names)


def import_core(
    exported: ExportedProgram,
    weights: Weights,
    func_name: str,
    form: Form,
    *,
    symbolic_shapes: bool = False,
    input_names: Sequence[str] | None = None,
    absent: Absent | None = None,
) -> MlirModule:
    """`to_torch` in a ``form`` that suits what comes after.

    ``absent`` takes the large inline weights, which then have no data in the module.
    """
    check_weights(weights)
    _check(exported)
    used = {node.name: node for node in exported.graph.nodes if node.op == "placeholder" and node.users}
    specs = exported.graph_signature.input_specs
    inputs = [spec for spec in specs if spec.kind not in _STATE]
    kept = [spec for spec in specs if spec.kind in _STATE and spec.arg.name in used]
    kind = InputKind.PARAMETER if weights == "inline" else InputKind.USER_INPUT
    names = {weight_name(used[spec.arg.name], spec.target): spec for spec in kept}
    state = [InputSpec(kind, spec.arg, name, None) for name, spec in names.items()]
    tensors = {name: _tensor(exported, str(spec.target or spec.arg.name)) for name, spec in names.items()}
    signature = ExportGraphSignature([*inputs, *state], exported.graph_signature.output_specs)
    view = _ProgramView(exported.graph, signature, tensors, {}, exported.range_constraints)
    context = new_context()
    try:
        importer = CoreImporter(context, form, absent)
        with context:
            function = importer.import_program(
                view, func_name=func_name, import_symbolic_shape_expressions=symbolic_shapes
            )
            arguments = [spec.arg.name for spec in inputs if not isinstance(spec.arg, ConstantArgument)]
            named = [(INPUT_ATTRIBUTE, name) for name in input_names or arguments]
            first = len(named)
            if weights != "inline":
                named += [(WEIGHT_ATTRIBUTE, name) for name in names]
            name_arguments(function, named)
            if weights == "irpa":
                make_parameters(importer.module, function, dict(enumerate(names, first)))
        _verify(importer.module)
    except NotCarriedError as error:
        raise Refusal(finding_at(error.node, str(error), "the torch dialect")) from error
    return MlirModule(
        importer.module,
        dialect="torch",
        weights=tensors if weights in FILE_SUFFIXES else None,
        stored=weights,
        referenced=list(tensors.values()) if weights == "inline" else (),
        findings=[
            Finding("O2M-H004", f"left out: {message}", severity=Severity.WARNING) for message in importer.left_out
        ],
    )


def _tensor(exported: ExportedProgram, name: str) -> torch.Tensor:
    value = exported.state_dict.get(name)
    if value is None:
        value = exported.constants.get(name)
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
        raise refuse("O2M-H003", f"the program has no data for its weight {name!r}", case=name)
    return value


def _check(exported: ExportedProgram) -> None:
    """Refuse, all at once, dtypes that the torch dialect's passes do not know, and programs that change state."""
    findings = []
    for spec in exported.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            findings.append(Finding("O2M-H001", "the program changes its own state", case=str(spec.kind.name)))
    for graph in graphs_of(exported):
        for node in graph.nodes:
            values = node.meta.get("val")
            for value in values if isinstance(values, list | tuple) else [values]:
                if isinstance(value, torch.Tensor) and value.dtype not in ELEMENT_TYPES:
                    findings.append(finding_at(node, f"it has no {value.dtype}", "the torch dialect", str(value.dtype)))
                    break
    if findings:
        raise Refusal(findings)


def graphs_of(exported: ExportedProgram) -> Iterator[torch.fx.Graph]:
    """The program's graph and those of its sub-programs."""
    yield exported.graph
    for name, module in exported.graph_module.named_modules():
        if name and isinstance(module, torch.fx.GraphModule):
            yield module.graph


def finding_at(node: torch.fx.Node, reason: str, who: str, case: str = "") -> Finding:
    """O2M-H001 at ``node``."""
    name = str(node.target) if node.op == "call_function" else node.op
    place = NodeRef(place_of_node(node).onnx, name, domain="core")
    return Finding("O2M-H001", f"{who} cannot carry {name}: {reason}", case=case or name, node=place)


def _verify(module: Any) -> None:
    with collecting(module.context) as reports:
        try:
            valid = module.operation.verify()
        except ir.MLIRError:
            valid = False
    if not valid:
        errors = reports or [Report("the module does not verify", None)]
        nodes = [None if error.place is None else NodeRef(error.place.onnx, error.place.core) for error in errors]
        raise Refusal(Finding("O2M-H001", e.message, node=node) for e, node in zip(errors, nodes, strict=True))
