"""Which loop nests are sums of products of two operands, and what each of their loops does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.loop_order import Access, accesses, iterators, length_of
from onnx2torch_mlir.engine.compiler.walks import is_memref, made_by

_MOST_SEGMENTS = 4


@dataclass(frozen=True)
class Contraction:
    """A contraction: its operands in the driver's order, and the loops of each kind."""

    generic: ir.Operation
    left: int
    right: int
    operands: list[Access]
    batches: list[int]
    rows: list[int]
    column: int | None
    segments: list[int]

    def value(self, operand: int) -> ir.Value:
        """The memref of an operand."""
        return self.generic.operands[operand]

    def length(self, dim: int) -> tuple[int, int]:
        """An operand and its axis whose size is the number of turns of loop ``dim``."""
        found = length_of(self.operands, dim)
        assert found is not None
        return found

    def fixed_length(self, dim: int) -> int | None:
        """The number of turns of loop ``dim``, where the types tell."""
        return _static(self.operands, self.length(dim))

    @property
    def known_rows(self) -> int | None:
        """How many rows there are in each batch, where the types tell."""
        return self._known(self.rows)

    @property
    def known_segments(self) -> list[int | None]:
        """How long the segments of the left operand are (`merged`), where the types tell."""
        return [self._known(group) for group in self.merged()]

    def _known(self, dims: Sequence[int]) -> int | None:
        lengths = all_known([self.fixed_length(dim) for dim in dims])
        return None if lengths is None else math.prod(lengths)

    def merged(self) -> list[list[int]]:
        """The segments in groups that are one segment of the left operand, outer ones first."""
        access = self.operands[self.left]
        groups: list[list[int]] = []
        for dim in self.segments:
            length, step = self.fixed_length(dim), access.step(dim)
            before = access.step(groups[-1][-1]) if groups else None
            if groups and length is not None and step is not None and before == length * step:
                groups[-1].append(dim)
            else:
                groups.append([dim])
        return groups


def all_known(lengths: Sequence[int | None]) -> list[int] | None:
    """The lengths, if none of them is open."""
    known = [length for length in lengths if length is not None]
    return known if len(known) == len(lengths) else None


def match(generic: ir.Operation, *, doubles: bool = False) -> Contraction | None:
    """The contraction that a ``linalg.generic`` on memrefs is, or None; of float64 if ``doubles``, whose left operand may lie
    in any way."""
    summed = iterators(generic)
    if len(generic.operands) != 3 or not any(summed):
        return None
    if not is_sum_of_products(generic, ir.F64Type if doubles else ir.F32Type):
        return None
    operands = accesses(generic)
    if not all(is_memref(value.type) for value in generic.operands) or not all(access.is_linear() for access in operands):
        return None
    lengths = [length_of(operands, dim) for dim in range(len(summed))]
    if None in lengths:
        return None
    loops = [dim for dim in range(len(summed)) if _static(operands, lengths[dim]) != 1]
    x, y, out = ({dim for dim in loops if access.moves(dim)} for access in operands)
    reductions = [dim for dim in loops if summed[dim]]
    if not reductions or len(reductions) > _MOST_SEGMENTS or any(dim not in x | y for dim in reductions):
        return None
    dense = [dim for dim in loops if not summed[dim] and operands[2].step(dim) == 1 and (dim in x) != (dim in y)]
    column = dense[-1] if dense else None
    left, right = (1, 0) if column in x else (0, 1)
    sides = (x, y) if left == 0 else (y, x)
    others = [dim for dim in loops if not summed[dim] and dim != column]
    if any(dim not in out for dim in others):
        return None
    rows = [dim for dim in others if dim not in sides[1]]
    batches = [dim for dim in others if dim in sides[1]]
    last = [dim for dim in reductions if operands[left].step(dim) == 1] or (reductions if doubles else [])
    if not last:
        return None
    segments = [dim for dim in reductions if dim != last[-1]] + [last[-1]]
    return Contraction(generic, left, right, operands, batches, rows, column, segments)


def is_sum_of_products(generic: ir.Operation, total_type: type[ir.Type] = ir.F32Type, *, widened: bool = False) -> bool:
    """Whether a nest of three operands adds up, as float32 or another type, the products of the first two; ``widened``: after
    widening them."""
    block = generic.regions[0].blocks[0]
    operations = [operation.operation for operation in block.operations]
    if widened:
        operations = [operation for operation in operations if operation.name != "arith.extf"]
    if [operation.name for operation in operations] != ["arith.mulf", "arith.addf", "linalg.yield"]:
        return False
    product, total, end = operations
    x, y, running = block.arguments
    factors = [made_by(value, "arith.extf") if widened else None for value in product.operands]
    multiplied = {v if made is None else made.operands[0] for v, made in zip(product.operands, factors, strict=True)}
    return (
        isinstance(running.type, total_type)
        and multiplied == {x, y}
        and {*total.operands} == {running, product.results[0]}
        and [*end.operands] == [total.results[0]]
    )


def _static(operands: list[Access], length: tuple[int, int] | None) -> int | None:
    return None if length is None else operands[length[0]].extents[length[1]]
