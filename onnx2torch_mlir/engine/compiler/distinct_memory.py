"""Whether two memrefs share memory, as far as the program's text proves that they do not."""

from __future__ import annotations

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.walks import ancestor_in, made_by, root_of

_BOUNDS = 3
"""Operands of a loop before those that it begins with."""


def distinct(one: ir.Value, other: ir.Value) -> bool:
    """Whether the program text proves that two roots (`root_of`) share no memory while both are in use."""
    return _are_distinct(one, other) or all(_are_distinct(a, b) for a in _origins(one) for b in _origins(other))


def _are_distinct(one: ir.Value, other: ir.Value) -> bool:
    if one == other:
        return False
    fresh_one, fresh_other = _made(one), _made(other)
    if fresh_one is not None and fresh_other is not None:
        return True
    # A buffer made in the function never is an argument of it or a constant; a loop's or branch's result may be anything that
    # is made before it.
    return _is_apart(fresh_one, other) or _is_apart(fresh_other, one)


def _origins(value: ir.Value) -> set[ir.Value]:
    """The roots that a root may stand for: of what a loop carries those that it begins with and those that turns hand on."""
    found, seen, pending = set[ir.Value](), set[ir.Value](), [value]
    while pending:
        root = root_of(pending.pop())
        if root in seen:
            continue
        seen.add(root)
        carried = _carried(root)
        pending += carried
        if not carried:
            found.add(root)
    return found


def _carried(value: ir.Value) -> list[ir.Value]:
    """What an argument of a loop's body is in its first turn and in the others; nothing for other values."""
    block = value.owner
    if not isinstance(block, ir.Block) or block.owner.name != "scf.for":
        return []
    number = ir.BlockArgument(value).arg_number - 1
    return [block.owner.operands[_BOUNDS + number], block.operations[len(block.operations) - 1].operands[number]]


def _made(value: ir.Value) -> ir.Operation | None:
    return made_by(value, "memref.alloc")


def _is_apart(fresh: ir.Operation | None, other: ir.Value) -> bool:
    """Whether a buffer, if it is one, is new where ``other`` is there already, or of this function where ``other`` is not."""
    return fresh is not None and (_is_outside(other) or _is_older(other, fresh))


def _is_outside(value: ir.Value) -> bool:
    # Arguments of @main come as pointers and are assembled by a cast.
    return made_by(value, "memref.get_global", "builtin.unrealized_conversion_cast") is not None


def _is_older(value: ir.Value, fresh: ir.Operation) -> bool:
    """Whether the value is there before the allocation ``fresh`` is done: what a loop carries into the turn it is in, say."""
    made = made_by(value)
    around = ancestor_in(value.owner if made is None else made.block, fresh)
    if around is None:
        return False
    return made is None or (made != around and made.is_before_in_block(around))
