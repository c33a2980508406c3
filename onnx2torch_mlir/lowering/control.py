"""Control flow: torch's cond, while_loop and scan as scf; their sub-programs are lowered in place by the same rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from torch.fx import GraphModule, Node
from torch_mlir import ir

from onnx2torch_mlir.diagnostics import refuse
from onnx2torch_mlir.lowering.context import Context, spec_of
from onnx2torch_mlir.lowering.operand import Operand, Spec
from onnx2torch_mlir.lowering.registry import rule
from onnx2torch_mlir.lowering.retype import bind_results, retyped
from onnx2torch_mlir.lowering.slicing import extract_slice, insert_slice


def _condition(ctx: Context, predicate: Any) -> ir.Value:
    if isinstance(predicate, Operand):
        return ctx.at(predicate, [ctx.b.idx(0)] * predicate.rank)
    return ctx.sizes.condition(sympy.sympify(predicate))


@rule("cond")
def cond(
    ctx: Context,
    node: Node,
    predicate: Any,
    true_graph: GraphModule,
    false_graph: GraphModule,
    operands: Sequence[Any] = (),
) -> tuple[Operand, ...]:
    """One of two sub-programs (scf.if)."""
    specs = ctx.specs(node)
    types = [ctx.b.tensor_type(s.dtype, s.shape) for s in specs]

    def values(graph: GraphModule) -> list[ir.Value]:
        results = ctx.subgraph(graph, operands)
        return [retyped(ctx, r, t).value for r, t in zip(results, specs, strict=True)]

    made = ctx.branch(_condition(ctx, predicate), types, lambda: values(true_graph), lambda: values(false_graph))
    return bind_results(ctx, specs, made)


@rule("while_loop")
def while_loop(
    ctx: Context,
    node: Node,
    cond_graph: GraphModule,
    body_graph: GraphModule,
    carried: Sequence[Any],
    additional: Sequence[Any] = (),
) -> tuple[Operand, ...]:
    """Repeats a sub-program while another gives true (scf.while); carried tensors keep their types."""
    specs = ctx.specs(node)
    for value in carried:
        if not isinstance(value, Operand):
            raise refuse("O2M-L002", "a loop carries a number; only tensors are carried", case="carried_inputs")
    initial = [retyped(ctx, c, s) for c, s in zip(carried, specs, strict=True)]

    def operands(values: Sequence[ir.Value]) -> list[Any]:
        return [
            *(Operand(s.dtype, s.shape, v) for s, v in zip(_carried_specs(specs, body_graph), values, strict=True)),
            *additional,
        ]

    def test(*values: ir.Value) -> ir.Value:
        return _condition(ctx, ctx.subgraph(cond_graph, operands(values))[0])

    def body(*values: ir.Value) -> list[ir.Value]:
        results = ctx.subgraph(body_graph, operands(values))
        return [retyped(ctx, r, s).value for r, s in zip(results, specs, strict=True)]

    return bind_results(ctx, specs, ctx.repeat_while([c.value for c in initial], test, body))


def _carried_specs(specs: Sequence[Spec], body: GraphModule) -> list[Spec]:
    nodes = [n for n in body.graph.nodes if n.op == "placeholder"][: len(specs)]
    return [spec_of(n.meta["val"]) if "val" in n.meta else s for n, s in zip(nodes, specs, strict=True)]


@rule("scan")
def scan(
    ctx: Context,
    node: Node,
    combine: GraphModule,
    init: Sequence[Operand],
    xs: Sequence[Operand],
    additional: Sequence[Any] = (),
) -> tuple[Operand, ...]:
    """A sub-program along dim 0 of ``xs`` (scf.for): its results are the next state and one slice of each output."""
    specs = ctx.specs(node)
    states, outputs = specs[: len(init)], specs[len(init) :]
    if not xs:
        raise refuse("O2M-L002", "a scan without inputs has no length", case="xs")
    length = xs[0].shape[0]
    for x in xs:
        ctx.require_equal(x.shape[0], length, "inputs of a scan have one length")
    for spec in outputs:
        ctx.require_equal(spec.shape[0], length, "outputs of a scan have the length of its inputs")
    starts = [retyped(ctx, s, spec) for s, spec in zip(init, states, strict=True)]
    targets = [ctx.empty(s.dtype, s.shape) for s in outputs]

    def body(i: ir.Value, *values: ir.Value) -> list[ir.Value]:
        position = sympy.Dummy("i", integer=True)
        ctx.sizes.bind(position, i)
        state = [Operand(s.dtype, s.shape, v) for s, v in zip(states, values, strict=False)]
        slices = [
            extract_slice(ctx, x, [position, *[0] * (x.rank - 1)], [1, *x.shape[1:]], [1] * x.rank, x.shape[1:]) for x in xs
        ]
        results = ctx.subgraph(combine, [*state, *slices, *additional])
        new_state = [retyped(ctx, r, s).value for r, s in zip(results, states, strict=False)]
        filled = []
        for result, spec, target in zip(results[len(states) :], outputs, values[len(states) :], strict=True):
            row = retyped(ctx, result, Spec(spec.dtype, spec.shape[1:]))
            whole = Operand(spec.dtype, spec.shape, target)
            filled.append(_insert_row(ctx, row, whole, position))
        return [*new_state, *filled]

    made = ctx.loop(ctx.sizes.value(length), [*(s.value for s in starts), *targets], body)
    return bind_results(ctx, specs, made)


def _insert_row(ctx: Context, row: Operand, whole: Operand, position: sympy.Symbol) -> ir.Value:
    """``tensor.insert_slice`` of a slice without its leading dim of size 1."""
    return insert_slice(ctx, row, whole, [position, *[0] * row.rank], sizes=[1, *row.shape], strides=[1] * whole.rank).value
