"""Attention in any form: a sum of products, nests over its rows (masks, a softmax …), and a sum of products of these.

One block of rows after the other goes through all three (attention_code.py), so that the matrix of scores is never made.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.contraction_match import Contraction, match
from onnx2torch_mlir.engine.compiler.contraction_tails import is_dense
from onnx2torch_mlir.engine.compiler.distinct_memory import distinct
from onnx2torch_mlir.engine.compiler.extents import Equal, Length
from onnx2torch_mlir.engine.compiler.nest_sizes import fill_before, number_of_fill
from onnx2torch_mlir.engine.compiler.nests import Nest, nest_of, turning
from onnx2torch_mlir.engine.compiler.row_code import only_used_by, private_buffers
from onnx2torch_mlir.engine.compiler.rows import Group, fits, is_by_row, is_harmless, is_long
from onnx2torch_mlir.engine.compiler.walks import block_of, is_memref, made_by, root_of, users

FEWEST_ROWS = 6
"""Rows of a batch below which packed columns do not pay."""


@dataclass(frozen=True)
class Found:
    """The scores, what is done with their rows, and the products; what fills the results of both sums with zeros."""

    scores: Contraction
    nests: list[Nest]
    products: Contraction
    fills: list[ir.Operation]
    rows: list[Length]
    """How many rows there are along each dim of batches and rows."""
    equal: Equal
    private: set[ir.Value]
    """Buffers that nobody else knows."""
    sums: tuple[Nest, Nest]
    """The scores and the products, as nests."""

    @property
    def every(self) -> list[Nest]:
        """All nests."""
        return [self.sums[0], *self.nests, self.sums[1]]

    @property
    def given(self) -> ir.Value:
        """The buffer of the scores."""
        return root_of(self.scores.value(2))

    @property
    def made(self) -> ir.Value:
        """The buffer of the rows that the products are made of."""
        return root_of(self.products.value(self.products.left))

    @property
    def roots(self) -> set[ir.Value]:
        """All buffers that are read or written."""
        return {root_of(value) for member in self.members for value in member.operands if is_memref(value.type)}

    @property
    def members(self) -> list[ir.Operation]:
        """All operations, in their order."""
        nests = [nest.operation for nest in self.nests]
        return in_order([*self.fills, self.scores.generic, *nests, self.products.generic])


def in_order(operations: list[ir.Operation]) -> list[ir.Operation]:
    """Operations of one block as they follow each other, each once."""

    def follows(one: ir.Operation, other: ir.Operation) -> int:
        return -1 if one.is_before_in_block(other) else 1

    return sorted(dict.fromkeys(operations), key=functools.cmp_to_key(follows))


def find(scores: Contraction, is_plain: Callable[[Contraction], bool], order: Order) -> Found | None:
    """The attention that begins with ``scores``; both sums have to be plain (columns that are not packed once)."""
    if scores.column is None or _has_few_rows(scores) or not is_plain(scores):
        return None
    fill = fill_before(scores.generic)
    chain = _chain(scores, order) if fill is not None else None
    if fill is None or chain is None or not is_plain(chain.products):
        return None
    last = fill_before(chain.products.generic)
    if last is None or not _are_same_rows(scores, chain.products):
        return None
    members = {*chain.between, scores.generic, chain.products.generic, fill, last}
    begins = _fills(chain, members)
    equal = Equal()
    first, second = (nest_of(contraction.generic, equal) for contraction in (scores, chain.products))
    nests = [nest_of(operation, equal) for operation in in_order([*begins, *chain.between])]
    known = [nest for nest in nests if nest is not None]
    if first is None or second is None or len(known) < len(nests):
        return None
    loops = [*scores.batches, *scores.rows, scores.column]
    others = [*chain.products.batches, *chain.products.rows, *chain.products.segments]
    *rows, keys = (equal.find(first.lengths[dim]) for dim in loops)
    if [equal.find(second.lengths[dim]) for dim in others] != [*rows, keys] or not rows or not _meet(known, rows, equal):
        return None
    if not _is_all(first, 2, loops, equal) or not _is_all(second, chain.products.left, others, equal):
        return None
    private = private_buffers(known, members | set(begins))
    found = Found(scores, known, chain.products, [fill, last], rows, equal, private, (first, second))
    by_row = all(is_by_row(nest, place, rows, equal) for nest in known for place in nest.buffers if place.root == found.given)
    return found if by_row and {found.given, found.made} <= private and _may_move(found, chain) else None


@dataclass(frozen=True)
class _Chain:
    """What follows scores: the nests that depend on them, the products of these, and the rest of what lies between."""

    between: list[ir.Operation]
    products: Contraction
    written: set[ir.Value]
    others: list[ir.Operation]


def _chain(scores: Contraction, order: Order) -> _Chain | None:
    written = {root_of(scores.value(2))}
    between: list[ir.Operation] = []
    others: list[ir.Operation] = []
    for operation in order.after(scores.generic):
        if operation.name not in ("linalg.generic", "memref.copy"):
            if not is_harmless(operation):
                return None
            continue
        if not any(root_of(value) in written for value in operation.operands if is_memref(value.type)):
            others.append(operation)
            continue
        if operation.name != "linalg.generic":
            return None
        products = match(operation)
        if products is not None:
            ends = between and root_of(products.value(products.left)) in written
            strange = any(root_of(products.value(operand)) in written for operand in (products.right, 2))
            return _Chain(between, products, written, others) if ends and not strange else None
        between.append(operation)
        written.add(root_of(operation.operands[len(operation.operands) - 1]))
    return None


class Order:
    """What follows operations, while their blocks do not change."""

    def __init__(self) -> None:
        self._places: dict[ir.Operation, tuple[list[ir.Operation], int]] = {}

    def after(self, operation: ir.Operation) -> Iterator[ir.Operation]:
        """What follows in the block."""
        if operation not in self._places:
            block = [view.operation for view in block_of(operation).operations]
            self._places |= {each: (block, place) for place, each in enumerate(block)}
        block, place = self._places[operation]
        return itertools.islice(block, place + 1, None)


def _fills(chain: _Chain, members: set[ir.Operation]) -> list[ir.Operation]:
    """What fills buffers of which, besides, only ``members`` know: where sums and extremes begin."""
    found: list[ir.Operation] = []
    for root in chain.written:
        fresh = made_by(root, "memref.alloc")
        if fresh is None or fresh.block != block_of(chain.products.generic):
            continue
        around = [user for user in users(fresh.block, root) if user.name == "linalg.generic" and user not in members]
        fills = [user for user in around if number_of_fill(user) is not None]
        if fills == around and only_used_by(root, members | set(fills)):
            found += fills
    return found


def _has_few_rows(scores: Contraction) -> bool:
    rows = scores.known_rows
    return rows is not None and rows < FEWEST_ROWS


def _are_same_rows(scores: Contraction, products: Contraction) -> bool:
    """Whether both have as many dims of batches and of rows, and the products add up along one dim."""
    one, other = ((len(c.batches), len(c.rows)) for c in (scores, products))
    return one == other and len(products.segments) == 1


def _meet(nests: list[Nest], rows: list[Length], equal: Equal) -> bool:
    """Whether all nests are of one group of the ``rows``."""
    group = Group(rows)
    for nest in nests:
        if not fits(nest, group, equal) or not group.join(nest, equal):
            return False
    return is_long(group, equal)


def _is_all(nest: Nest, operand: int, loops: list[int], equal: Equal) -> bool:
    """Whether an operand is a whole dense buffer, whose axes are the ``loops`` in their order."""
    place = nest.places[operand]
    if place.root is None or place.indices is None or not is_dense(place.root):
        return False
    several = turning(nest, equal)
    return loops == [e.position for e in place.indices if isinstance(e, ir.AffineDimExpr) and e.position in several]


def _may_move(found: Found, chain: _Chain) -> bool:
    """Whether all of it may be done where the products are: nobody minds in between, and the result is of its own."""
    result = root_of(found.products.value(2))
    if any(not distinct(result, other) for other in found.roots - {result}):
        return False
    members = found.members
    others = [operation for operation in chain.others if operation not in members]
    return all(
        distinct(root_of(other.operands[len(other.operands) - 1]), root_of(value))
        for member in members[:-1]
        for other in others
        for value in member.operands
        if is_memref(value.type) and member.is_before_in_block(other)
    )
