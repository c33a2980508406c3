"""Which loop runs innermost: the choice that decides whether LLVM can vectorise.

A ``linalg.generic`` on memrefs is a loop nest whose dims may be permuted: parallel dims freely, reduction dims as long
as each result element still meets its terms in the same order. The innermost dim is the one whose operands are
invariant or contiguous along it, parallel before reduction, long before short. The others follow: parallel dims, first
those that make the least input be read again (in the order of the result's strides if nothing is reduced or a size is
unknown), then reductions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.linalg_ops import map_attributes
from onnx2torch_mlir.engine.compiler.walks import made_by

_SHORT = 8
_ASSOCIATIVE = ("arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.maximumf", "arith.minimumf")


@dataclass(frozen=True)
class Access:
    """One operand of a nest: its indexing map, and its strides in elements (None where unknown) if it is a memref."""

    map: ir.AffineMap
    strides: tuple[int | None, ...]
    extents: tuple[int | None, ...]
    written: bool

    def step(self, dim: int) -> int | None:
        """How many elements apart two neighbours along ``dim`` are in memory; None where that is far or unknown."""
        total: int | None = 0
        for expression, stride in zip(self.map.results, self.strides, strict=True):
            factor = coefficient(expression, dim)
            if factor == 0:
                continue
            if factor is None or stride is None or total is None:
                total = None
            else:
                total += factor * stride
        return total

    def moves(self, dim: int) -> bool:
        """Whether it is at other elements in other turns of loop ``dim``."""
        return any(coefficient(expression, dim) for expression in self.map.results)

    def is_linear(self) -> bool:
        """Whether each index is a sum of multiples of the loops."""
        dims = range(self.map.n_dims)
        known = all(coefficient(expression, dim) is not None for expression in self.map.results for dim in dims)
        return known and not any(map(origin, self.map.results))


def coefficient(expression: ir.AffineExpr, dim: int) -> int | None:
    """The factor of ``dim`` in a linear expression; None if the expression is not linear in it."""
    if isinstance(expression, ir.AffineDimExpr):
        return int(expression.position == dim)
    if isinstance(expression, ir.AffineConstantExpr | ir.AffineSymbolExpr):
        return 0
    if isinstance(expression, ir.AffineAddExpr):
        left, right = coefficient(expression.lhs, dim), coefficient(expression.rhs, dim)
        return None if left is None or right is None else left + right
    if isinstance(expression, ir.AffineMulExpr):
        for one, other in ((expression.lhs, expression.rhs), (expression.rhs, expression.lhs)):
            if isinstance(other, ir.AffineConstantExpr):
                factor = coefficient(one, dim)
                return None if factor is None else factor * other.value
    return None if any(coefficient(side, dim) != 0 for side in (expression.lhs, expression.rhs)) else 0


def origin(expression: ir.AffineExpr) -> int:
    """What a linear expression is where all loops begin."""
    if isinstance(expression, ir.AffineConstantExpr):
        return int(expression.value)
    if isinstance(expression, ir.AffineAddExpr):
        return origin(expression.lhs) + origin(expression.rhs)
    if isinstance(expression, ir.AffineMulExpr):
        return origin(expression.lhs) * origin(expression.rhs)
    return 0


def length_of(operands: Sequence[Access], dim: int) -> tuple[int, int] | None:
    """An operand and its axis whose size is the number of turns of loop ``dim``; of a known size if there is one."""
    found = [
        (number, axis)
        for number, access in enumerate(operands)
        for axis, expression in enumerate(access.map.results)
        if isinstance(expression, ir.AffineDimExpr) and expression.position == dim
    ]
    known = [place for place in found if operands[place[0]].extents[place[1]] is not None]
    return next(iter(known or found), None)


def accesses(generic: ir.Operation) -> list[Access]:
    """The operands of a ``linalg.generic`` on memrefs, inputs first."""
    inputs = next(iter(generic.attributes["operandSegmentSizes"]))
    maps = indexing_maps(generic)
    found = []
    for position, (operand, map_) in enumerate(zip(generic.operands, maps, strict=True)):
        strides: tuple[int | None, ...] = ()
        extents: tuple[int | None, ...] = ()
        if isinstance(operand.type, ir.MemRefType):
            type_ = ir.MemRefType(operand.type)
            raw, _ = type_.get_strides_and_offset()
            dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
            strides = tuple(None if stride == dynamic else stride for stride in raw)
            extents = tuple(None if type_.is_dynamic_dim(i) else type_.shape[i] for i in range(type_.rank))
        found.append(Access(map_, strides, extents, position >= inputs))
    return found


def extents(operands: list[Access], dims: int) -> list[int | None]:
    """The length of each loop, where the types tell."""
    found: list[int | None] = [None] * dims
    for access in operands:
        for expression, extent in zip(access.map.results, access.extents, strict=False):
            if isinstance(expression, ir.AffineDimExpr) and extent is not None:
                found[expression.position] = extent
    return found


def continuing(dim: int, others: Sequence[int], operands: Sequence[Access], lengths: Sequence[int | None]) -> list[int]:
    """Those of the loops ``others`` that go on, in all operands, where loop ``dim`` ends, one after the other; if it is not
    known where one ends, it is the last."""
    found, count = list[int](), lengths[dim]
    while count:
        ends = [(access, (access.step(dim) or 0) * count) for access in operands]
        on = next((o for o in others if o not in found and all(end and access.step(o) == end for access, end in ends)), None)
        if on is None:
            break
        found.append(on)
        count = None if lengths[on] is None else count * (lengths[on] or 0)
    return found


def iterators(generic: ir.Operation) -> list[bool]:
    """For each dim of a ``linalg.generic`` whether it is a reduction."""
    return list(_reductions(generic.attributes["iterator_types"]))


@functools.cache
def _reductions(kinds: ir.Attribute) -> tuple[bool, ...]:
    # A program asks this ten thousand times of a dozen attributes.
    return tuple("reduction" in str(kind) for kind in ir.ArrayAttr(kinds))


@contextmanager
def iterators_remembered() -> Iterator[None]:
    """In the end `iterators` forgets the attributes that it has read, which would keep their context alive."""
    try:
        yield
    finally:
        _reductions.cache_clear()


def indexing_maps(generic: ir.Operation) -> list[ir.AffineMap]:
    """The indexing map of each operand."""
    return [ir.AffineMapAttr(attribute).value for attribute in ir.ArrayAttr(generic.attributes["indexing_maps"])]


def accumulations(generic: ir.Operation) -> list[ir.Operation]:
    """The operations of the body that combine a running value with a new term; none if it is used for more."""
    block = generic.regions[0].blocks[0]
    terminator = list(block.operations)[-1].operation
    running = list(block.arguments)[-len(terminator.operands) :]
    found = []
    for value, argument in zip(terminator.operands, running, strict=True):
        made = made_by(value)
        if made is None or argument not in list(made.operands) or len(list(argument.uses)) != 1:
            return []
        found.append(made)
    return found


def best_order(generic: ir.Operation) -> list[int]:
    """The dims of a ``linalg.generic`` on memrefs from the outermost to the innermost."""
    reductions = iterators(generic)
    operands = accesses(generic)
    lengths = extents(operands, len(reductions))
    if len(reductions) < 2:
        return list(range(len(reductions)))
    reduction_dims = [dim for dim, reduction in enumerate(reductions) if reduction]
    combining = accumulations(generic)
    free = bool(combining) and all(op.name in _ASSOCIATIVE for op in combining)

    def cost(dim: int) -> float:
        total = 0.0
        for access in operands:
            step = access.step(dim)
            if step == 0:
                total += 3.0 if access.written and not reductions[dim] else 0.0
            elif step == 1:
                total += 1.0
            elif step is not None and abs(step) <= 4:
                total += 3.0
            else:
                total += 10.0 if access.written else 8.0
        if reductions[dim]:
            total += 2.0
            if dim != reduction_dims[-1] and not free:
                total += 1000.0
        length = lengths[dim]
        if length is not None and length < _SHORT:
            total += 3.0 * (_SHORT - length)
        return total

    # A later dim wins a tie: it is the contiguous one by the usual layout.
    innermost = min(reversed(range(len(reductions))), key=cost)
    written = operands[-1]

    def place(dim: int) -> tuple[bool, float]:
        if reductions[dim]:
            return True, 0.0
        if reduction_dims and None not in lengths:
            return False, _reread(dim, operands, lengths)
        step = written.step(dim)
        return False, -float("inf") if step is None else -abs(step)

    others = sorted((dim for dim in range(len(reductions)) if dim != innermost), key=place)
    return [*others, innermost]


def _reread(dim: int, operands: list[Access], lengths: Sequence[int | None]) -> float:
    """How many elements are read again if ``dim`` is the outermost loop: inputs that do not depend on it, each turn."""
    total = 0.0
    for access in operands:
        if not access.written and all(coefficient(result, dim) == 0 for result in access.map.results):
            size = 1.0
            for extent in access.extents:
                size *= extent or 1
            total += size
    return total * (lengths[dim] or 1)


def interchange(generic: ir.Operation, order: list[int]) -> None:
    """Permute the loops of a ``linalg.generic``: loop ``i`` of the new nest is loop ``order[i]`` of the old one."""
    if order == sorted(order):
        return
    new_position = {old: new for new, old in enumerate(order)}
    replaced = [ir.AffineDimExpr.get(new_position[old]) for old in range(len(order))]
    maps = indexing_maps(generic)
    generic.attributes["indexing_maps"] = map_attributes(
        ir.AffineMap.get(len(order), 0, [substitute(result, replaced) for result in map_.results]) for map_ in maps
    )
    kinds = list(ir.ArrayAttr(generic.attributes["iterator_types"]))
    generic.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[old] for old in order])
    for region in generic.regions:
        for inner in region.blocks[0].operations:
            _reindex(inner.operation, new_position)


def _reindex(operation: ir.Operation, new_position: dict[int, int]) -> None:
    if operation.name == "linalg.index":
        attribute = ir.IntegerAttr(operation.attributes["dim"])
        operation.attributes["dim"] = ir.IntegerAttr.get(attribute.type, new_position[attribute.value])
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                _reindex(inner.operation, new_position)


def substitute(expression: ir.AffineExpr, dims: list[ir.AffineExpr]) -> ir.AffineExpr:
    """``expression`` with ``dims[d]`` in the place of each dim ``d``."""
    if isinstance(expression, ir.AffineDimExpr):
        return dims[expression.position]
    if isinstance(expression, ir.AffineConstantExpr | ir.AffineSymbolExpr):
        return expression
    left, right = substitute(expression.lhs, dims), substitute(expression.rhs, dims)
    if isinstance(expression, ir.AffineAddExpr):
        return ir.AffineExpr.get_add(left, right)
    if isinstance(expression, ir.AffineMulExpr):
        return ir.AffineExpr.get_mul(left, right)
    if isinstance(expression, ir.AffineModExpr):
        return ir.AffineExpr.get_mod(left, right)
    if isinstance(expression, ir.AffineFloorDivExpr):
        return ir.AffineExpr.get_floor_div(left, right)
    return ir.AffineExpr.get_ceil_div(left, right)
