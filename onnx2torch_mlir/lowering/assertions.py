"""Conditions on the sizes of inputs, put into a lowered module whose caller does not check them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch_mlir import ir

from onnx2torch_mlir.core.signature import TensorSpec
from onnx2torch_mlir.lowering.context import Context
from onnx2torch_mlir.lowering.lowered import Check
from onnx2torch_mlir.lowering.requirements import bind_dims


def assert_dims(
    module: ir.Module, inputs: Sequence[TensorSpec], dims: Iterable[tuple[int, int, str]], checks: Iterable[Check]
) -> None:
    """Let @main begin with a ``cf.assert`` for each condition whose symbols its ``inputs`` bind.

    ``dims`` are inputs and axes whose declared size is computed from others, each with its message. The module's context and
    a location have to be entered.
    """
    block = ir.SymbolTable(module.operation)["main"].operation.regions[0].blocks[0]
    context = Context(frozenset(), _no_subgraphs)
    with ir.InsertionPoint.at_block_begin(block):
        values = list(block.arguments)[: len(inputs)]
        operands = [context.operand(value, spec.dtype, spec.shape) for value, spec in zip(values, inputs, strict=True)]
        bind_dims(context, operands)
        for number, axis, message in dims:
            size = inputs[number].shape[axis]
            if isinstance(size, int) or context.sizes.knows(size):
                given = context.b.make("tensor.dim", context.b.index, values[number], context.b.idx(axis))
                context.assert_true(context.b.compare("eq", given, context.sizes.value(size)), message)
        for check in checks:
            if context.sizes.knows(check.expression):
                context.assert_true(context.sizes.condition(check.expression), check.message)


def _no_subgraphs(*_: Any) -> Any:
    raise NotImplementedError("conditions on sizes have no subgraphs")
