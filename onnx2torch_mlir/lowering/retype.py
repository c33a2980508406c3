"""Values that enter or leave a branch or loop: another view of their sizes, and the symbols that are new there."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand, Spec


def retyped(ctx: Context, operand: Operand, declared: Spec) -> Operand:
    """``operand`` with the declared sizes; sizes that are not known to be equal are checked at run time."""
    if operand.shape == declared.shape:
        return operand
    for have, want in zip(operand.shape, declared.shape, strict=True):
        if isinstance(want, int) or ctx.sizes.knows(want):
            ctx.require_equal(have, want, "sizes of a value that enters or leaves a branch or loop")
    return Operand(declared.dtype, declared.shape, _cast(ctx, operand.value, declared))


def _cast(ctx: Context, value: ir.Value, declared: Spec) -> ir.Value:
    target = ctx.b.tensor_type(declared.dtype, declared.shape)
    return value if value.type == target else ctx.b.make("tensor.cast", target, value)


def bind_results(ctx: Context, specs: Sequence[Spec], values: Sequence[ir.Value]) -> tuple[Operand, ...]:
    """Results of a call; sizes that are first seen in them are theirs."""
    b = ctx.b
    for spec, value in zip(specs, values, strict=True):
        for axis, dim in enumerate(spec.shape):
            if not isinstance(dim, int) and not ctx.sizes.knows(dim):
                ctx.sizes.remember(dim, b.make("tensor.dim", b.index, value, b.idx(axis)))
    return tuple(Operand(s.dtype, s.shape, v) for s, v in zip(specs, values, strict=True))
