"""Padding writes each element once: what is padded into the middle, the value into the border around it.

Bufferization would fill all of the result first. The border is cut into slabs, two for each padded dim, that fill in place.
Where a nest makes what is padded, and its sizes are known before it, it writes it into the middle itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler import pixel_rooms
from onnx2torch_mlir.engine.compiler.dim_orders import loops_of
from onnx2torch_mlir.engine.compiler.linalg_ops import fill
from onnx2torch_mlir.engine.compiler.loop_order import indexing_maps
from onnx2torch_mlir.engine.compiler.tensor_parts import Extent, Part, added, dim_of, value_of
from onnx2torch_mlir.engine.compiler.walks import functions, made_by, nested

_OWN = "o2m.padded"
"""The attribute of memory that is not to be shared."""


def fill_borders(module: ir.Module) -> None:
    """Replace every ``tensor.pad`` of @main with one value by the filled slabs around what is padded."""
    (main,) = functions(module)
    for number, operation in enumerate(nested(main)):
        if operation.name == "tensor.pad" and value_around(operation) is not None:
            _replace(operation, number)


def value_around(pad: ir.Operation) -> ir.Value | None:
    """What is around, if it does not depend on the place."""
    (terminator,) = list(pad.regions[0].blocks[0].operations)[-1:]
    value: ir.Value = terminator.operation.operands[0]
    inside = len(list(pad.regions[0].blocks[0].operations)) > 1 or value in list(pad.regions[0].blocks[0].arguments)
    return None if inside else value


def _replace(pad: ir.Operation, number: int) -> None:
    source, result = pad.operands[0], pad.results[0]
    from_, to = ir.RankedTensorType(source.type), ir.RankedTensorType(result.type)
    around = value_around(pad)
    maker = _maker(pad)
    place = pad if maker is None else _beginning(maker)
    for size in [] if maker is None else [*_made_sizes(maker), *list(pad.operands)[1:]]:
        _make_known_at(place, size)
    with ir.InsertionPoint(place), pad.location:
        low, high = (_widths(pad, name, first) for name, first in (("static_low", 1), ("static_high", 1 + _dynamic(pad))))
        varying = [d for d in range(from_.rank) if from_.is_dynamic_dim(d)]
        made = {} if maker is None else dict(zip(varying, _made_sizes(maker), strict=True))
        inner = [made[d] if d in made else dim_of(source, d) for d in range(from_.rank)]
        ends = [added(a, b) for a, b in zip(low, inner, strict=True)]
        outer = [
            added(end, width) if to.is_dynamic_dim(d) else int(to.get_dim_size(d))
            for d, (end, width) in enumerate(zip(ends, high, strict=True))
        ]
        sizes = [value_of(size) for d, size in enumerate(outer) if to.is_dynamic_dim(d)]
        room = pixel_rooms.with_room(to) if _is_image(pad, low[-1], high[-1]) else to
        whole = ir.Operation.create("tensor.empty", [room], sizes).results[0]
        if maker is not None:
            # Equal ones would become one, which a contraction reads while it makes what is padded next.
            whole.owner.attributes[_OWN] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
        for dim in range(to.rank):
            for start, width in ((0, low[dim]), (ends[dim], high[dim])):
                if isinstance(width, int) and width == 0:
                    continue
                offsets = [*low[:dim], start, *[0] * (to.rank - dim - 1)]
                slab = _part(offsets, [*inner[:dim], width, *outer[dim + 1 :]])
                whole = slab.put(fill(around, slab.of(whole)), whole)
        middle = _part(low, inner)
        if maker is not None:
            maker.operands[len(maker.operands) - 1] = middle.of(whole)
    with ir.InsertionPoint(pad), pad.location:
        whole = middle.put(source, whole)
        if room != to:
            whole = pixel_rooms.without_room(whole, to)
    result.replace_all_uses_with(whole)
    pad.erase()


def _maker(pad: ir.Operation) -> ir.Operation | None:
    """The nest that makes what is padded, if it can write it into the middle of the result."""
    maker = made_by(pad.operands[0], "linalg.generic")
    around = value_around(pad)
    if maker is None or around is None or maker.block != pad.block or len(maker.results) != 1:
        return None
    if made_by(around, "arith.constant") is None or made_by(maker.operands[len(maker.operands) - 1], "tensor.empty") is None:
        return None
    beginning = _beginning(maker)
    if not all(_may_be_known_at(beginning, size) for size in (*_made_sizes(maker), *list(pad.operands)[1:])):
        return None
    # What reads it besides has to take it as it lies there.
    others = [use.owner.operation for use in pad.operands[0].uses if use.owner.operation != pad]
    return maker if all(other.name == "linalg.generic" for other in others) else None


def _made_sizes(maker: ir.Operation) -> list[ir.Value]:
    """The sizes that a nest's result has along its open dims."""
    return list(maker.operands[len(maker.operands) - 1].owner.operation.operands)


def _may_be_known_at(place: ir.Operation, size: ir.Value) -> bool:
    """Whether a size is there at ``place``, or can be computed there of sizes that are."""
    made = made_by(size)
    if made is None or made.block != place.block or made.is_before_in_block(place):
        return True
    return made.name.startswith("arith.") and all(_may_be_known_at(place, operand) for operand in made.operands)


def _make_known_at(place: ir.Operation, size: ir.Value) -> None:
    made = made_by(size)
    if made is not None and made.block == place.block and not made.is_before_in_block(place):
        for operand in made.operands:
            _make_known_at(place, operand)
        made.move_before(place)


def _beginning(maker: ir.Operation) -> ir.Operation:
    """The first of the operations that make what ``maker`` alone reads: nothing may come between sums and their tail."""
    first = maker
    for value in maker.operands:
        made = made_by(value, "linalg.generic")
        if made is not None and made.block == maker.block and len(list(value.uses)) == 1:
            fill = made_by(made.operands[len(made.operands) - 1], "linalg.fill")
            operations = [made]
            # One that equal sums share is where the first of them is; each gets its own later (destinations.py).
            if fill is not None and fill.block == maker.block and len(list(fill.results[0].uses)) == 1:
                operations.append(fill)
            for operation in operations:
                first = operation if operation.is_before_in_block(first) else first
    return first


def _is_image(pad: ir.Operation, *widths: Extent) -> bool:
    """Whether its last axis, padded by these widths, is not padded, and windows alone read it."""
    users = [use.owner.operation for use in pad.results[0].uses]
    return all(isinstance(width, int) and width == 0 for width in widths) and bool(users) and all(map(_has_windows, users))


def _has_windows(operation: ir.Operation) -> bool:
    if operation.name == "tensor.expand_shape":
        # Into groups of channels.
        return all(_has_windows(use.owner.operation) for use in operation.results[0].uses)
    if operation.name != "linalg.generic":
        return False
    return any(len(loops) > 1 for map_ in indexing_maps(operation) for loops in loops_of(map_))


def _dynamic(pad: ir.Operation) -> int:
    return list(ir.DenseI64ArrayAttr(pad.attributes["static_low"])).count(ir.ShapedType.get_dynamic_size())


def _widths(pad: ir.Operation, name: str, first: int) -> list[Extent]:
    given = iter(list(pad.operands)[first:])
    dynamic = ir.ShapedType.get_dynamic_size()
    return [next(given) if width == dynamic else int(width) for width in ir.DenseI64ArrayAttr(pad.attributes[name])]


def _part(offsets: Sequence[Extent], sizes: Sequence[Extent]) -> Part:
    """A part whose place is told along every axis."""
    return Part(dict(enumerate(zip(offsets, sizes, strict=True))))
