"""Tails that tiles do themselves: to sums in registers a number is added for each column, perhaps the element of another array
like the result, and what is smaller than a bound becomes the bound.

So go the bias of a layer, a branch that joins, and ReLU. Sums go to the tail's own result, and no function is called: to hand
them on through memory takes as long as four steps of a tile. What the text of tiles does about it is in plain_tail_text.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, llvm

from onnx2torch_mlir.engine.compiler.argument_words import stored
from onnx2torch_mlir.engine.compiler.contraction_tails import Follower, spread_of
from onnx2torch_mlir.engine.compiler.flatten import value_of
from onnx2torch_mlir.engine.compiler.nest_sizes import address
from onnx2torch_mlir.engine.compiler.plain_tail_text import BIAS, BOUND, JUMP, LINE, OTHER, STEP
from onnx2torch_mlir.engine.compiler.walks import constant_of, is_memref, made_by, pointer, root_of, word

_BYTES = 4
_OGT = 2
"""The predicate of ``arith.cmpf`` by which a bound takes the place of what is smaller, and NaN stays."""


@dataclass(frozen=True)
class Plain:
    """A plain tail: its result, what it adds, its bound, and how its rows lie."""

    out: ir.Value
    bias: ir.Value
    other: ir.Value | None
    bound: float
    lines: tuple[int, int, int]
    """Rows of a line, and elements from row to row, and from the last of a line to the next; or zeros."""


def plain(tail: Follower, batches: int) -> Plain | None:
    """The tail of sums that have so many dims of batches, if it is plain."""
    nest, (*kinds, kind) = tail.nest, tail.kinds
    *values, out = nest.operands
    if any(not is_memref(value.type) or ir.MemRefType(value.type).element_type != ir.F32Type.get() for value in (*values, out)):
        return None
    lines = _lines(out) if kind == "spread" else (0, 0, 0)
    if lines is None or (batches and kind == "spread") or sorted(kinds) not in _kinds_with(kind):
        return None
    block = nest.regions[0].blocks[0]
    roles = {role: position for position, role in enumerate(kinds)}
    other = roles.get(kind)
    if other is not None and (values[other].type != out.type or root_of(values[other]) == root_of(out)):
        return None
    given = list(block.arguments)
    terms = [given[roles[role]] for role in ("sums", "column")]
    value, bound = _bound(list(block.operations)[-1].operation.operands[0])
    if other is not None:
        value = _added(value, given[other])
    made = None if value is None else made_by(value, "arith.addf")
    if made is None or not _are(list(made.operands), terms):
        return None
    return Plain(out, values[roles["column"]], None if other is None else values[other], bound, lines)


def _kinds_with(kind: str) -> list[list[str]]:
    """What operands there may be beside a result of this kind."""
    return [sorted(["sums", "column"]), sorted(["sums", "column", kind])]


def _lines(out: ir.Value) -> tuple[int, int, int] | None:
    """How the rows of a strided array lie (`Plain.lines`), where that is known, and they are in lines at most."""
    groups = spread_of(out) or []
    if not 0 < len(groups) <= 2 or any(group.step is None for group in groups):
        return None
    first, last = groups[0], groups[-1]
    count, step, line_step = first.count, first.step, last.step
    if step is None or line_step is None:
        return None
    if len(groups) == 1:
        return 1, 0, step
    return None if count is None else (count, step, line_step - (count - 1) * step)


def _bound(value: ir.Value) -> tuple[ir.Value, float]:
    """The value, and what takes its place where it is smaller: minus infinity, if nothing does."""
    chosen = made_by(value, "arith.select")
    compared = None if chosen is None else made_by(chosen.operands[0], "arith.cmpf")
    if chosen is None or compared is None or ir.IntegerAttr(compared.attributes["predicate"]).value != _OGT:
        return value, -math.inf
    _, bound, inner = chosen.operands
    number = constant_of(bound)
    if number is None or list(compared.operands) != [bound, inner]:
        return value, -math.inf
    return inner, float(number)


def _added(value: ir.Value, term: ir.Value) -> ir.Value | None:
    """What the term is added to."""
    made = made_by(value, "arith.addf")
    operands = [] if made is None else list(made.operands)
    rest = [operand for operand in operands if operand != term]
    return rest[0] if len(operands) == 2 and len(rest) == 1 else None


def _are(values: Sequence[ir.Value], terms: Sequence[ir.Value]) -> bool:
    """Whether the values are the two terms, in any order."""
    first, second = values
    return (first == terms[0] and second == terms[1]) or (first == terms[1] and second == terms[0])


@contextmanager
def handed_on(tail: Plain) -> Iterator[list[ir.Value]]:
    """What the driver's call, in the block, hands on instead of a tail (`tail_text.ARGUMENTS`): words without a function."""
    nothing = llvm.ZeroOp(pointer()).result
    out = address(tail.out)
    far = value_of(0)
    if tail.other is not None:
        far = arith.SubIOp(*(llvm.PtrToIntOp(word(), place).result for place in (address(tail.other), out))).result
    bound = arith.ConstantOp(ir.F32Type.get(), tail.bound).result
    line, step, jump = tail.lines
    stack = llvm.StackSaveOp(pointer()).result
    known = {BIAS: address(tail.bias), BOUND: bound, OTHER: far}
    known |= {LINE: value_of(line), STEP: value_of(step * _BYTES), JUMP: value_of(jump * _BYTES)}
    yield [nothing, nothing, stored([known[number] for number in sorted(known)])]
    llvm.StackRestoreOp(stack)
