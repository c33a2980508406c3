"""Which loop nests add up products of integers of a byte, less their zero points, and what each of their loops does."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.loop_order import Access, accesses, extents, iterators
from onnx2torch_mlir.engine.compiler.walks import constant_of, is_memref, made_by

LARGEST = 255
"""The largest magnitude of a zero point that the driver takes."""


@dataclass(frozen=True)
class Side:
    """An operand of the products: its position, whether its bytes are signed, and what is subtracted from them.

    ``zero`` is an i32 that the body captures, or the position of an operand of i32 (`number`), or None.
    """

    operand: int
    signed: bool
    zero: ir.Value | None = None
    number: int | None = None


@dataclass(frozen=True)
class IntegerContraction:
    """A contraction of bytes: ``left`` has the rows and ``right`` the columns, which lie side by side in the result.

    ``batches`` move the result and the right operand (and the left one or not); ``columns`` are dims from the outermost to
    the innermost.
    """

    generic: ir.Operation
    left: Side
    right: Side
    operands: list[Access]
    batches: list[int]
    rows: list[int]
    columns: list[int]
    sums: list[int]

    @property
    def is_wide(self) -> bool:
        """Whether the sums are i64 (integer_sums.py)."""
        return str(ir.MemRefType(self.generic.operands[self.out].type).element_type) == "i64"

    @property
    def out(self) -> int:
        """The position of the result."""
        return len(self.operands) - 1

    def length(self, dim: int) -> tuple[int, int]:
        """An operand and its axis whose size is the number of turns of loop ``dim``."""
        return next(
            (number, axis)
            for number in (0, 1, self.out)
            for axis, expression in enumerate(self.operands[number].map.results)
            if isinstance(expression, ir.AffineDimExpr) and expression.position == dim
        )

    def fixed_length(self, dim: int) -> int | None:
        """The number of turns of loop ``dim``, where the types tell."""
        return extents(self.operands, self.operands[0].map.n_dims)[dim]


def match(generic: ir.Operation) -> IntegerContraction | None:
    """The contraction that a ``linalg.generic`` on memrefs is, or None."""
    sides = _sides(generic)
    if sides is None:
        return None
    operands, summed = accesses(generic), iterators(generic)
    fixed = extents(operands, len(summed))
    loops = [dim for dim in range(len(summed)) if fixed[dim] != 1]
    out = len(operands) - 1
    used = [operands[0], operands[1], operands[out]]
    if not all(access.is_linear() for access in used) or not _is_dense(generic.operands[out].type):
        return None
    if any(not _is_measured(used, dim) for dim in loops):
        return None
    x, y, results = ({dim for dim in loops if access.moves(dim)} for access in used)
    sums = [dim for dim in loops if summed[dim]]
    if not sums or results != {dim for dim in loops if not summed[dim]} or any(dim not in x | y | results for dim in loops):
        return None
    order = [e.position for e in operands[out].map.results if isinstance(e, ir.AffineDimExpr) and e.position in results]
    if set(order) != results or len(order) != len(results):
        return None
    last = order[-1] if order else None
    swapped = last is not None and last in x and last not in y
    left, right = (sides[1], sides[0]) if swapped else sides
    mine, others = (x, y) if swapped else (y, x)
    columns: list[int] = []
    while order and order[-1] in mine and order[-1] not in others:
        columns.insert(0, order.pop())
    rows = [dim for dim in order if dim not in mine]
    batches = [dim for dim in order if dim in mine]
    found = IntegerContraction(generic, left, right, operands, batches, rows, columns, _ordered(sums, operands[left.operand]))
    return found if _zeros_fit(found) else None


def _sides(generic: ir.Operation) -> tuple[Side, Side] | None:
    """What the body multiplies, if it adds products of two bytes, each less its zero point, to an i32 or, extended, an i64."""
    block = generic.regions[0].blocks[0]
    terminator = list(block.operations)[-1].operation
    arguments = list(block.arguments)
    if len(terminator.operands) != 1 or len(arguments) < 3 or not all(is_memref(generic.operands[i].type) for i in (0, 1)):
        return None
    is_wide = str(arguments[-1].type) == "i64"
    if not is_memref(generic.operands[len(arguments) - 1].type) or not (is_wide or str(arguments[-1].type) == "i32"):
        return None
    total = _operands_of(terminator.operands[0], "arith.addi", block)
    if total is None or arguments[-1] not in total:
        return None
    term = next((v for v in total if v != arguments[-1]), arguments[-1])
    extended = _operands_of(term, "arith.extsi", block) if is_wide else [term]
    product = None if extended is None else _operands_of(extended[0], "arith.muli", block)
    if product is None:
        return None
    sides = [_side(value, block) for value in product]
    if sides[0] is None or sides[1] is None or {sides[0].operand, sides[1].operand} != {0, 1}:
        return None
    return (sides[0], sides[1]) if sides[0].operand == 0 else (sides[1], sides[0])


def _operands_of(value: ir.Value, name: str, block: ir.Block) -> list[ir.Value] | None:
    made = made_by(value, name)
    return None if made is None or made.block != block else list(made.operands)


def _side(value: ir.Value, block: ir.Block) -> Side | None:
    zero = None
    difference = _operands_of(value, "arith.subi", block)
    if difference is not None:
        value, zero = difference
    for name, signed in (("arith.extsi", True), ("arith.extui", False)):
        wide = _operands_of(value, name, block)
        if wide is None or str(wide[0].type) != "i8" or wide[0] not in list(block.arguments):
            continue
        operand = list(block.arguments).index(wide[0])
        if zero is None:
            return Side(operand, signed)
        if zero in list(block.arguments):
            return Side(operand, signed, number=list(block.arguments).index(zero))
        made = made_by(zero)
        if made is None or made.block != block:
            return Side(operand, signed, zero)
    return None


def _zeros_fit(found: IntegerContraction) -> bool:
    """Whether zero points are one number, or one for each column; nothing else may be an operand."""
    named = {side.number for side in (found.left, found.right)} - {None}
    if named != set(range(2, found.out)):
        return False
    for side in (found.left, found.right):
        constant = None if side.zero is None else constant_of(side.zero)
        if constant is not None and abs(constant) > LARGEST:
            return False
        if side.number is None:
            continue
        results = list(found.operands[side.number].map.results)
        if any(found.operands[side.number].moves(dim) for dim in range(found.operands[0].map.n_dims)):
            dims = [e.position for e in results if isinstance(e, ir.AffineDimExpr)]
            if side is found.left or len(results) != 1 or dims != found.columns:
                return False
    return True


def _ordered(sums: list[int], left: Access) -> list[int]:
    """The dims that are summed over, in the order in which the left operand holds them, where that is known."""
    steps = [left.step(dim) for dim in sums]
    if any(step is None for step in steps):
        return [dim for dim in sums if left.step(dim) != 1] + [dim for dim in sums if left.step(dim) == 1]
    return sorted(sums, key=lambda dim: -abs(left.step(dim) or 0))


def _is_measured(used: list[Access], dim: int) -> bool:
    return any(isinstance(e, ir.AffineDimExpr) and e.position == dim for access in used for e in access.map.results)


def _is_dense(type_: ir.Type) -> bool:
    return isinstance(type_, ir.MemRefType) and not isinstance(type_.layout, ir.StridedLayoutAttr)
