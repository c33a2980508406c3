"""The graph around a node, for operators whose attributes name values of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Refusal, Severity, refuse

if TYPE_CHECKING:
    from onnx2torch_mlir.conversion.driver import GraphConverter


@dataclass(frozen=True)
class EnclosingGraph:
    """The graph that ``node`` stands in, as its converter sees it (reserved keyword ``enclosing``)."""

    converter: GraphConverter
    node: ir.Node
    place: str

    def function(self, inputs: Sequence[str], output: str) -> Callable[[ProgramBuilder, Sequence[Value]], Value]:
        """The value named ``output`` as a function of the values named ``inputs``; others keep their values.

        Raises:
            Refusal: O2M-C005 where a name is unknown; what calls raise are the findings of the nodes between.
        """
        starts = [self._find(name) for name in inputs]
        end = self._find(output)
        between = self._between(starts, end)

        def convert(g: ProgramBuilder, values: Sequence[Value]) -> Value:
            outer = self.converter
            inner = type(outer)(g, outer.table, outer.ledger, outer.opsets)
            inner.values = outer.values | dict(zip(starts, values, strict=True))
            inner.nodes(between, f"{self.place}/{self.node.name}")
            errors = [finding for finding in inner.findings if finding.severity is Severity.ERROR]
            if errors:
                raise Refusal(errors)
            result = inner.value(end)
            if not isinstance(result, Value):
                raise refuse("O2M-C008", f"{output} is no tensor", case=output)
            return result

        return convert

    def _find(self, name: str) -> ir.Value:
        graph = self.node.graph
        if graph is not None:
            candidates = [*graph.inputs, *(value for node in graph for value in node.outputs)]
            if isinstance(graph, ir.Graph):
                candidates += graph.initializers.values()
            for value in candidates:
                if value.name == name:
                    return value
        raise refuse("O2M-C005", f"the graph has no value named {name}", case=name)

    def _between(self, starts: Sequence[ir.Value], end: ir.Value) -> list[ir.Node]:
        """The nodes that compute ``end`` from ``starts``, in the graph's order."""
        needed: set[ir.Node] = set()
        open_values = [end]
        while open_values:
            value = open_values.pop()
            node = value.producer()
            if value in starts or node is None or node in needed or node.graph is not self.node.graph:
                continue
            needed.add(node)
            open_values += [item for item in node.inputs if item is not None]
        graph = self.node.graph
        return [] if graph is None else [node for node in graph if node in needed]
