"""Reductions over windows (window_match.py) become calls of functions of window_tile.py.

The number that the result is filled with before is where the running values start, and the pointwise nest that alone reads the
result is done by the function too, if vectors can (contraction_tails.py says which).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import func

from onnx2torch_mlir.engine.compiler import contraction_tails, threads
from onnx2torch_mlir.engine.compiler.arguments import Weights
from onnx2torch_mlir.engine.compiler.flatten import element_bytes
from onnx2torch_mlir.engine.compiler.loop_order import accesses
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address, filled_before, number_of_fill
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import bytes_on, functions, is_memref, named, symbol
from onnx2torch_mlir.engine.compiler.window_code import code_of
from onnx2torch_mlir.engine.compiler.window_filters import Filters, filters_of
from onnx2torch_mlir.engine.compiler.window_match import ELEMENTS, Found, match
from onnx2torch_mlir.engine.compiler.window_tails import Input, Tail
from onnx2torch_mlir.engine.compiler.window_taps import Taps
from onnx2torch_mlir.engine.compiler.window_tile import Window
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from onnx2torch_mlir.engine.layout import Packing

_MOST_PLACES = 8
"""Of a tile."""
_STAYS = 400 << 10
"""Bytes of lines that stay in the second-level cache beside what else windows meet."""


@dataclass
class _Program:
    """What a module's windows need beside the module: its weights, and the functions they call."""

    weights: Weights
    nests: list[ir.Operation]
    """What has not been looked at yet."""
    windows: dict[Window, _Uses] = field(default_factory=dict)


@dataclass
class _Uses:
    """A function's name, and what its calls need: tiles of so many places, channels that fill no vector."""

    name: str
    places: set[int] = field(default_factory=set)
    masked: bool = False


@dataclass(frozen=True)
class _After:
    """The tail of a window: where it was found, what is computed, and the values from outside that it uses."""

    found: contraction_tails.Found
    tail: Tail
    scalars: list[ir.Value]
    around: list[dict[int, int]]
    """How many bytes each outer loop moves those inputs that the loops around a tile move."""


def replace(module: ir.Module, weights: Weights, written: WrittenCode) -> None:
    """Let every reduction over windows of @main call a function. The module is as contractions.py takes it."""
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    program = _Program(weights, named(main, "linalg.generic"))
    while program.nests:
        found = match(program.nests.pop(0))
        if found is not None:
            _call(found, program)
    if program.windows:
        functions_ = [window.text(uses.name, uses.places, masked=uses.masked) for window, uses in program.windows.items()]
        text = "\n".join(functions_)
        written.add(module, threads.SIGNATURES + text)


def _after(found: Found, fill: ir.Operation) -> _After | None:
    """The tail of a window whose result ``fill`` makes before."""
    generic, out = found.generic, found.operands[-1]
    loops = [*found.outer, *([found.places] if found.places is not None else []), *found.channels.loops]
    sources = list(generic.operands)[:-1]
    across = len(found.channels.loops)
    sums = contraction_tails.Sums(generic, sources, generic.operands[len(sources)], out, loops, across)
    tail = contraction_tails.follow(sums, fill)
    read = code_of(tail.nest, "f", contract=False) if tail is not None else None
    if tail is None or read is None or {"row", "spread"} & set(tail.kinds):
        return None
    code, scalars = read
    inputs, around = [], list[dict[int, int]]()
    *operands, _ = zip(code.arguments, tail.kinds, tail.nest.operands, strict=True)
    for position, (name, kind, value) in enumerate(operands):
        if not is_memref(value.type):
            return None
        steps = _steps_around(found, tail, position) if kind == "part" else {}
        if steps is None:
            return None
        around += [steps] if kind == "part" else []
        if kind != "sums":
            moves = "around" if kind == "part" else kind
            inputs.append(Input(name, moves, element_bytes(ir.MemRefType(value.type).element_type)))
    if any(code.type_of(name) not in ELEMENTS for name in (*code.arguments, code.yielded)):
        return None
    names = tuple(name for name, kind, _ in operands if kind == "sums")
    return _After(tail, Tail(code, names, tuple(inputs)), scalars, around)


def _steps_around(found: Found, tail: contraction_tails.Found, position: int) -> dict[int, int] | None:
    """How many bytes each of the outer loops moves an operand of the tail; None where another loop does, or nobody knows."""
    loops = [dim for _, dims in reversed(tail.parts_of_rows(position)) for dim in reversed(dims)]
    places = [found.places] if found.places is not None else []
    if len(loops) != len([*found.outer, *places]):
        return None
    access = accesses(tail.nest)[position]
    size = element_bytes(ir.MemRefType(tail.nest.operands[position].type).element_type)
    steps = [access.step(dim) for dim in loops]
    known = [size * step for step in steps if step is not None]
    fits = len(known) == len(steps) and not any(known[len(found.outer) :])
    return dict(zip(found.outer, known, strict=False)) if fits else None


def _call(found: Found, program: _Program) -> None:
    generic = found.generic
    packing = _packing(found, program) if found.weight is not None else None
    if found.weight is not None and packing is None:
        return
    fill = filled_before(generic)
    by_pieces = found.places is None and found.weight is None
    after = _after(found, fill) if fill is not None and not by_pieces else None
    if after is not None:
        contraction_tails.prepare(after.found, generic)
    for filters in filters_of(found, _MOST_PLACES, sums=fill is None):
        _call_for(filters, found, program, fill, packing, after)
    if fill is not None:
        fill.erase()
    generic.erase()
    if after is not None:
        program.nests = [nest for nest in program.nests if nest != after.found.nest]
        contraction_tails.leave_out(after.found)


def _call_for(
    filters: Filters, found: Found, program: _Program, fill: ir.Operation | None, packing: Packing | None, after: _After | None
) -> None:
    """Put a call for these filters, or one for each part of the channels, before the nest."""
    generic, by_pieces = found.generic, found.places is None and found.weight is None
    target = generic if after is None else after.found.nest
    out = target.operands[len(target.operands) - 1]
    kinds = [element_bytes(ir.MemRefType(value.type).element_type) for value in _arrays(found, out)]
    lanes = of_host().lanes
    tail = after.tail if after is not None else None
    group, single = found.channels.group, found.along_lines
    apart = found.operands[0].step(found.channels.loop) or 1 if single else 1
    taps = Taps(found.body, lanes, len(found.taps), (kinds[0], kinds[1]), found.line(), group, single, apart, filters.together)
    channels = found.channels.count
    spread = by_pieces and fill is not None and channels is not None and channels > lanes
    # Registers hold as many vectors of sums as there is room for beside what is read.
    room = of_host().registers // 2
    most = room if spread else min(_MOST_PLACES, room // filters.together)
    window = Window(taps, len(filters.outer(found)), kinds[2], fill is not None, most, tail, spread)
    uses = program.windows.setdefault(window, _Uses(f"o2m_window_{len(program.windows)}"))
    uses.masked = uses.masked or channels is None or (channels % lanes != 0 and not spread)
    pieces = _blocks(found, lanes, kinds[0])
    if by_pieces:
        assert channels is not None
        whole, rest = (-(-channels // lanes), 0) if spread else divmod(channels, lanes)
        pieces = [one for one in (_Piece(0, lanes, whole), _Piece(whole * lanes, rest, 1)) if one.places and one.channels]
        uses.places.update(*(_variants(piece.places, most) for piece in pieces))
    else:
        uses.places |= _variants(1 if found.places is None else found.lengths[found.places], most)
    with ir.InsertionPoint(generic), generic.location:
        x, o = (address(value) for value in (generic.operands[0], out))
        w = x
        if packing is not None:
            w = program.weights.packed(packing)
        starts = [x, w, o]
        # How many bytes a channel is in each of these.
        steps = [kinds[0], kinds[1] * _tap_count(found), kinds[2]]
        if after is not None:
            named = zip(after.found.kinds[:-1], after.found.nest.operands, strict=False)
            starts += [address(value) for kind, value in named if kind != "sums"]
            steps += [each.bytes if each.kind in ("all", "column") else 0 for each in after.tail.inputs]
        around = [_weight_steps(found, packing)] if packing is not None and found.along_lines else []
        around += after.around if after is not None else []
        if filters.first:
            starts = filters.behind(starts, found, kinds[2], around, tail)
        given = list(found.scalars)
        if fill is not None:
            number = number_of_fill(fill)
            assert number is not None
            given.append(number)
        given += after.scalars if after is not None else []
        for piece in pieces:
            here = [bytes_on(start, piece.first * step) for start, step in zip(starts, steps, strict=True)]
            words = _words(found, kinds[0], kinds[2], filters, piece, around, [channels] if spread and channels else [])
            func.CallOp([], ir.FlatSymbolRefAttr.get(uses.name), [program.weights.context, *here, *given, *words])


@dataclass(frozen=True)
class _Piece:
    """So many ``channels`` (None: all, of an open number) from ``first`` on; with ``places``, that many times, which take the
    part of places."""

    first: int
    channels: int | None
    places: int | None = None


def _blocks(found: Found, lanes: int, size: int) -> list[_Piece]:
    """The channels, in blocks if the lines that windows reach, of elements of ``size`` bytes, stay in the second-level cache
    only so: each line is met again for each line of taps."""
    channels = found.channels.count
    if channels is None or found.along_lines or found.channels.group > 1 or len(found.taps) < 2 or not found.outer:
        return [_Piece(0, channels)]
    line = found.taps[-2]
    count, step = found.lengths[line], found.operands[0].step(line)
    if count is None or step is None or None in [found.lengths[dim] for dim in found.taps]:
        return [_Piece(0, channels)]
    vectors = -(-channels // lanes)
    blocks = min(vectors, -(-count * step * size // _STAYS))
    each = -(-vectors // max(blocks, 1)) * lanes
    return [_Piece(first, min(each, channels - first)) for first in range(0, channels, each)]


def _tap_count(found: Found) -> int:
    """How many taps there are; 0 where a channel has none of its own, or nobody knows."""
    lengths = [found.lengths[dim] for dim in found.taps]
    return 0 if found.along_lines or None in lengths else math.prod(length or 0 for length in lengths)


def _arrays(found: Found, out: ir.Value) -> list[ir.Value]:
    return [found.generic.operands[0], found.generic.operands[found.weight or 0], out]


def _variants(places: int | None, most: int) -> set[int]:
    """Of how many places there are tiles, ``most`` at a time, if there are so many ``places`` side by side."""
    if places is None:
        return set(range(1, most + 1))
    even = -(-places // max(1, -(-places // most))) or 1
    return {even, places % even or even}


def _words(
    found: Found, read: int, width: int, filters: Filters, piece: _Piece, around: list[dict[int, int]], covered: list[int]
) -> list[ir.Value]:
    """Counts and steps; ``read`` and ``width`` are the bytes of an element of what the function reads and writes; ``around``
    says how many bytes the outer loops move what else they move; ``covered``: the channels, if places are vectors of them."""
    sizes = Sizes(found)
    out = len(found.operands) - 1
    words: list[ir.Value] = []
    for dim in filters.outer(found):
        count = sizes.number(filters.count) if dim == found.alike and filters.count is not None else sizes.count(dim)
        words += [count, sizes.step(0, dim), sizes.step(out, dim, width)]
        words += [sizes.number(steps[dim]) for steps in around]
    if piece.places is not None and piece.channels is not None:
        words += [sizes.number(number) for number in (piece.places, piece.channels * read, piece.channels * width)]
    elif found.places is None:
        words += [sizes.number(1), sizes.number(0), sizes.number(0)]
    else:
        words += [sizes.count(found.places), sizes.step(0, found.places), sizes.step(out, found.places, width)]
    if filters.together > 1:
        assert found.alike is not None and filters.count is not None
        words += [sizes.number(filters.count), sizes.step(out, found.alike, width)]
        words += [sizes.number(steps[found.alike]) for steps in around]
    words += [sizes.number(count) for count in covered]
    words.append(sizes.count(found.channels.loop) if piece.channels is None else sizes.number(piece.channels))
    for dim in found.taps:
        words += [sizes.count(dim), sizes.step(0, dim)]
    return words


def _packing(found: Found, program: _Program) -> Packing | None:
    """How the weight is packed once, if it is one of which everything is known."""
    assert found.weight is not None
    value, access = found.generic.operands[found.weight], found.operands[found.weight]
    number = program.weights.number_of(value)
    offset = ir.MemRefType(value.type).get_strides_and_offset()[1]
    taps = [*found.taps, *([found.channels.member] if found.channels.member is not None else [])]
    of_taps = [(found.lengths[dim], access.step(dim)) for dim in taps]
    filters = found.filters() if found.along_lines else []
    of_filters = [(found.lengths[dim], access.step(dim)) for dim in filters]
    of_channels = (1, 1) if found.along_lines else (found.channels.count, access.step(found.channels.loops[-1]))
    pairs = [*of_filters, of_channels, *of_taps]
    known = [(length, step) for length, step in pairs if length is not None and step is not None]
    if number is None or offset == ir.ShapedType.get_dynamic_stride_or_offset() or len(known) != len(pairs):
        return None
    count, width = len(of_filters), 1 if found.along_lines else of_host().lanes
    return Packing(number, offset, width, known[:count], known[count], known[count + 1 :])


def _weight_steps(found: Found, packing: Packing) -> dict[int, int]:
    """How many bytes the outer loops move the packed weight."""
    steps = dict(zip(found.filters(), packing.batch_steps, strict=True))
    return {dim: steps.get(dim, 0) for dim in found.outer}
