"""Loops of a few turns that are not to be unrolled: innermost ones over dense memory, and those around long ones.

LLVM unrolls a loop of up to some thirty turns before its vectorizer sees it. That then takes the loop around it, whose turns
lie far apart, and gathers and scatters numbers that lie side by side: a bias that is added to 32 channels of each pixel takes
five times as long. A loop over strided memory gains by being unrolled. Of a loop around a long one (rows that are summed up)
it makes copies of the long one, each with its vectors and their rests: a tenth of a network's machine code, and no faster.
"""

from __future__ import annotations

from collections.abc import Container

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import FIRST_INDEX, constant_of, loops_of, nested

_MOST = 64
"""Turns from which on LLVM would not unroll a loop."""
_KEPT = "#llvm.loop_annotation<unroll = <disable = true>>"


def mark(module: ir.Module, kernels: Container[str]) -> None:
    """Say it of such loops in the functions ``kernels``; the branch that a loop becomes carries what is asked of LLVM."""
    for loop in loops_of(module, kernels):
        if "loop_annotation" not in loop.attributes and (_is_short(loop) or _is_around_long(loop)):
            loop.attributes["loop_annotation"] = ir.Attribute.parse(_KEPT, context=module.context)


def _turns(loop: ir.Operation) -> float | None:
    """How many, of a loop of steps of one, if that is known."""
    first, end, step = (constant_of(value) for value in list(loop.operands)[:3])
    return None if first is None or end is None or step != 1 else end - first


def _is_around_long(loop: ir.Operation) -> bool:
    """Whether the loop has few turns, and one inside of it more than LLVM would unroll."""
    turns = _turns(loop)
    if turns is None or turns > _MOST:
        return False
    inside = [_turns(one) for one in nested(loop) if one.name == "scf.for"]
    return any(length is None or length > _MOST for length in inside)


def _is_short(loop: ir.Operation) -> bool:
    """Whether the loop is inside of another one, has more turns than half a vector and few, and is over dense memory."""
    turns = _turns(loop)
    if turns is None or len(loop.results) or not of_host().lanes // 2 < turns <= _MOST:
        return False
    if loop.parent.name not in ("scf.for", "scf.parallel") or any(len(one.regions) for one in nested(loop)):
        return False
    turn = loop.regions[0].blocks[0].arguments[0]
    return all(_is_dense(use.owner.operation, use.operand_number) for use in turn.uses)


def _is_dense(user: ir.Operation, position: int) -> bool:
    """Whether what uses a turn's number, at this operand, reads or writes neighbours in neighbouring turns."""
    before = FIRST_INDEX.get(user.name)
    if before is None or position < before:
        return False
    strides, _ = ir.MemRefType(user.operands[before - 1].type).get_strides_and_offset()
    return strides[position - before] == 1
