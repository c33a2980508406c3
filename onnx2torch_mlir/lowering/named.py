"""Named parts: computed in a way of their own where their name is known, else by their own program."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from onnx2torch_mlir.core.named import name_of
from onnx2torch_mlir.core.suppressed_boxes import NAME
from onnx2torch_mlir.core.tree_ensembles import TreeForm, TreeTables
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.retype import bind_results, retyped
from onnx2torch_mlir.lowering.suppressed_boxes import suppressed_boxes
from onnx2torch_mlir.lowering.tree_ensemble import tree_ensemble


@rule("invoke_subgraph")
def invoke_subgraph(ctx: Context, node: Node, part: GraphModule, identifier: str, *operands: Any) -> tuple[Operand, ...]:
    """The results of a part."""
    specs = ctx.specs(node)
    form = TreeForm.of(name_of(identifier))
    if form is not None:
        return (tree_ensemble(ctx, specs[0], form, operands[0], TreeTables.of(form, operands[1:])),)
    if name_of(identifier) == NAME:
        return (suppressed_boxes(ctx, specs[0], *operands[:7]),)
    results = ctx.subgraph(part, operands)
    return bind_results(ctx, specs, [retyped(ctx, r, s).value for r, s in zip(results, specs, strict=True)])
