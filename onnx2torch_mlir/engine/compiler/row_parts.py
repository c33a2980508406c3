"""Operands of a tail that have a number for some rows of the result together: for each channel of an image's lines, say.

Rows are counted from the inside out, as `contraction_tails.spread_of` does: along some loops the operand moves on, along the
others it has the same number, or begins again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch_mlir import ir


def is_part(moving: Sequence[int], rows: Sequence[int]) -> bool:
    """Whether an operand that moves along these loops, in this order, moves along ``rows``, some left out."""
    return list(moving) == [dim for dim in rows if dim in moving]


def groups_of(
    nest: ir.Operation, position: int, across: int, single: Collection[int]
) -> list[tuple[bool, list[int]]]:
    """The loops over rows of a pointwise nest, all but the last ``across`` ones and those of a ``single`` turn, from the inside
    out, those that follow each other and are alike together: whether the operand of this number moves along them."""
    map_ = ir.AffineMapAttr(ir.ArrayAttr(nest.attributes["indexing_maps"])[position]).value
    moving = {result.position for result in map(_dim, map_.results) if result is not None}
    groups: list[tuple[bool, list[int]]] = []
    for dim in reversed(range(map_.n_dims - across)):
        if dim in single:
            continue
        if groups and groups[-1][0] == (dim in moving):
            groups[-1][1].append(dim)
        else:
            groups.append((dim in moving, [dim]))
    return groups


def axis_along(nest: ir.Operation, dim: int) -> int:
    """The axis of the result that a loop moves along."""
    maps = ir.ArrayAttr(nest.attributes["indexing_maps"])
    results = [_dim(result) for result in ir.AffineMapAttr(maps[len(maps) - 1]).value.results]
    return next(axis for axis, result in enumerate(results) if result is not None and result.position == dim)


def _dim(expression: ir.AffineExpr) -> ir.AffineDimExpr | None:
    return ir.AffineDimExpr(expression) if isinstance(expression, ir.AffineDimExpr) else None
