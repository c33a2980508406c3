"""The walk over an ONNX graph: every node is looked up, bound and converted; what fails is collected, not raised.

A node that cannot be converted leaves its outputs unknown, and nodes that use them are only looked up. So one run
reports every reason why a model does not convert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx2torch_mlir.conversion.binding import bind
from onnx2torch_mlir.conversion.border import form_of_type, type_of
from onnx2torch_mlir.conversion.continuation import continue_in_branches
from onnx2torch_mlir.conversion.declared import check_declared, check_inputs, check_schema
from onnx2torch_mlir.conversion.enclosing import EnclosingGraph
from onnx2torch_mlir.conversion.handlers import load_handler
from onnx2torch_mlir.conversion.tensors import torch_tensor
from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.composites import Anything
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, refuse
from onnx2torch_mlir.families.dtypes import narrow_element, torch_dtype
from onnx2torch_mlir.model import StoredList, function_body, value_type_of, values_captured
from onnx2torch_mlir.specs import Ledger, OperatorVersion, SpecTable
from onnx2torch_mlir.specs.row import Action

MAX_FUNCTION_DEPTH = 16


class Missing:
    """Stands for a value that a failed node should have produced."""


MISSING = Missing()
Known = Anything | Missing | None


@dataclass
class GraphConverter:
    """Converts the nodes of one model into one program."""

    builder: ProgramBuilder
    table: SpecTable
    ledger: Ledger
    opsets: Mapping[str, int]

    def __post_init__(self) -> None:
        self.findings: list[Finding] = []
        self.values: dict[ir.Value, Known] = {}
        self._depth = 0
        self.continued = 0

    def add_initializers(self, graph: ir.Graph) -> None:
        """Make every initializer of ``graph`` known; none is read."""
        for name, value in graph.initializers.items():
            if value.const_value is not None:
                self.values[value] = self._tensor(value.const_value, name or "")

    def nodes(self, nodes: Sequence[ir.Node], place: str, start: int = 0) -> None:
        """Convert ``nodes`` in order, from number ``start`` on."""
        for index in range(start, len(nodes)):
            before = len(self.findings)
            self._node(nodes[index], place, index)
            found = self.findings[before:]
            if found and continue_in_branches(self, nodes, index, place, found):
                self.findings[before:] = self.findings[before + len(found) :]
                return

    def value(self, value: ir.Value | None) -> Known:
        """What stands for an ONNX value."""
        return None if value is None else self.values.get(value, MISSING)

    # --- one node -------------------------------------------------------------------------------------------------

    def _node(self, node: ir.Node, place: str, index: int) -> None:
        reference = NodeRef(node.name or "", node.op_type, node.domain or "", None, place, index)
        try:
            with self.builder.converting(node.name or node.op_type):
                outputs = self._convert(node, reference)
        except Refusal as refusal:
            self.findings.extend(finding.at(self._located(node, reference)) for finding in refusal.findings)
            outputs = [MISSING] * len(node.outputs)
        except RecursionError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self.findings.append(Finding("O2M-C009", reason, node=self._located(node, reference)))
            outputs = [MISSING] * len(node.outputs)
        for value, output in zip(node.outputs, outputs, strict=False):
            if isinstance(output, Value) and value.name and not output.name:
                output.name = value.name
            self.values[value] = output

    def _located(self, node: ir.Node, reference: NodeRef) -> NodeRef:
        version = self._version(node)
        since = None if version is None else version.since_version
        return NodeRef(reference.name, reference.op_type, reference.domain, since, reference.place, reference.index)

    def _version(self, node: ir.Node) -> OperatorVersion | None:
        opset = node.version if node.version is not None else self.opsets.get(node.domain or "")
        return None if opset is None else self.ledger.version(node.domain or "", node.op_type, opset)

    def _convert(self, node: ir.Node, reference: NodeRef) -> Sequence[Known]:
        version = self._version(node)
        if version is None:
            raise self._unknown(node)
        row = self.table.find(version.domain, version.op, version.since_version)
        if row is not None and row.action is Action.REFUSE:
            raise refuse("O2M-C002", row.reason)
        if row is not None and row.action is Action.HOST:
            raise refuse("O2M-C011", row.reason)
        if row is None and not version.function:
            raise refuse(
                "O2M-C001",
                f"there is no conversion of {version}",
                hint="onnx2mlir coverage lists what converts; CONTRIBUTING.md shows how to add an operator",
            )
        inputs = [self.value(value) for value in node.inputs]
        if any(isinstance(value, Missing) for value in inputs):
            return [MISSING] * len(node.outputs)
        known = [value for value in inputs if not isinstance(value, Missing)]
        if row is None or row.action is Action.FUNCTION:
            outputs = self._expand(node, version, known, reference)
        else:
            wanted = tuple(bool(value.name) for value in node.outputs)
            attributes = {attr.name: self._attribute(attr, reference) for attr in node.attributes.values()}
            handler = load_handler(row.target)
            check_inputs(version, known)
            enclosing = EnclosingGraph(self, node, reference.place)
            result = bind(self.builder, handler, row, version, reference, known, attributes, wanted, enclosing)
            outputs = list(result) if isinstance(result, tuple | list) else [result]
            outputs = check_schema(version, known, outputs)
        self.findings.extend(
            finding.at(self._located(node, reference)) for finding in check_declared(node, outputs)
        )
        return [*outputs, *[None] * (len(node.outputs) - len(outputs))]

    def _unknown(self, node: ir.Node) -> Refusal:
        domain = node.domain or "ai.onnx"
        opset = node.version if node.version is not None else self.opsets.get(node.domain or "")
        if not self.ledger.knows(node.domain or "", node.op_type):
            return refuse("O2M-C001", f"{domain} has no operator {node.op_type}", case=domain)
        return refuse("O2M-C002", f"{node.op_type} does not exist yet in opset {opset} of {domain}")

    # --- parts ----------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: ir.TensorProtocol, name: str) -> Value | Missing:
        try:
            dtype = torch_dtype(int(tensor.dtype))
        except Refusal as refusal:
            reference = NodeRef(name, "initializer")
            self.findings.extend(finding.at(reference) for finding in refusal.findings)
            return MISSING
        shape = tuple(int(size) for size in tensor.shape)  # type: ignore[arg-type]
        value = self.builder.constant(name, dtype, shape, lambda: torch_tensor(tensor))
        value.element = narrow_element(int(tensor.dtype))
        return value

    def _attribute(self, attr: ir.Attr, reference: NodeRef) -> Any:
        if attr.type is ir.AttributeType.TENSOR:
            value = self._tensor(attr.value, attr.value.name or reference.name)
            if isinstance(value, Missing):
                raise refuse("O2M-C008", f"the element type of attribute {attr.name} is not supported", case=attr.name)
            return value
        if attr.type is ir.AttributeType.GRAPH:
            from onnx2torch_mlir.conversion.subgraphs import SubGraph

            return SubGraph(self, attr.value, f"{reference.place}/{reference.name}.{attr.name}")
        if attr.type is ir.AttributeType.TYPE_PROTO:
            return form_of_type(value_type_of(ir.Value(name="", type=attr.value.type, shape=attr.value.shape)))
        if attr.type in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
            return attr.value if isinstance(attr.value, StoredList) else list(attr.value)
        return attr.value

    def _expand(
        self, node: ir.Node, version: OperatorVersion, inputs: Sequence[Anything | None], reference: NodeRef
    ) -> list[Known]:
        if self._depth >= MAX_FUNCTION_DEPTH:
            raise refuse("O2M-R018", f"the function bodies of {node.op_type} are nested without an end")
        types = [type_of(getattr(value, "name", ""), value) for value in inputs]
        opset = node.version if node.version is not None else self.opsets.get(node.domain or "", 0)
        function = function_body(node.domain or "", node.op_type, opset, node, types)
        if function is None:
            raise refuse("O2M-C001", f"ONNX gives no function body for {version}")
        inner = GraphConverter(self.builder, self.table, self.ledger, dict(function.opset_imports))
        inner._depth = self._depth + 1
        for formal, value in zip(function.inputs, inputs, strict=False):
            inner.values[formal] = value
        captured = {value.name: self.value(value) for value in values_captured(node)}
        for formal in function.inputs[len(inputs) :]:
            inner.values[formal] = captured.get(formal.name)
        inner.nodes(list(function), f"{reference.place}/{reference.name}")
        if inner.findings:
            raise Refusal(inner.findings)
        return [inner.value(output) if output.name else None for output in function.outputs]


__all__ = ["MISSING", "GraphConverter", "Missing"]
