"""In which order the dims of a tensor lie in memory: small algebra on permutations.

An `Order` of a value lists its dims from the outermost to the innermost in memory: ``(0, 2, 3, 1)`` of [N, C, H, W] is
channels-last. Dims of the static size 1 may stand anywhere: orders that differ only in them are the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from torch_mlir import ir

Order = tuple[int, ...]
Groups = Sequence[Sequence[int]]
"""For each dim of a collapsed tensor the dims of the expanded one that it stands for."""

T = TypeVar("T")


def plain(rank: int) -> Order:
    """Every dim where it is."""
    return tuple(range(rank))


def arranged(items: Sequence[T], order: Order) -> list[T]:
    """What belongs to the dims, in the order of memory."""
    return [items[dim] for dim in order]


def same_memory(ones: Sequence[bool], one: Order, other: Order) -> bool:
    """Whether a tensor in either order is the same memory."""
    return without_ones(one, ones) == without_ones(other, ones)


def without_ones(order: Order, ones: Sequence[bool]) -> Order:
    """The order of the dims that are not of size 1."""
    return tuple(dim for dim in order if not ones[dim])


def ones_of(type_: ir.Type) -> list[bool]:
    """For each dim of a tensor or memref type whether its size is the static 1."""
    ranked = ir.ShapedType(type_)
    return [not ranked.is_dynamic_dim(dim) and ranked.get_dim_size(dim) == 1 for dim in range(ranked.rank)]


def placed(keys: Sequence[int | None]) -> Order:
    """The dims sorted by their key; those without one have size 1 and stand before the last of the others, or as in `plain`."""
    known = sorted((dim for dim, key in enumerate(keys) if key is not None), key=lambda dim: (keys[dim], dim))
    if known == sorted(known):
        return plain(len(keys))
    free = [dim for dim, key in enumerate(keys) if key is None]
    return (*known[:-1], *free, *known[-1:])


def expanded(order: Order, groups: Groups) -> Order:
    """The order of an expanded tensor of which the collapsed one has ``order``."""
    return tuple(dim for group in order for dim in groups[group])


def collapsed(order: Order, groups: Groups, ones: Sequence[bool]) -> Order | None:
    """The order of a collapsed tensor of which the expanded one (``ones`` are its) has ``order``; None if it is not one."""
    rank = {dim: place for place, dim in enumerate(order)}
    # Dims of size 1 stay where they stand among the others, or the neighbours would name the same memory in another way.
    keys = [min((rank[dim] for dim in group if not ones[dim]), default=min(map(rank.__getitem__, group))) for group in groups]
    found = placed(keys)
    return found if without_ones(expanded(found, groups), ones) == without_ones(order, ones) else None


def reassociation(operation: ir.Operation) -> Groups:
    """Of an ``expand_shape`` or ``collapse_shape``; empty if one of the shapes has rank 0."""
    groups = ir.ArrayAttr(operation.attributes["reassociation"])
    return [[ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)] for group in groups]


def reassociation_of(groups: Groups) -> ir.ArrayAttr:
    """The attribute that says so of an ``expand_shape`` or ``collapse_shape``."""
    number = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.ArrayAttr.get([ir.IntegerAttr.get(number, dim) for dim in group]) for group in groups])


def long_dims(groups: Groups, ones: Sequence[bool]) -> list[int] | None:
    """For each group its one dim that is not of size 1, or its first; None where a group has several."""
    found = []
    for group in groups:
        long = [dim for dim in group if not ones[dim]]
        if len(long) > 1:
            return None
        found.append((long or group)[0])
    return found


def before_collapse(collapse: ir.Operation, indices: Sequence[ir.AffineExpr]) -> list[ir.AffineExpr] | None:
    """The indices of what is collapsed, of those of the result; None where it does more than drop dims of size 1."""
    ones = ones_of(collapse.operands[0].type)
    dims = long_dims(reassociation(collapse), ones)
    if dims is None:
        return None
    found: list[ir.AffineExpr] = [ir.AffineConstantExpr.get(0)] * len(ones)
    for dim, index in zip(dims, indices, strict=True):
        found[dim] = index
    return found


Loops = Sequence[frozenset[int]]
"""For each dim of an operand the loops that its position depends on."""


def loops_of(map_: ir.AffineMap) -> Loops:
    """The loops in each expression of an indexing map."""
    return [_loops(expression) for expression in map_.results]


def _loops(expression: ir.AffineExpr) -> frozenset[int]:
    if isinstance(expression, ir.AffineDimExpr):
        return frozenset((expression.position,))
    if isinstance(expression, ir.AffineConstantExpr | ir.AffineSymbolExpr):
        return frozenset()
    return _loops(expression.lhs) | _loops(expression.rhs)


def ranks_of_loops(loops: Loops, order: Order) -> dict[int, int]:
    """How far out each loop is, if an operand that depends on ``loops`` lies in ``order``."""
    found: dict[int, int] = {}
    for place, here in enumerate(arranged(loops, order)):
        for loop in here:
            found.setdefault(loop, place)
    return found


def order_along(loops: Loops, ranks: Mapping[int, int]) -> Order | None:
    """The order in which an operand follows the loops; None where a dim depends on loops of which none is ranked."""
    keys: list[int | None] = []
    for here in loops:
        known = [ranks[loop] for loop in here if loop in ranks]
        if here and not known:
            return None
        keys.append(min(known, default=None))
    return placed(keys)
