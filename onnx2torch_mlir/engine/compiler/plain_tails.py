"""Tails that tiles do themselves: to sums in registers a number is added for each column or each row, or the element of another
array like the result, or both, and what is beyond a bound becomes the bound.

So go the bias of a layer, a branch that joins, ReLU and Clip. Sums go to the tail's own result, and no function is called: to
hand them on through memory takes as long as four steps of a tile. What the text of tiles does is in plain_tail_text.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, llvm

from onnx2torch_mlir.engine.compiler.argument_words import stored
from onnx2torch_mlir.engine.compiler.contraction_tails import Follower, spread_of
from onnx2torch_mlir.engine.compiler.flatten import value_of
from onnx2torch_mlir.engine.compiler.nest_sizes import address
from onnx2torch_mlir.engine.compiler.plain_tail_text import BIAS, BOUNDS, BY_ROWS, JUMP, LEAST, LINE, MOST, OTHER, STEP
from onnx2torch_mlir.engine.compiler.walks import constant_of, is_memref, made_by, pointer, root_of, word

_BYTES = 4
_OGT = 2
"""The predicate of ``arith.cmpf`` by which a bound takes the place of what is smaller, and NaN stays."""

Bounds = tuple[float, float]
"""What takes the place of smaller numbers, and of larger ones: infinities, where nothing does."""
_ALL = 1 << 40
"""More rows than there are, which are all of one line."""
_NO_BOUNDS = (-math.inf, math.inf)


@dataclass(frozen=True)
class Plain:
    """A plain tail: its result, what it adds, its bounds, and how its rows lie."""

    out: ir.Value
    bias: ir.Value | None
    other: ir.Value | None
    is_by_rows: bool
    """Whether what is added has a number for each row, not for each column."""
    bounds: Bounds
    lines: tuple[int, int, int]
    """Rows of a line, and elements from row to row, and from the last of a line to the next; or zeros."""

    @property
    def bound_count(self) -> int:
        """`plain_tail_text.BOUNDS`: that of ReLU is the least alone."""
        least, most = self.bounds
        return 2 if most < math.inf else int(least > -math.inf)


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
    given = dict(zip(kinds, block.arguments, strict=False))
    operands = dict(zip(kinds, values, strict=False))
    along = "row" if "row" in operands else "column"
    bias, other = operands.get(along), operands.get(kind)
    # The rows of batches are not counted on.
    if along == "row" and batches:
        return None
    if other is not None and (other.type != out.type or root_of(other) == root_of(out)):
        return None
    value, bounds = _bounded(list(block.operations)[-1].operation.operands[0])
    for role in (kind, along):
        if role in given and value is not None:
            value = _added(value, given[role])
    return Plain(out, bias, other, along == "row", bounds, lines) if value is not None and value == given["sums"] else None


def _kinds_with(kind: str) -> list[list[str]]:
    """What operands there may be beside a result of this kind."""
    return [sorted(["sums", *along, *other]) for along in ([], ["column"], ["row"]) for other in ([], [kind])]


def _lines(out: ir.Value) -> tuple[int, int, int] | None:
    """How the rows of a strided array lie (`Plain.lines`), where that is known, and they are in lines at most."""
    groups = spread_of(out) or []
    if not 0 < len(groups) <= 2:
        return None
    first, last = groups[0], groups[-1]
    count, step, line_step = first.count, first.step, last.step
    if step is None or line_step is None:
        return None
    if len(groups) == 1:
        return _ALL, step, step
    return None if count is None else (count, step, line_step - (count - 1) * step)


def _bounded(value: ir.Value) -> tuple[ir.Value | None, Bounds]:
    """The value before bounds take its place; None where the lower one would be above the upper one."""
    least, most = _NO_BOUNDS
    while (found := _bound(value)) is not None:
        value, number, is_least = found
        if (least if is_least else most) not in _NO_BOUNDS:
            return None, (least, most)
        least, most = (number, most) if is_least else (least, number)
    return (value if least <= most else None), (least, most)


def _bound(value: ir.Value) -> tuple[ir.Value, float, bool] | None:
    """The value before one bound takes its place, the bound, and whether that of what is smaller."""
    extreme = made_by(value, "arith.maximumf", "arith.minimumf")
    if extreme is not None:
        first, second = extreme.operands
        inner, bound = (second, first) if constant_of(first) is not None else (first, second)
        is_least = extreme.name == "arith.maximumf"
    else:
        chosen = made_by(value, "arith.select")
        compared = None if chosen is None else made_by(chosen.operands[0], "arith.cmpf")
        if chosen is None or compared is None or ir.IntegerAttr(compared.attributes["predicate"]).value != _OGT:
            return None
        (_, bound, inner), is_least = chosen.operands, True
        if list(compared.operands) != [bound, inner]:
            return None
    number = constant_of(bound)
    return None if number is None or math.isnan(number) else (inner, float(number), is_least)


def _added(value: ir.Value, term: ir.Value) -> ir.Value | None:
    """What the term is added to."""
    made = made_by(value, "arith.addf")
    operands = [] if made is None else list(made.operands)
    rest = [operand for operand in operands if operand != term]
    return rest[0] if len(operands) == 2 and len(rest) == 1 else None


@contextmanager
def handed_on(tail: Plain) -> Iterator[list[ir.Value]]:
    """What the driver's call, in the block, hands on instead of a tail (`tail_text.ARGUMENTS`): words without a function."""
    nothing = llvm.ZeroOp(pointer()).result
    out = address(tail.out)
    far = value_of(0)
    if tail.other is not None:
        far = arith.SubIOp(*(llvm.PtrToIntOp(word(), place).result for place in (address(tail.other), out))).result
    least, most = (arith.ConstantOp(ir.F32Type.get(), bound).result for bound in tail.bounds)
    line, step, jump = tail.lines
    stack = llvm.StackSaveOp(pointer()).result
    bias = nothing if tail.bias is None else address(tail.bias)
    known = {BIAS: bias, BOUNDS: value_of(tail.bound_count), LEAST: least, MOST: most}
    known |= {OTHER: far, LINE: value_of(line)}
    known |= {BY_ROWS: value_of(int(tail.is_by_rows)), STEP: value_of(step * _BYTES), JUMP: value_of(jump * _BYTES)}
    yield [nothing, nothing, stored([known[number] for number in sorted(known)])]
    llvm.StackRestoreOp(stack)
