"""Reductions over windows whose channels lie side by side become calls of functions of window_tile.py.

A ``linalg.generic`` on memrefs is taken if a loop that is not reduced moves the input and the result densely, and its body only
computes (arith). A second operand, if the body uses it, is a weight that moves with the channels and the taps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith, func, memref

from onnx2torch_mlir.engine.compiler.arguments import load_word
from onnx2torch_mlir.engine.compiler.contraction_sizes import weight_of
from onnx2torch_mlir.engine.compiler.flatten import element_bytes, parts, without_offset
from onnx2torch_mlir.engine.compiler.loop_order import Access, accesses, coefficient, extents, iterators, origin
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import functions, i64, is_memref, nested, pointer, symbol
from onnx2torch_mlir.engine.compiler.window_tile import Body, Window
from onnx2torch_mlir.engine.layout import Packing

_ELEMENTS = ("f16", "f32", "f64", "i8", "i16", "i32", "i64")
_MOST_TAPS = 4
_FEW_CHANNELS = 4
_CONTRACT = "{fastmath = #arith.fastmath<contract>}"


@dataclass(frozen=True)
class _Found:
    """A nest over windows: the numbers of its operands, and its loops by what they do."""

    generic: ir.Operation
    operands: list[Access]
    lengths: list[int | None]
    weight: int | None
    outer: list[int]
    places: int | None
    channel: int
    taps: list[int]
    body: Body
    scalars: list[ir.Value]


@dataclass
class _Program:
    """The words of @main's arguments, how many there are, the weights among them, and what is to be packed of these."""

    words: ir.Value
    count: int
    weights: dict[int, int]
    before: int
    packings: list[Packing] = field(default_factory=list)
    names: dict[Window, str] = field(default_factory=dict)


def replace(module: ir.Module, weights: dict[int, int], words: int, packings: Sequence[Packing]) -> list[Packing]:
    """Let every reduction over windows of @main call a function; what is to be packed for it, behind ``packings``.

    The module is as contractions.py takes it, and the arguments mean the same.
    """
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    program = _Program(main.regions[0].blocks[0].arguments[1], words, weights, len(packings))
    for operation in list(nested(main)):
        if operation.name == "linalg.generic":
            found = _match(operation)
            if found is not None:
                _call(found, program)
    if program.names:
        text = "\n".join(window.text(name) for window, name in program.names.items())
        fragment = ir.Module.parse("module {" + text + "}", context=module.context)
        for operation in list(fragment.body.operations):
            operation.operation.detach_from_parent()
            module.body.append(operation)
    return program.packings


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
    if any(_length(operands, dim) is None for dim in range(len(reduced))):
        return None
    loops = [dim for dim in range(len(reduced)) if lengths[dim] != 1]
    read = _body(generic)
    if read is None:
        return None
    body, scalars = read
    x, out = operands[0], operands[-1]
    channels = [dim for dim in loops if not reduced[dim] and x.step(dim) == 1 and out.step(dim) == 1]
    taps = [dim for dim in loops if reduced[dim]]
    if len(channels) != 1 or not taps or len(taps) > _MOST_TAPS or (lengths[channels[0]] or _FEW_CHANNELS) < _FEW_CHANNELS:
        return None
    weight = 1 if body.w is not None else None
    others = [dim for dim in loops if not reduced[dim] and dim not in channels]
    if weight is not None and (not _moves(operands[1], channels[0]) or any(_moves(operands[1], dim) for dim in others)):
        return None
    if any(not _moves(out, dim) for dim in others) or any(_moves(out, dim) for dim in taps):
        return None
    steps = {dim: out.step(dim) for dim in others if _moves(x, dim)}
    known = [dim for dim, step in steps.items() if step is not None]
    places = min(known, key=lambda dim: abs(steps[dim] or 0)) if known else next(reversed(steps), None)
    outer = [dim for dim in others if dim != places]
    return _Found(generic, operands, lengths, weight, outer, places, channels[0], taps, body, scalars)


def _moves(access: Access, dim: int) -> bool:
    return any(coefficient(expression, dim) for expression in access.map.results)


def _length(operands: Sequence[Access], dim: int) -> tuple[int, int] | None:
    """An operand and its axis whose size is the number of turns of loop ``dim``."""
    for number, access in enumerate(operands):
        for axis, expression in enumerate(access.map.results):
            if isinstance(expression, ir.AffineDimExpr) and expression.position == dim:
                return number, axis
    return None


def _body(generic: ir.Operation) -> tuple[Body, list[ir.Value]] | None:
    """The body of a nest, and the values from outside that it uses; None if it is not of the kind described."""
    block = generic.regions[0].blocks[0]
    arguments = list(block.arguments)
    if any(str(argument.type) not in _ELEMENTS for argument in arguments):
        return None
    names: dict[ir.Value, str] = {argument: f"%a{number}" for number, argument in enumerate(arguments)}
    types = {name: str(value.type) for value, name in names.items()}
    scalars: list[ir.Value] = []
    found: list[tuple[str, str, tuple[str, ...], str, str]] = []
    *operations, terminator = (operation.operation for operation in block.operations)
    for operation in operations:
        plain = operation.name.startswith("arith.") and operation.name != "arith.constant"
        if not plain or len(operation.results) != 1 or len(operation.regions):
            return None
        for operand in operation.operands:
            if operand not in names:
                names[operand] = f"%e{len(scalars)}"
                types[names[operand]] = str(operand.type)
                scalars.append(operand)
        result = operation.results[0]
        names[result] = f"%t{len(found)}"
        types[names[result]] = str(result.type)
        attributes = {name: operation.attributes[name] for name in operation.attributes}
        text = "{" + ", ".join(f"{name} = {value}" for name, value in attributes.items()) + "}"
        if operation.name in ("arith.mulf", "arith.addf"):
            text = _CONTRACT
        operands = tuple(names[operand] for operand in operation.operands)
        found.append((names[result], operation.name, operands, text, str(result.type)))
    yielded = list(terminator.operands)
    if len(yielded) != 1 or yielded[0] not in names or not all(re.fullmatch(r"[if]\d+|bf16", kind) for kind in types.values()):
        return None
    running = arguments[-1]
    weight = arguments[1] if len(arguments) == 3 and list(arguments[1].uses) else None
    inside = tuple(types.items())
    outside = tuple(names[value] for value in scalars)
    body = Body(tuple(found), names[yielded[0]], "%a0", None if weight is None else "%a1", names[running], inside, outside)
    return body, scalars


def _call(found: _Found, program: _Program) -> None:
    generic = found.generic
    packing = _packing(found, program) if found.weight is not None else None
    if found.weight is not None and packing is None:
        return
    kinds = [element_bytes(ir.MemRefType(generic.operands[number].type).element_type) for number in (0, found.weight or 0, -1)]
    window = Window(found.body, of_host().lanes, len(found.outer), len(found.taps), (kinds[0], kinds[1], kinds[2]))
    name = program.names.setdefault(window, f"o2m_window_{len(program.names)}")
    with ir.InsertionPoint(generic), generic.location:
        sizes = _Sizes(found)
        out = len(found.operands) - 1
        words: list[ir.Value] = []
        for dim in found.outer:
            words += [sizes.count(dim), sizes.step(0, dim), sizes.step(out, dim)]
        if found.places is None:
            words += [sizes.number(1), sizes.number(0), sizes.number(0)]
        else:
            words += [sizes.count(found.places), sizes.step(0, found.places), sizes.step(out, found.places)]
        words.append(sizes.count(found.channel))
        for dim in found.taps:
            words += [sizes.count(dim), sizes.step(0, dim)]
        x, o = (parts(generic.operands[n], without_offset(ir.MemRefType(generic.operands[n].type)))[0] for n in (0, out))
        w = x
        if packing is not None:
            place = program.count + 2 + program.before + len(program.packings)
            w = load_word(program.words, place, pointer())
            program.packings.append(packing)
        func.CallOp([], ir.FlatSymbolRefAttr.get(name), [x, w, o, *found.scalars, *words])
    generic.erase()


def _packing(found: _Found, program: _Program) -> Packing | None:
    """How the weight is packed once, if it is one of which everything is known."""
    assert found.weight is not None
    value, access = found.generic.operands[found.weight], found.operands[found.weight]
    number = weight_of(value, program.words, program.weights)
    offset = ir.MemRefType(value.type).get_strides_and_offset()[1]
    dims = [found.channel, *found.taps]
    pairs = [(found.lengths[dim], access.step(dim)) for dim in dims]
    known = [(length, step) for length, step in pairs if length is not None and step is not None]
    if number is None or offset == ir.ShapedType.get_dynamic_stride_or_offset() or len(known) != len(dims):
        return None
    return Packing(number, offset, of_host().lanes, [], known[0], known[1:])


class _Sizes:
    """Counts of loops, and steps of operands in bytes, as i64 values at the insertion point."""

    def __init__(self, found: _Found) -> None:
        self.found = found

    def number(self, value: int) -> ir.Value:
        """A constant."""
        return arith.ConstantOp(ir.IntegerType.get_signless(64), i64(value)).result

    def count(self, dim: int) -> ir.Value:
        """How many turns a loop has."""
        fixed = self.found.lengths[dim]
        if fixed is not None:
            return self.number(fixed)
        place = _length(self.found.operands, dim)
        assert place is not None
        return self._metadata(place[0], 2 + place[1])

    def step(self, operand: int, dim: int) -> ir.Value:
        """How far an operand moves when the loop turns."""
        access = self.found.operands[operand]
        rank = len(access.map.results)
        total = self.number(0)
        for axis, expression in enumerate(access.map.results):
            factor = coefficient(expression, dim)
            if factor:
                stride = access.strides[axis]
                far = self.number(stride) if stride is not None else self._metadata(operand, 2 + rank + axis)
                total = arith.AddIOp(total, arith.MulIOp(far, self.number(factor)).result).result
        kind = ir.MemRefType(self.found.generic.operands[operand].type).element_type
        return arith.MulIOp(total, self.number(element_bytes(kind))).result

    def _metadata(self, operand: int, place: int) -> ir.Value:
        found = memref.ExtractStridedMetadataOp(self.found.generic.operands[operand]).results[place]
        return arith.IndexCastOp(ir.IntegerType.get_signless(64), found).result
