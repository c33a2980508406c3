"""What nothing needs after all: operands that a rule computed in another way."""

from __future__ import annotations

from torch_mlir import ir

_PURE = ("arith.", "linalg.", "math.", "tensor.")


def erase_unused(block: ir.Block) -> None:
    """Erase the operations of a block that only compute what no other uses; those that may end the program stay."""
    for view in reversed(list(block.operations)):
        operation = view.operation
        if operation.name.startswith(_PURE) and len(operation.results) and not _is_needed(operation):
            operation.erase()


def _is_needed(operation: ir.Operation) -> bool:
    """Whether a result is used, or a body does more than compute, as one with a body of its own may."""
    inside = [view.operation for region in operation.regions for block in region.blocks for view in block.operations]
    only_computes = all(one.name.startswith(_PURE) and not len(one.regions) for one in inside)
    return not only_computes or any(list(result.uses) for result in operation.results)
