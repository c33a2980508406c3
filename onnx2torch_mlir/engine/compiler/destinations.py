"""A destination of its own for every operation that writes one.

Equal ``tensor.empty`` and equal fills become one by common-subexpression elimination, so that a network's layers share what
they write into. Bufferization would then compare each of them with all others (the square of the depth), copy a filled buffer
where filling another does, and keep it alive from the first layer to the last. A loop that carries an empty tensor twice would
write both to the same place: nobody reads it, so that bufferization sees nothing in the way.
"""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.walks import functions, made_by, nested

_INITIAL = ("linalg.fill", "tensor.cast", "tensor.empty")
"""What makes a destination; fills first, because each of their copies writes a ``tensor.empty``, and so do casts of one."""

_CARRIERS = ("scf.for", "scf.while", "tensor.cast")


def separate(module: ir.Module) -> None:
    """Copy what makes a destination, so that each operation of the same block that writes into it has its own.

    One of another block that writes into it twice gets two.
    """
    for function in functions(module):
        for name in _INITIAL:
            for operation in nested(function):
                if operation.name == name and len(operation.results) == 1 and _is_initial(operation):
                    _separate(operation)


def _is_initial(operation: ir.Operation) -> bool:
    return operation.name != "tensor.cast" or made_by(operation.operands[0], "tensor.empty") is not None


def _separate(made: ir.Operation) -> None:
    first = True
    writers: set[ir.Operation] = set()
    for use in list(made.results[0].uses):
        user, position = use.owner.operation, use.operand_number
        writes = _writes(user, position)
        if user.block != made.block and writes and user in writers:
            with ir.InsertionPoint(made), made.location:
                user.operands[position] = made.clone().operation.results[0]
            continue
        writers |= {user} if writes else set()
        if user.block != made.block or not writes:
            # Inside a loop, a destination from outside may serve every turn.
            first = False
            continue
        if first:
            first = False
            continue
        with ir.InsertionPoint(user), made.location:
            user.operands[position] = made.clone().operation.results[0]


def _writes(operation: ir.Operation, position: int) -> bool:
    """Whether operand ``position`` is what ``operation`` writes its result into."""
    if operation.name == "tensor.insert_slice":
        return position == 1
    if operation.name in _CARRIERS:
        return True
    if not operation.name.startswith("linalg.") or "operandSegmentSizes" not in operation.attributes:
        return False
    return position >= int(next(iter(operation.attributes["operandSegmentSizes"])))
