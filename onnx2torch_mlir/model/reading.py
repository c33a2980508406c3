"""Reading a model: open, check, normalize, hand over to onnx_ir."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx2torch_mlir.diagnostics import Finding, Refusal, Severity, refuse
from onnx2torch_mlir.model.external_data import ExternalFiles
from onnx2torch_mlir.model.function_checks import all_nodes, check_functions
from onnx2torch_mlir.model.graph_checks import GraphChecker
from onnx2torch_mlir.model.normalization import Normalizer
from onnx2torch_mlir.model.opsets import NEWEST_IR_VERSION, add_implied, read_imports
from onnx2torch_mlir.model.places import graphs_in, locate
from onnx2torch_mlir.model.sources import Slim, Source, all_attributes, first_line, for_each_tensor, open_source
from onnx2torch_mlir.model.stored_lists import place_lists
from onnx2torch_mlir.model.tensor_checks import TensorChecker
from onnx2torch_mlir.model.text_checks import check_text
from onnx2torch_mlir.model.types import LoadedModel, Report, value_type
from onnx2torch_mlir.model.weights import Array, MappedTensor, array, buffer_tensor, sparse_tensor


def read(
    source: Source, *, base_dir: str | os.PathLike[str] | None = None, keep_overridable: Collection[str] = ()
) -> LoadedModel:
    """Read and check an ONNX model; its weights stay where they are.

    ``source`` is a path, the bytes of a model, an onnx.ModelProto or an onnx_ir.Model; none is changed.
    ``base_dir`` is the folder of external data: by default that of the path. Initializers that are inputs too are
    constants, unless ``keep_overridable`` names them: then they are run-time inputs and their contents are dropped.

    Models of IR version 1 to 14 and every opset of ONNX are read, also such that onnxruntime loads and onnx.checker
    rejects: nodes in any order, repeated equal opset imports, missing types, dims that are -1.

    Raises:
        Refusal: with *all* findings of the model, where one of them is an error; O2M-U001 where ``keep_overridable``
            names something else.
        TypeError: where ``source`` is of another type.
    """
    marker = uuid.uuid4().hex
    slim = open_source(source, marker)
    folder = Path(base_dir) if base_dir is not None else slim.path.parent if slim.path is not None else None
    reader = _Reader(slim, ExternalFiles(folder, slim.path))
    try:
        return reader.read(keep_overridable, folder)
    except Refusal:
        raise
    except Exception as error:  # what onnx, onnx_ir or protobuf raise on a model that no check above foresaw
        reason = f"The model cannot be loaded: {type(error).__name__}: {first_line(error)}."
        raise refuse("O2M-R004", reason) from error


def overridden(source: Source, names: Collection[str]) -> tuple[LoadedModel, dict[str, Array]]:
    """The model with the overridable initializers ``names`` as run-time inputs, and their contents, by name.

    Raises:
        Refusal: as `read`.
    """
    kept = read(source, keep_overridable=names)
    held = read(source).ir.graph.initializers
    return kept, {name: array(tensor) for name in names if (tensor := held[name].const_value) is not None}


class _Reader:
    def __init__(self, slim: Slim, files: ExternalFiles) -> None:
        self.slim = slim
        self.files = files
        self.findings: list[Finding] = list(slim.findings)

    def read(self, keep: Collection[str], folder: Path | None) -> LoadedModel:
        proto, report = self.slim.proto, self.findings.append
        opsets = self._check(proto, report)
        if any(finding.severity is Severity.ERROR for finding in self.findings):
            raise Refusal(_errors_first(self.findings))
        inputs = [value_type(value.name, value.type) for value in proto.graph.input]
        outputs = [value_type(value.name, value.type) for value in proto.graph.output]
        normalizer = Normalizer(self.slim.marker)
        overridable = normalizer.model(proto, keep)
        for name in keep:
            if name not in overridable:
                raise refuse("O2M-U001", f"{name!r} is no initializer that is an input too.", case=name)
        for function in proto.functions:
            normalizer.function(function)
            imports = read_imports(function.opset_import, function.name, lambda _: None)
            add_implied(imports, (node.domain for node in all_nodes(function.node)), lambda _: None)
            _write_imports(function, imports)
        _write_imports(proto, opsets)
        model = ir.serde.deserialize_model(proto)
        for_each_tensor(model, lambda tensor: self._place(tensor, normalizer.sparse))
        for attributes in all_attributes(model, graphs_in(model)):
            place_lists(attributes, self.slim.own, self.slim.marker)
        _finish(model, opsets)
        dropped = set(overridable) - set(keep)
        return LoadedModel(
            ir=model,
            path=self.slim.path,
            opsets=opsets,
            findings=tuple(self.findings),
            inputs=tuple(value for value in inputs if value.name not in dropped),
            outputs=tuple(outputs),
            overridable=tuple(overridable) if proto.ir_version >= 4 else (),
            base_dir=folder,
        )

    def _check(self, proto: onnx.ModelProto, report: Report) -> dict[str, int]:
        check_text(proto)
        version = proto.ir_version
        if not 1 <= version <= NEWEST_IR_VERSION:
            shown = f"IR version {version}" if proto.HasField("ir_version") else "no IR version"
            report(Finding("O2M-R006", f"The model has {shown}; known are 1 to {NEWEST_IR_VERSION}."))
        opsets = read_imports(proto.opset_import, "The model", report)
        if not proto.opset_import:
            if version < 3:
                opsets[""] = 1
            else:
                report(Finding("O2M-R007", "The model imports no opset.", hint="Set opset_import."))
        if not proto.HasField("graph"):
            report(Finding("O2M-R005", "The model has no graph."))
            return opsets
        if not proto.graph.output:
            report(Finding("O2M-R005", "The graph has no outputs.", hint="List the outputs in graph.output."))
        add_implied(opsets, (node.domain for node in all_nodes(proto.graph.node)), report)
        tensors = TensorChecker(self.files, self.slim.own, self.slim.marker, self.slim.given, report)
        GraphChecker(opsets, tensors, report).check_graph(proto.graph, "main")
        check_functions(proto, tensors, report)
        if proto.training_info:
            reason = "The model's training_info is left out; only its inference graph is read."
            report(Finding("O2M-R020", reason, severity=Severity.NOTE))
        return opsets

    def _place(self, tensor: ir.TensorProtocol, sparse: list[onnx.SparseTensorProto]) -> ir.TensorProtocol:
        """The tensor that stands for ``tensor``: mapped, viewed, or the one given."""
        if not isinstance(tensor, ir.ExternalTensor):
            return tensor
        location, name = str(tensor.location), tensor.name or ""
        shape, offset, length = tensor.shape, tensor.offset or 0, tensor.length or 0
        assert isinstance(shape, ir.Shape)
        if location in self.slim.given:
            return self.slim.given[location]
        if location.startswith(f"{self.slim.marker}:sparse:"):
            item = sparse[int(location.rpartition(":")[2])]
            values, indices = (
                self._place(ir.serde.deserialize_tensor(part), sparse) for part in (item.values, item.indices)
            )
            return sparse_tensor(values, indices, tuple(item.dims), name)
        if location != self.slim.marker:
            buffer, base_dir = self.files.contents(location), self.files.base_dir
        else:
            buffer = self.slim.own
            base_dir = None if self.slim.path is None else self.slim.path.parent
            location = "" if self.slim.path is None else self.slim.path.name
        assert not isinstance(buffer, Finding)
        if base_dir is None:
            return buffer_tensor(buffer[offset : offset + length], tensor.dtype, shape, name, tensor.doc_string)
        return MappedTensor(
            location,
            offset,
            length,
            tensor.dtype,
            shape=shape,
            name=name,
            base_dir=str(base_dir),
            buffer=buffer,
            doc_string=tensor.doc_string,
        )


def _errors_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.severity is not Severity.ERROR)


def _write_imports(proto: onnx.ModelProto | onnx.FunctionProto, opsets: dict[str, int]) -> None:
    del proto.opset_import[:]
    for domain, version in opsets.items():
        proto.opset_import.add(domain=domain, version=version)


def _finish(model: ir.Model, opsets: dict[str, int]) -> None:
    """Types of initializers from their tensors, versions and stored positions on nodes."""
    for graph in graphs_in(model):
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.type = ir.TensorType(value.const_value.dtype)
                value.shape = ir.Shape(value.const_value.shape.numpy())
    locate(model.graph, opsets, "main")
    for function in model.functions.values():
        locate(function.graph, dict(function.opset_imports), f"function {function.domain}::{function.name}")
