"""Named parts: a sub-program that says what it computes, which a backend may take as a whole.

The part is a call of ``torch.ops.higher_order.invoke_subgraph``; its sub-program is made of primitives and is the meaning.
Eager PyTorch and every hand-off run that. A lowering that knows the name may compute the same in its own way from the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.shapes import TensorType
from onnx2torch_mlir.core.subprograms import SubProgramBuilder
from onnx2torch_mlir.core.values import Value

Part = Callable[[ProgramBuilder, list[Value]], Value]


def named_part(g: ProgramBuilder, name: str, operands: Sequence[Value], body: Part) -> Value:
    """``body(operands)`` as a part called ``name``; it gives one tensor.

    What the body takes from outside follows the operands. Source: `torch._higher_order_ops.invoke_subgraph`.
    """
    inner = SubProgramBuilder(g)
    with g.table.inside():
        taken = [
            inner.parameter(f"operand{i}", TensorType(value.dtype, value.shape, value.element))
            for i, value in enumerate(operands)
        ]
        for parameter, value in zip(taken, operands, strict=True):
            parameter.contiguous = value.contiguous
        result = body(inner, taken)
        type_ = TensorType(result.dtype, tuple(map(g.simplify, result.shape)), result.element)
        module = inner.module([result])
    # PyTorch takes parts of one identifier for the same sub-program.
    identifier = f"{name}#{g.origin}#{sum(1 for _ in g.modules.children())}"
    nodes = [*map(g.node_of, operands), *inner.captured]
    operator = torch.ops.higher_order.invoke_subgraph
    return g.emit_higher_order(operator, "part", [module], [identifier, *nodes], (type_,))[0]


def name_of(identifier: str) -> str:
    """The name of a part."""
    return identifier.partition("#")[0]
