"""Which nodes of a model have to run on the host, and why."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx2torch_mlir.hosting.inference import holds_host_type
from onnx2torch_mlir.model import Kind, LoadedModel, ValueType, sub_graphs, value_type_of
from onnx2torch_mlir.specs import Ledger, Row, SpecTable
from onnx2torch_mlir.specs.row import Action

_STRING_ATTRIBUTES = ("value_string", "value_strings", "classlabels_strings", "keys_strings", "values_strings", "cats_strings")
"""Attributes that make a value of a node a tensor of strings."""

Types = Mapping[str, ValueType]


class Classifier:
    """Tells the nodes that run on the host, by the rows of ``table`` and by the types of values."""

    def __init__(self, loaded: LoadedModel, table: SpecTable, ledger: Ledger) -> None:
        self._loaded, self._table, self._ledger = loaded, table, ledger
        self._rows: dict[tuple[str, str, int | None], Row | None] = {}

    def may_need_host(self) -> bool:
        """Whether some part of the model hints at a host node: a scan without any inference, for the common no."""
        loaded = self._loaded
        if any(holds_host_type(value) for value in (*loaded.inputs, *loaded.outputs)):
            return True
        graphs = [loaded.ir.graph, *(function.graph for function in loaded.ir.functions.values())]
        return any(self._hints(graph) for graph in graphs)

    def reasons(self, types: Types) -> dict[ir.Node, str]:
        """The host nodes of the main graph, each with the reason; ``types`` are those of values, by name."""
        found: dict[ir.Node, str] = {}
        for node in self._loaded.ir.graph:
            reason = self._reason(node, types)
            if reason:
                found[node] = reason
        return found

    def _hints(self, graph: ir.Graph) -> bool:
        # The dtype of a sequence or an optional is that of its elements.
        if any(value.dtype is ir.DataType.STRING for value in (*graph.inputs, *graph.initializers.values())):
            return True
        for node in graph:
            if node.op_type == "Cast" and not node.domain and _is_string_cast(node):
                return True
            if self._row_reason(node):
                return True
            for attribute in node.attributes.values():
                if attribute.name in _STRING_ATTRIBUTES or _is_string_tensor(attribute):
                    return True
                if any(self._hints(inner) for inner in sub_graphs(attribute)):
                    return True
        return False

    def _reason(self, node: ir.Node, types: Types) -> str:
        if not self._ledger.knows(node.domain, node.op_type):
            return ""
        if reason := self._row_reason(node):
            return reason
        for value in (*node.inputs, *node.outputs):
            described = types.get(value.name) if value is not None and value.name else None
            described = described or (None if value is None else value_type_of(value))
            if described is not None and holds_host_type(described):
                assert value is not None
                return f"{value.name} {_kind_of(described)}"
        for attribute in node.attributes.values():
            for graph in sub_graphs(attribute):
                for inner in graph:
                    if reason := self._reason(inner, types):
                        return f"its {attribute.name} holds {inner.name} ({inner.op_type}): {reason}"
        return ""

    def _row_reason(self, node: ir.Node) -> str:
        opset = node.version if node.version is not None else self._loaded.opsets.get(node.domain)
        key = (node.domain, node.op_type, opset)
        if key not in self._rows:
            version = None if opset is None else self._ledger.version(node.domain, node.op_type, opset)
            row = None if version is None else self._table.find(version.domain, version.op, version.since_version)
            self._rows[key] = row if row is not None and (row.hosted or row.action is Action.HOST) else None
        row = self._rows[key]
        if row is None:
            return ""
        return row.host_reason({name: item.value for name, item in node.attributes.items() if not item.is_ref()})


def _is_string_cast(node: ir.Node) -> bool:
    attribute = node.attributes.get("to")
    return attribute is not None and not attribute.is_ref() and attribute.value in (int(ir.DataType.STRING), "STRING")


def _is_string_tensor(attribute: ir.Attr) -> bool:
    if attribute.is_ref() or attribute.type is not ir.AttributeType.TENSOR:
        return False
    return bool(attribute.value.dtype is ir.DataType.STRING)  # as_tensor would compare whole protocols


def _kind_of(described: ValueType) -> str:
    words = {Kind.MAP: "is a map", Kind.TENSOR: "is a tensor of strings"}
    if described.kind in words:
        return words[described.kind]
    inner = described.element
    while inner is not None and inner.element is not None and inner.kind is not Kind.MAP:
        inner = inner.element
    of = "maps" if inner is not None and inner.kind is Kind.MAP else "tensors of strings"
    return f"is a {described.kind} of {of}"
