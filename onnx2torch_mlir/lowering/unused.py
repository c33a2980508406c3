"""What nothing needs after all: operands that a rule computed in another way."""

from __future__ import annotations

from torch_mlir import ir

_PURE = ("arith.", "linalg.", "math.", "tensor.")


def erase_unused(function: ir.Operation) -> None:
    """Erase the operations of a function's block that only compute what no other uses; those that may end the program stay.

    It is walked: to list a block's operations has Python load all that it knows of their dialects, a tenth of a second for
    linalg's.
    """
    (block,) = function.regions[0].blocks
    only_computes: list[tuple[ir.Operation, bool]] = []

    def look(operation: ir.Operation) -> ir.WalkResult:
        is_pure = operation.name.startswith(_PURE)
        if operation.block == block:
            only_computes.append((operation, is_pure))
        elif only_computes and (not is_pure or len(operation.regions)):
            # One that is in a body does more than compute, as one with a body of its own may.
            only_computes[-1] = only_computes[-1][0], False
        return ir.WalkResult.ADVANCE

    function.walk(look, ir.WalkOrder.PRE_ORDER)
    for operation, may_go in reversed(only_computes):
        if may_go and len(operation.results) and not any(list(result.uses) for result in operation.results):
            operation.erase()
