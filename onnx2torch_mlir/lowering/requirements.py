"""Where symbols come from and what must hold between them: the inputs' dims and the ShapeEnv's run-time assertions."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch.export import ExportedProgram

from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand, Spec


def input_symbols(specs: Sequence[Spec]) -> frozenset[sympy.Symbol]:
    """Every symbol that stands in a dim of an input."""
    return frozenset(s for spec in specs for d in spec.shape if isinstance(d, sympy.Expr) for s in d.free_symbols)


def bind_dims(ctx: Context, operands: Sequence[Operand]) -> None:
    """Bind the symbols that are dims of ``operands``: bare ones, and those that one multiple determines."""
    b = ctx.b
    products = []
    for operand in operands:
        for axis, dim in enumerate(operand.shape):
            if isinstance(dim, sympy.Symbol) and dim not in ctx.sizes.bound:
                ctx.sizes.bind(dim, b.make("tensor.dim", b.index, operand.value, b.idx(axis)))
            elif isinstance(dim, sympy.Mul):
                products.append((operand, axis, dim))
    for operand, axis, dim in products:
        factor, rest = dim.as_coeff_Mul()
        if isinstance(rest, sympy.Symbol) and rest not in ctx.sizes.bound and factor.is_Integer:
            size = b.make("tensor.dim", b.index, operand.value, b.idx(axis))
            ctx.sizes.bind(rest, b.same("arith.floordivsi", size, b.idx(int(factor))))


class Requirements:
    """The run-time assertions that shape inference deferred; each is emitted once all its symbols are bound."""

    def __init__(self, ctx: Context, exported: ExportedProgram) -> None:
        self.pending: list[tuple[sympy.Basic, str]] = []
        shape_env = _shape_env(exported)
        if shape_env is not None:
            seen = set()
            for assertions in shape_env.deferred_runtime_asserts.values():
                for assertion in assertions:
                    expr = shape_env.replace(assertion.expr)
                    if expr not in seen and not _holds(expr):
                        seen.add(expr)
                        self.pending.append((expr, f"{expr} must hold"))
        self._count = -1
        self.after_binding(ctx)

    def after_binding(self, ctx: Context) -> None:
        """Emit the assertions whose symbols are now all known."""
        if not self.pending or len(ctx.sizes.bound) == self._count:
            return
        self._count = len(ctx.sizes.bound)
        ready = [p for p in self.pending if ctx.sizes.knows(p[0])]
        self.pending = [p for p in self.pending if p not in ready]
        for condition, message in ready:
            ctx.require(condition, message)


def _holds(expr: sympy.Basic) -> bool:
    """Whether a relation is true of all sizes, given that sizes are not negative."""
    sizes = {s: sympy.Symbol(s.name, integer=True, nonnegative=True) for s in expr.free_symbols}
    return bool(expr.subs(sizes) == sympy.true)


def _shape_env(exported: ExportedProgram) -> torch.fx.experimental.symbolic_shapes.ShapeEnv | None:
    for node in exported.graph.nodes:
        value = node.meta.get("val")
        mode = getattr(value, "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            shape_env: torch.fx.experimental.symbolic_shapes.ShapeEnv = mode.shape_env
            return shape_env
    return None
