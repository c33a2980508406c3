"""What comes after an If whose branches give values of different ranks: converted once inside each branch.

A value of a program has one rank. Where the branches of an If disagree (exporters write a squeeze of an axis that may have
size 1 so), everything after it in the graph becomes part of both branches, and only the graph's outputs are joined. Where what
follows cannot be right after one of them (a weight does not fit its rank), the other one is taken, and that it has to be taken
is asserted when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import sympy
import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.carrying import Step, branch
from onnx2torch_mlir.core.subprograms import SubGraph
from onnx2torch_mlir.core.values import Value
from onnx2torch_mlir.diagnostics import Finding, NodeRef, Refusal, Severity

if TYPE_CHECKING:
    from onnx2torch_mlir.conversion.driver import GraphConverter

LIMIT = 4
"""As many Ifs may be continued one inside the other; each doubles what comes after it."""

CONTRADICTIONS = ("O2M-C006", "O2M-C007")
"""Findings that say that the model is wrong there, and not that something is not supported."""


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
    if not isinstance(condition, Value) or converter.continued >= LIMIT:
        return False
    reference = NodeRef(node.name or "", node.op_type, place=place, index=index)
    graphs = [converter._attribute(node.attributes[name], reference) for name in ("then_branch", "else_branch")]
    continuation = _Continuation(converter, node, graphs, lambda: converter.nodes(nodes, place, index + 1))
    g = converter.builder
    with g.converting(node.name or node.op_type):
        condition = g.reshape(condition, [])
        outputs = _outputs(node, nodes[index + 1 :])
        joined = outputs is not None and continuation.joined(g, condition, outputs)
        return joined or continuation.alone(g, condition, reference)


class _Continuation:
    """What follows an If, after either branch."""

    def __init__(
        self, converter: GraphConverter, node: ir.Node, graphs: Sequence[SubGraph], follow: Callable[[], None]
    ) -> None:
        self._converter = converter
        self._node = node
        self._graphs = graphs
        self._follow = follow
        self._refused: dict[int, Refusal] = {}

    def joined(self, g: ProgramBuilder, condition: Value, outputs: Sequence[ir.Value]) -> bool:
        """Both branches and what follows, each as one branch of the program, which gives ``outputs``."""
        converter = self._converter
        before = len(converter.findings)

        def body(branch_number: int) -> Step:
            def convert(b: ProgramBuilder, _: list[Any]) -> list[Any]:
                try:
                    self._in(b, branch_number)
                except Refusal as refusal:
                    self._refused[branch_number] = refusal
                    raise
                return [converter.value(output) for output in outputs]

            return convert

        converter.continued += 1
        try:
            values = branch(g, condition, (body(0), body(1)))
        except Refusal:
            del converter.findings[before:]
            return False
        finally:
            converter.continued -= 1
        converter.values.update(zip(outputs, values, strict=True))
        return True

    def alone(self, g: ProgramBuilder, condition: Value, reference: NodeRef) -> bool:
        """The other branch, where what follows contradicts itself after one; which is asserted not to be taken."""
        impossible = next((number for number, refusal in self._refused.items() if _contradictions(refusal)), None)
        if impossible is None:
            return False
        converter = self._converter
        before = len(converter.findings)
        finding = _contradictions(self._refused[impossible])[0]
        taken, other = ("true", "false") if impossible else ("false", "true")
        reason = f"after the branch if {other}, {finding.node}: {finding.reason}"
        number = g.item(g.cast(condition, torch.int64))
        g.require(sympy.Eq(number, impossible), f"{reference.name or 'If'}: its condition has to be {taken}; {reason}")
        try:
            self._in(g, 1 - impossible)
        except Refusal:
            del converter.findings[before:]
            return False
        hint = f"inputs for which the condition is {other} are refused when the program runs"
        converter.findings.append(Finding("O2M-C010", reason, hint, "branch", reference, Severity.WARNING))
        return True

    def _in(self, b: ProgramBuilder, branch_number: int) -> None:
        """Convert one branch, and what follows, into ``b``; what is found wrong is raised."""
        converter = self._converter
        before, g = len(converter.findings), converter.builder
        results = self._graphs[branch_number](b)
        converter.builder = b
        try:
            converter.values.update(zip(self._node.outputs, results, strict=False))
            self._follow()
        finally:
            converter.builder = g
        found = converter.findings[before:]
        if any(finding.severity is Severity.ERROR for finding in found):
            raise Refusal(found)


def _contradictions(refusal: Refusal) -> list[Finding]:
    return [item for item in refusal.findings if item.code in CONTRADICTIONS and item.severity is Severity.ERROR]


def _is_of(finding: Finding, place: str, index: int) -> bool:
    node = finding.node
    return finding.case == "ranks" and node is not None and (node.place, node.index) == (place, index)


def _outputs(node: ir.Node, rest: Sequence[ir.Node]) -> list[ir.Value] | None:
    """The outputs of the graph that ``node`` or one of ``rest`` makes."""
    if node.graph is None:
        return None
    made = {node, *rest}
    return [output for output in node.graph.outputs if output.producer() in made]
