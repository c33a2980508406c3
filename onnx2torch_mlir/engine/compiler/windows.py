"""Reductions over windows whose channels lie side by side become calls of functions of window_tile.py.

A ``linalg.generic`` on memrefs is taken if a loop that is not reduced moves the input and the result densely, and its body only
computes (arith). A second operand, if the body uses it, is a weight that moves with the channels and the taps. The number that
the result is filled with before is where the running values start, and the pointwise nest that alone reads the result is done
by the function too, if vectors can (contraction_tails.py says which).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import func

from onnx2torch_mlir.engine.compiler import contraction_tails, threads
from onnx2torch_mlir.engine.compiler.arguments import Weights
from onnx2torch_mlir.engine.compiler.flatten import element_bytes
from onnx2torch_mlir.engine.compiler.loop_order import Access, accesses, coefficient, extents, iterators, length_of, origin
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address, filled_before, number_of_fill
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import bytes_on, functions, is_memref, named, symbol
from onnx2torch_mlir.engine.compiler.window_channels import Channels, channels_of
from onnx2torch_mlir.engine.compiler.window_code import code_of
from onnx2torch_mlir.engine.compiler.window_taps import Body, Line, Taps
from onnx2torch_mlir.engine.compiler.window_tile import MOST_PLACES, Input, Tail, Window
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from onnx2torch_mlir.engine.layout import Packing

_ELEMENTS = ("f16", "f32", "f64", "i8", "i16", "i32", "i64")
_MOST_TAPS = 4
_FEW_CHANNELS = 4
_MANY_CHANNELS = 512
"""As many numbers are better summed up row by row in memory than some at a time in registers."""


@dataclass(frozen=True)
class _Found:
    """A nest over windows: the numbers of its operands, and its loops by what they do."""

    generic: ir.Operation
    operands: list[Access]
    lengths: list[int | None]
    weight: int | None
    outer: list[int]
    places: int | None
    channels: Channels
    taps: list[int]
    """But for the loop over a group's elements."""
    body: Body
    scalars: list[ir.Value]

    def length(self, dim: int) -> tuple[int, int]:
        """An operand and its axis whose size is the number of turns of loop ``dim``."""
        found = length_of(self.operands, dim)
        assert found is not None
        return found

    def fixed_length(self, dim: int) -> int | None:
        """The number of turns of loop ``dim``, where the types tell."""
        return self.lengths[dim]

    def line(self) -> Line | None:
        """How the innermost taps lie to the places, if they are of one axis and it is known how many there are."""
        taps = self.lengths[self.taps[-1]]
        if self.places is None or taps is None:
            return None
        for expression in self.operands[0].map.results:
            stride, dilation = coefficient(expression, self.places), coefficient(expression, self.taps[-1])
            if stride and dilation:
                return Line(taps, stride, dilation) if stride > 0 and dilation > 0 else None
        return None


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


def replace(module: ir.Module, weights: Weights, written: WrittenCode) -> None:
    """Let every reduction over windows of @main call a function. The module is as contractions.py takes it."""
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    program = _Program(weights, named(main, "linalg.generic"))
    while program.nests:
        found = _match(program.nests.pop(0))
        if found is not None:
            _call(found, program)
    if program.windows:
        functions_ = [window.text(uses.name, uses.places, masked=uses.masked) for window, uses in program.windows.items()]
        text = "\n".join(functions_)
        written.add(module, threads.SIGNATURES + text)


def _match(generic: ir.Operation) -> _Found | None:
    reduced = iterators(generic)
    count = len(generic.operands)
    if not any(reduced) or count not in (2, 3) or not all(is_memref(value.type) for value in generic.operands):
        return None
    operands = accesses(generic)
    if any(coefficient(e, dim) is None for access in operands for e in access.map.results for dim in range(len(reduced))):
        return None
    if any(origin(expression) for access in operands for expression in access.map.results):
        return None
    lengths = extents(operands, len(reduced))
    if any(length_of(operands, dim) is None for dim in range(len(reduced))):
        return None
    loops = [dim for dim in range(len(reduced)) if lengths[dim] != 1]
    read = _body(generic)
    if read is None:
        return None
    body, scalars = read
    x, out = operands[0], operands[-1]
    weight = 1 if body.w is not None else None
    channels = channels_of(operands, lengths, reduced, grouped=weight is not None)
    if channels is None or (lengths[channels.loop] or _FEW_CHANNELS) < _FEW_CHANNELS / channels.group:
        return None
    taps = [dim for dim in loops if reduced[dim] and dim != channels.member]
    if not taps or len(taps) > _MOST_TAPS:
        return None
    others = [dim for dim in loops if not reduced[dim] and dim not in channels.loops]
    if weight is not None and (not operands[1].moves(channels.loop) or any(operands[1].moves(dim) for dim in others)):
        return None
    if any(not out.moves(dim) for dim in others) or any(out.moves(dim) for dim in taps):
        return None
    steps = {dim: out.step(dim) for dim in others if x.moves(dim)}
    known = [dim for dim, step in steps.items() if step is not None]
    places = min(known, key=lambda dim: abs(steps[dim] or 0)) if known else next(reversed(steps), None)
    if weight is None and not any(sum(bool(coefficient(e, dim)) for dim in loops) > 1 for e in x.map.results):
        # Whole rows are summed up, which share nothing: side by side lie vectors of channels, as many as there are few of.
        if (lengths[channels.loop] or _MANY_CHANNELS) >= _MANY_CHANNELS:
            return None
        places = None
    outer = [dim for dim in others if dim != places]
    return _Found(generic, operands, lengths, weight, outer, places, channels, taps, body, scalars)


def _body(generic: ir.Operation) -> tuple[Body, list[ir.Value]] | None:
    """The body of a nest, and the values from outside that it uses; None if it is not of the kind described."""
    read = code_of(generic, "b", contract=True)
    if read is None:
        return None
    code, scalars = read
    if any(code.type_of(argument) not in _ELEMENTS for argument in code.arguments):
        return None
    weight = code.arguments[1] if len(code.arguments) == 3 and code.used(code.arguments[1]) else None
    return Body(code, code.arguments[0], weight, code.arguments[-1]), scalars


def _after(found: _Found, fill: ir.Operation) -> _After | None:
    """The tail of a window whose result ``fill`` makes before."""
    generic, out = found.generic, found.operands[-1]
    loops = [*found.outer, *([found.places] if found.places is not None else []), *found.channels.loops]
    sources = list(generic.operands)[:-1]
    across = len(found.channels.loops)
    sums = contraction_tails.Sums(generic, sources, generic.operands[len(sources)], out, loops, across)
    tail = contraction_tails.follow(sums, fill)
    read = code_of(tail.nest, "f", contract=False) if tail is not None else None
    if tail is None or read is None or {"row", "part", "spread"} & set(tail.kinds):
        return None
    code, scalars = read
    inputs = []
    *operands, _ = zip(code.arguments, tail.kinds, tail.nest.operands, strict=True)
    for name, kind, value in operands:
        if not is_memref(value.type):
            return None
        if kind != "sums":
            inputs.append(Input(name, kind, element_bytes(ir.MemRefType(value.type).element_type)))
    if any(code.type_of(name) not in _ELEMENTS for name in (*code.arguments, code.yielded)):
        return None
    names = tuple(name for name, kind, _ in operands if kind == "sums")
    return _After(tail, Tail(code, names, tuple(inputs)), scalars)


def _call(found: _Found, program: _Program) -> None:
    generic = found.generic
    packing = _packing(found, program) if found.weight is not None else None
    if found.weight is not None and packing is None:
        return
    fill = filled_before(generic)
    spread = found.places is None and found.weight is None
    after = _after(found, fill) if fill is not None and not spread else None
    if after is not None:
        contraction_tails.prepare(after.found, generic)
    target = generic if after is None else after.found.nest
    out = target.operands[len(target.operands) - 1]
    kinds = [element_bytes(ir.MemRefType(value.type).element_type) for value in _arrays(found, out)]
    lanes = of_host().lanes
    tail = after.tail if after is not None else None
    taps = Taps(found.body, lanes, len(found.taps), (kinds[0], kinds[1]), found.line(), found.channels.group)
    window = Window(taps, len(found.outer), kinds[2], fill is not None, tail)
    uses = program.windows.setdefault(window, _Uses(f"o2m_window_{len(program.windows)}"))
    channels = found.channels.count
    uses.masked = uses.masked or channels is None or channels % lanes != 0
    pieces: list[_Piece | None] = [None]
    if spread:
        assert channels is not None
        whole, rest = divmod(channels, lanes)
        pieces = [piece for piece in (_Piece(0, whole, lanes), _Piece(whole * lanes, 1, rest)) if piece.places * piece.channels]
        uses.places.update(*(_variants(piece.places) for piece in pieces if piece is not None))
    else:
        uses.places |= _variants(1 if found.places is None else found.lengths[found.places])
    with ir.InsertionPoint(generic), generic.location:
        x, o = (address(value) for value in (generic.operands[0], out))
        w = x
        if packing is not None:
            w = program.weights.packed(packing)
        given = [x, w, o]
        if after is not None:
            named = zip(after.found.kinds[:-1], after.found.nest.operands, strict=False)
            given += [address(value) for kind, value in named if kind != "sums"]
        given += found.scalars
        if fill is not None:
            number = number_of_fill(fill)
            assert number is not None
            given.append(number)
        given += after.scalars if after is not None else []
        for piece in pieces:
            if piece is not None:
                given[0], given[2] = (bytes_on(start, piece.first * kind) for start, kind in ((x, kinds[0]), (o, kinds[2])))
            words = _words(found, kinds[0], kinds[2], piece)
            func.CallOp([], ir.FlatSymbolRefAttr.get(uses.name), [program.weights.context, *given, *words])
    if fill is not None:
        fill.erase()
    generic.erase()
    if after is not None:
        program.nests = [nest for nest in program.nests if nest != after.found.nest]
        contraction_tails.leave_out(after.found)


@dataclass(frozen=True)
class _Piece:
    """Channels from ``first`` on that take the part of places: ``places`` times so many."""

    first: int
    places: int
    channels: int


def _arrays(found: _Found, out: ir.Value) -> list[ir.Value]:
    return [found.generic.operands[0], found.generic.operands[found.weight or 0], out]


def _variants(places: int | None) -> set[int]:
    """Of how many places there are tiles, if there are so many ``places`` side by side."""
    if places is None:
        return set(range(1, MOST_PLACES + 1))
    even = -(-places // max(1, -(-places // MOST_PLACES))) or 1
    return {even, places % even or even}


def _words(found: _Found, read: int, width: int, piece: _Piece | None) -> list[ir.Value]:
    """Counts and steps; ``read`` and ``width`` are the bytes of an element of what the function reads and writes."""
    sizes = Sizes(found)
    out = len(found.operands) - 1
    words: list[ir.Value] = []
    for dim in found.outer:
        words += [sizes.count(dim), sizes.step(0, dim), sizes.step(out, dim, width)]
    if piece is not None:
        words += [sizes.number(number) for number in (piece.places, piece.channels * read, piece.channels * width)]
    elif found.places is None:
        words += [sizes.number(1), sizes.number(0), sizes.number(0)]
    else:
        words += [sizes.count(found.places), sizes.step(0, found.places), sizes.step(out, found.places, width)]
    known = found.channels.count if piece is None else piece.channels
    words.append(sizes.count(found.channels.loop) if known is None else sizes.number(known))
    for dim in found.taps:
        words += [sizes.count(dim), sizes.step(0, dim)]
    return words


def _packing(found: _Found, program: _Program) -> Packing | None:
    """How the weight is packed once, if it is one of which everything is known."""
    assert found.weight is not None
    value, access = found.generic.operands[found.weight], found.operands[found.weight]
    number = program.weights.number_of(value)
    offset = ir.MemRefType(value.type).get_strides_and_offset()[1]
    taps = [*found.taps, *([found.channels.member] if found.channels.member is not None else [])]
    of_taps = [(found.lengths[dim], access.step(dim)) for dim in taps]
    pairs = [(found.channels.count, access.step(found.channels.loops[-1])), *of_taps]
    known = [(length, step) for length, step in pairs if length is not None and step is not None]
    if number is None or offset == ir.ShapedType.get_dynamic_stride_or_offset() or len(known) != len(pairs):
        return None
    return Packing(number, offset, of_host().lanes, [], known[0], known[1:])
