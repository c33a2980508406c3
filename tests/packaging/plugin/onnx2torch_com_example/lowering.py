"""How the primitive of this package becomes linalg: output row i is input row i // times."""

from __future__ import annotations

from torch.fx import Node
from torch_mlir import ir

from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.operand import Operand
from onnx2torch_mlir.lowering.pointwise import elementwise
from onnx2torch_mlir.lowering.registry import rule


@rule("com_example.stretch.default")
def stretch(ctx: Context, node: Node, x: Operand, times: int) -> Operand:
    """One linalg.generic over the result, which reads the input where it has to."""
    out, b = ctx.spec(node), ctx.b

    def element() -> ir.Value:
        row, *others = (b.iteration(axis) for axis in range(out.rank))
        return ctx.at(x, [b.same("arith.divsi", row, b.idx(times)), *others])

    return elementwise(ctx, out, [], element)
