"""What comes after an If whose branches give values of different ranks: converted once inside each branch.

A value of a program has one rank. Where the branches of an If disagree (exporters write a squeeze of an axis that may have
size 1 so), everything after it in the graph becomes part of both branches, and only the graph's outputs are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.carrying import branch
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, Severity

if TYPE_CHECKING:
    from onnx2torch_mlir.conversion.driver import GraphConverter

LIMIT = 4
"""As many Ifs may be continued one inside the other; each doubles what comes after it."""


def continue_in_branches(
    converter: GraphConverter, nodes: Sequence[ir.Node], index: int, place: str, findings: Sequence[Finding]
) -> bool:
    """Convert ``nodes`` after number ``index`` inside its branches, if ``findings`` say that they give different ranks.

    False, with nothing changed, for any other node, and where what follows cannot be joined either.
    """
    node = nodes[index]
    if node.op_type != "If" or not any(_is_of(finding, place, index) for finding in findings):
        return False
    condition = converter.value(node.inputs[0])
    outputs = _outputs(node, nodes[index + 1 :])
    if not isinstance(condition, Value) or outputs is None or converter.continued >= LIMIT:
        return False
    reference = NodeRef(node.name or "", node.op_type, place=place, index=index)
    graphs = [converter._attribute(node.attributes[name], reference) for name in ("then_branch", "else_branch")]
    before = len(converter.findings)
    g = converter.builder
    converter.continued += 1

    def body(graph: Any) -> Any:
        def convert(b: ProgramBuilder, _: list[Any]) -> list[Any]:
            results = graph(b)
            converter.builder = b
            try:
                converter.values.update(zip(node.outputs, results, strict=False))
                converter.nodes(nodes, place, index + 1)
            finally:
                converter.builder = g
            found = converter.findings[before:]
            if any(finding.severity is Severity.ERROR for finding in found):
                raise Refusal(found)
            return [converter.value(output) for output in outputs]

        return convert

    try:
        with g.converting(node.name or node.op_type):
            joined = branch(g, g.reshape(condition, []), (body(graphs[0]), body(graphs[1])))
    except Refusal:
        del converter.findings[before:]
        return False
    finally:
        converter.continued -= 1
    converter.values.update(zip(outputs, joined, strict=True))
    return True


def _is_of(finding: Finding, place: str, index: int) -> bool:
    node = finding.node
    return finding.case == "ranks" and node is not None and (node.place, node.index) == (place, index)


def _outputs(node: ir.Node, rest: Sequence[ir.Node]) -> list[ir.Value] | None:
    """The outputs of the graph that ``node`` or one of ``rest`` makes."""
    if node.graph is None:
        return None
    made = {node, *rest}
    return [output for output in node.graph.outputs if output.producer() in made]
