"""Copies whose result is dense along another axis than what is copied: what there is to know of their nests."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.flatten import element_bytes
from onnx2torch_mlir.engine.compiler.loop_order import Access, accesses, continuing, extents, iterators, length_of
from onnx2torch_mlir.engine.compiler.walks import bytes_on, is_memref

_WIDTHS = (1, 2, 4, 8)
"""Bytes of the elements that are turned: truth values, numbers, complex ones of two float32."""


@dataclass(frozen=True)
class Copy:
    """A copy: its loops, of which ``across`` moves densely in what is copied, and ``along`` in the result.

    Outer loops that go on where one of these two ends, in both arrays, are a part of it: ``merged`` says how many turns it has.
    """

    generic: ir.Operation
    operands: list[Access]
    outer: list[int]
    across: int
    along: int
    width: int
    merged: dict[int, int]

    def length(self, dim: int) -> tuple[int, int]:
        """An operand and its axis whose size is the number of turns of loop ``dim``."""
        found = length_of(self.operands, dim)
        assert found is not None
        return found

    def fixed_length(self, dim: int) -> int | None:
        """The number of turns of loop ``dim``, where the types tell."""
        operand, axis = self.length(dim)
        return self.merged.get(dim, self.operands[operand].extents[axis])


def match(generic: ir.Operation) -> Copy | None:
    """The copy that the nest is, if it turns dense axes and all of its steps are linear in the loops."""
    block = generic.regions[0].blocks[0]
    (*before, last) = [operation.operation for operation in block.operations]
    if before or len(generic.operands) != 2 or list(last.operands) != list(block.arguments)[:1] or any(iterators(generic)):
        return None
    width = element_bytes(block.arguments[0].type)
    if not all(is_memref(value.type) for value in generic.operands) or width not in _WIDTHS:
        return None
    source, result = operands = accesses(generic)
    dims = range(source.map.n_dims)
    if not source.is_linear() or not result.is_linear() or any(length_of(operands, dim) is None for dim in dims):
        return None
    across, along = ([dim for dim in dims if operand.step(dim) == 1] for operand in operands)
    if len(across) != 1 or len(along) != 1 or across == along or not source.moves(along[0]) or not result.moves(across[0]):
        return None
    lengths = extents(operands, source.map.n_dims)
    outer, merged = [dim for dim in dims if dim not in (*across, *along)], dict[int, int]()
    for dim in (*across, *along):
        on = continuing(dim, [other for other in outer if lengths[other]], operands, lengths)
        outer = [other for other in outer if other not in on]
        merged |= {dim: math.prod(lengths[each] or 0 for each in (dim, *on))} if on else {}
    return Copy(generic, operands, outer, across[0], along[0], width, merged)


def moved(place: ir.Value, turns: list[ir.Value], steps: list[ir.Value]) -> ir.Value:
    """A pointer so many steps on; steps are in bytes."""
    for turn, step in zip(turns, steps, strict=False):
        place = bytes_on(place, arith.MulIOp(turn, step).result)
    return place
