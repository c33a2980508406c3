"""From the orders that convolutions ask for to those of the values around them.

Each operation that only passes elements on, or combines those at the same place, lets its result lie as its operands do. From
the convolutions outwards, nearest first, every such value takes the order of its neighbour; a value that another operation
makes (an argument, a matrix product, what a loop carries) stays as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.dim_orders import (
    Loops,
    Order,
    collapsed,
    expanded,
    loops_of,
    ones_of,
    order_along,
    placed,
    plain,
    ranks_of_loops,
    reassociation,
    same_memory,
)
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps
from onnx2torch_mlir.engine.compiler.walks import made_by
from onnx2torch_mlir.engine.compiler.window_sums import (
    convolution,
    has_few_taps,
    has_long_lines,
    has_single_pixels,
    input_count,
    is_along_lines,
    is_sum_of_products,
)

SAME_ORDER = ("tensor.pad", "tensor.cast")
SLICES = ("tensor.insert_slice", "tensor.extract_slice")
RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")

Orders = dict[ir.Value, Order]

_STAYS_ALONE = (has_single_pixels, has_long_lines, has_few_taps)
"""What a convolution stays as it lies for if it reaches no other one; `is_along_lines` too if it reaches its like alone."""


def orders_around_convolutions(operations: Sequence[ir.Operation]) -> Orders:
    """The order of each value that is to lie in another one than its dims are named in.

    Not so around a convolution that reaches no other one, if its windows are of one pixel, or its lines long and its sums
    short: as a product of its weight and the pixels it costs less than the moves would; nor if its filters are few, or the
    taps of a filter that has a line for itself. Where few filters are all that convolutions have that reach each other, all of
    them stay.
    """
    around = _Neighbourhood()
    found: Orders = {}
    met = _Components()
    waiting: deque[tuple[ir.Value, Order, int]] = deque()
    for operation in operations:
        wanted = convolution(operation) if is_sum_of_products(operation) else None
        if wanted is not None:
            along_lines = is_along_lines(operation)
            number = met.new(stays=along_lines or any(stays(operation) for stays in _STAYS_ALONE), along_lines=along_lines)
            waiting.append((operation.results[0], wanted.result_order, number))
            waiting.append((operation.operands[wanted.input], wanted.input_order, number))
    if met.is_one_alone():
        return {}
    owners: dict[ir.Value, int] = {}
    while waiting:
        value, order, number = waiting.popleft()
        if value in found:
            met.join(number, owners[value])
        if value in found or not may_be_reordered(value):
            continue
        unmoved = plain(len(order))
        found[value] = order if not same_memory(ones_of(value.type), order, unmoved) else unmoved
        owners[value] = number
        for other, induced in around.of(value, found[value]):
            if other in found:
                met.join(number, owners[other])
            else:
                waiting.append((other, induced, number))
    return {value: order for value, order in found.items() if not met.stay(owners[value])}


class _Components:
    """Which convolutions are connected by values, and which of these groups may be left as they are."""

    def __init__(self) -> None:
        self._above: list[int] = []
        self._stays: list[bool] = []
        self._along_lines: list[bool] = []

    def new(self, *, stays: bool, along_lines: bool) -> int:
        """A group of one, which ``stays`` as it is if it remains alone, or ``along_lines`` if such ones join it."""
        self._above.append(len(self._above))
        self._stays.append(stays)
        self._along_lines.append(along_lines)
        return len(self._above) - 1

    def _root(self, number: int) -> int:
        while self._above[number] != number:
            self._above[number] = number = self._above[self._above[number]]
        return number

    def join(self, one: int, other: int) -> None:
        """Both are in one group."""
        one, other = self._root(one), self._root(other)
        if one != other:
            self._above[other] = one
            self._along_lines[one] &= self._along_lines[other]
            self._stays[one] = self._along_lines[one]

    def is_one_alone(self) -> bool:
        """Whether there is but one, which may be left as it is and has no other to reach."""
        return self._stays == [True]

    def stay(self, number: int) -> bool:
        """Whether the group is left as it is."""
        return self._stays[self._root(number)]


def may_be_reordered(value: ir.Value) -> bool:
    """Whether the operation that makes ``value`` can write it in any order."""
    producer = made_by(value)
    if producer is None:
        return False
    if producer.name == "linalg.generic":
        return not is_sum_of_products(producer) or convolution(producer) is not None
    if producer.name == "tensor.pad":
        return not any(list(position.uses) for position in producer.regions[0].blocks[0].arguments)
    if producer.name in SLICES:
        return kept_dims(producer) is not None
    return producer.name in (*SAME_ORDER, *RESHAPES)


class _Tie(NamedTuple):
    """What a generic that is no sum of products reads and writes, and for each the loops of its dims."""

    values: list[ir.Value]
    loops: list[Loops]


class _Neighbourhood:
    """The values whose orders follow from that of one; remembers the generics it has met, by their first result."""

    def __init__(self) -> None:
        self._ties: dict[ir.Value, _Tie | None] = {}
        self._loops: dict[ir.AffineMap, Loops] = {}

    def of(self, value: ir.Value, order: Order) -> Iterator[tuple[ir.Value, Order]]:
        """The values around ``value``, which lies in ``order``, and the orders they would have."""
        for operation in _around(value):
            if operation.name == "linalg.generic":
                yield from self._in_generic(operation, value, order)
            elif operation.name in SAME_ORDER:
                yield operation.operands[0], order
                yield operation.results[0], order
            elif operation.name in RESHAPES:
                yield from _in_reshape(operation, value, order)
            elif operation.name in SLICES:
                yield from _in_slice(operation, value, order)

    def _in_generic(self, generic: ir.Operation, value: ir.Value, order: Order) -> Iterator[tuple[ir.Value, Order]]:
        key = generic.results[0]
        if key not in self._ties:
            self._ties[key] = None if is_sum_of_products(generic) else self._tie(generic)
        tie = self._ties[key]
        if tie is None or value not in tie.values:
            return
        ranks = ranks_of_loops(tie.loops[tie.values.index(value)], order)
        for other, loops in zip(tie.values, tie.loops, strict=True):
            induced = order_along(loops, ranks) if other != value else None
            if induced is not None:
                yield other, induced

    def _tie(self, generic: ir.Operation) -> _Tie:
        values = [*list(generic.operands)[: input_count(generic)], *generic.results]
        tie = _Tie(values, [self._of_map(map_) for map_ in indexing_maps(generic)])
        for source, loops in _picked(
            generic, max((loop for here in tie.loops for one in here for loop in one), default=-1) + 1
        ):
            tie.values.append(source)
            tie.loops.append(loops)
        return tie

    def _of_map(self, map_: ir.AffineMap) -> Loops:
        found = self._loops.get(map_)
        if found is None:
            found = self._loops[map_] = loops_of(map_)
        return found


def _around(value: ir.Value) -> Iterator[ir.Operation]:
    yield value.owner.operation
    for use in value.uses:
        user = use.owner.operation
        yield user
        if user.name == "tensor.extract" and user.parent is not None:
            yield user.parent.operation


def _picked(generic: ir.Operation, rank: int) -> Iterator[tuple[ir.Value, Loops]]:
    """Tensors of which the body picks elements, as if by indexing maps: a position that is computed stands for the loop
    that no other position is."""
    for operation in generic.regions[0].blocks[0].operations:
        if operation.operation.name != "tensor.extract" or len(operation.operation.operands) != rank + 1:
            continue
        source, *positions = operation.operation.operands
        loops = [_loop_of(position) for position in positions]
        free = [loop for loop in range(rank) if loop not in loops]
        if loops.count(None) != len(free) or len(set(loops) - {None}) + len(free) != rank:
            continue
        named = iter(free)
        yield source, [frozenset((next(named) if loop is None else loop,)) for loop in loops]


def _loop_of(position: ir.Value) -> int | None:
    index = made_by(position, "linalg.index")
    return None if index is None else int(ir.IntegerAttr(index.attributes["dim"]).value)


def _in_reshape(operation: ir.Operation, value: ir.Value, order: Order) -> Iterator[tuple[ir.Value, Order]]:
    groups = reassociation(operation)
    source, result = operation.operands[0], operation.results[0]
    coarse, fine = (source, result) if operation.name == "tensor.expand_shape" else (result, source)
    if not groups:
        return
    if value == coarse:
        yield fine, expanded(order, groups)
    else:
        found = collapsed(order, groups, ones_of(fine.type))
        if found is not None:
            yield coarse, found


def _in_slice(operation: ir.Operation, value: ir.Value, order: Order) -> Iterator[tuple[ir.Value, Order]]:
    kept = kept_dims(operation)
    if kept is None:
        return
    small = operation.results[0] if operation.name == "tensor.extract_slice" else operation.operands[0]
    if value == small and len(kept) < len(ir.DenseI64ArrayAttr(operation.attributes["static_sizes"])):
        return
    whole = order
    for other in (*list(operation.operands)[:2], *operation.results):
        if other == small:
            yield small, order_of_slice(whole, kept)
        elif isinstance(other.type, ir.RankedTensorType):
            yield other, whole


def order_of_slice(whole: Order, kept: list[int]) -> Order:
    """The order of a slice of which the dims ``kept`` remain."""
    return tuple(kept.index(dim) for dim in whole if dim in kept)


def order_of_whole(order: Order, kept: list[int], rank: int) -> Order:
    """The order of what a slice, of which the dims ``kept`` remain, is taken of or put into."""
    return placed([order.index(kept.index(dim)) if dim in kept else None for dim in range(rank)])


def kept_dims(operation: ir.Operation) -> list[int] | None:
    """The dims of a slice that are dims of the smaller tensor, found as MLIR's verifier does; None if that fails."""
    small = operation.results[0] if operation.name == "tensor.extract_slice" else operation.operands[0]
    type_ = ir.RankedTensorType(small.type)
    kept: list[int] = []
    for dim, size in enumerate(ir.DenseI64ArrayAttr(operation.attributes["static_sizes"])):
        if len(kept) < type_.rank and type_.shape[len(kept)] == size:
            kept.append(dim)
        elif size != 1:
            return None
    return kept if len(kept) == type_.rank else None
