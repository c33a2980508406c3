"""Whether nests may be done at the place of a nest before them, right after it: all they read is there, and nobody minds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.distinct_memory import distinct
from onnx2torch_mlir.engine.compiler.likeness import captured
from onnx2torch_mlir.engine.compiler.walks import is_memref, made_by, root_of, users

_PURE = (
    "arith.addi",
    "arith.constant",
    "arith.index_cast",
    "arith.muli",
    "arith.subi",
    "builtin.unrealized_conversion_cast",
    "memref.alloc",
    "memref.cast",
    "memref.collapse_shape",
    "memref.dim",
    "memref.expand_shape",
    "memref.get_global",
    "memref.reinterpret_cast",
    "memref.subview",
    "memref.transpose",
)
"""What may be done earlier than it is, for it neither reads nor writes memory and never fails."""


def may_follow(
    generic: ir.Operation, nests: Sequence[ir.Operation], sources: Sequence[ir.Value], left_out: Collection[ir.Value] = ()
) -> bool:
    """Whether ``nests``, which lie behind ``generic`` in its block in this order, may be done part by part right after it.

    ``generic`` reads the ``sources``. Buffers that are ``left_out`` are not looked at: nobody else uses them.
    """
    results = [root_of(_result(nest)) for nest in nests]
    sources = [root_of(value) for value in sources]
    touched = [{root_of(value) for value in nest.operands if is_memref(value.type)} - {*left_out} for nest in nests]
    for position, (nest, result) in enumerate(zip(nests, results, strict=True)):
        # Parts of the result are there before others of the sums, and of what comes before the nest.
        before = set().union(*touched[:position], sources)
        if any(not distinct(result, other) for other in before | (touched[position] - {result})):
            return False
        if [root_of(value) for value in nest.operands if is_memref(value.type)].count(result) != 1:
            return False
    return needed_before(generic, nests, left_out) is not None and all(
        _is_free(generic, nest, nests, roots) for nest, roots in zip(nests, touched, strict=True)
    )


def move_before(generic: ir.Operation, nests: Sequence[ir.Operation], left_out: Collection[ir.Value] = ()) -> None:
    """Move what the ``nests`` need before ``generic``, which they may follow."""
    for operation in needed_before(generic, nests, left_out) or ():
        operation.move_before(generic)


def needed_before(
    generic: ir.Operation, nests: Sequence[ir.Operation], left_out: Collection[ir.Value]
) -> list[ir.Operation] | None:
    """The allocations and views behind ``generic`` that the ``nests`` need, each after what it needs itself; None if they need
    something else that is made there."""
    found: dict[ir.Operation, None] = {}

    def see(values: Sequence[ir.Value]) -> bool:
        for value in values:
            made = made_by(value)
            if made is None or made in found or made.block != generic.block or not generic.is_before_in_block(made):
                continue
            if made.name not in _PURE or not see(list(made.operands)):
                return False
            found[made] = None
        return True

    used = [value for nest in nests for value in [*nest.operands, *captured(nest)]]
    return list(found) if see([value for value in used if root_of(value) not in left_out]) else None


def _result(nest: ir.Operation) -> ir.Value:
    return nest.operands[len(nest.operands) - 1]


def _is_free(generic: ir.Operation, nest: ir.Operation, nests: Sequence[ir.Operation], roots: set[ir.Value]) -> bool:
    """Whether nothing between, but for the other ``nests``, writes what ``nest`` touches, or reads what it writes."""
    result = root_of(_result(nest))
    for root in roots:
        for current in users(generic.block, root):
            if current in nests or current.name == "memref.dealloc":
                continue
            if not generic.is_before_in_block(current) or not current.is_before_in_block(nest):
                continue
            # What the result's memory held before may still be read until the nest is done.
            if root == result or not _only_reads(current, roots):
                return False
    return True


def _only_reads(operation: ir.Operation, touched: set[ir.Value]) -> bool:
    return operation.name == "linalg.generic" and root_of(_result(operation)) not in touched
