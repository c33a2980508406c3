"""Sums of products of bytes become calls of the driver of integers, whatever their shape, layout, window or zero points.

A ``linalg.generic`` on memrefs is taken if its body adds products of two bytes, each less its zero point, to an i32
(integer_match.py), or to an i64 (integer_sums.py). Weights whose zero point is known are packed once, before the first call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch_mlir import ir
from torch_mlir.dialects import arith, func, llvm, memref

from onnx2torch_mlir.engine.compiler import (
    call_memory,
    contraction_tails,
    integer_driver,
    integer_forms,
    integer_sums,
    integer_winograd,
    integer_zeros,
    tail_calls,
    threads,
    winograd,
    winograd_forms,
)
from onnx2torch_mlir.engine.compiler.arguments import Weights
from onnx2torch_mlir.engine.compiler.contraction_kinds import BLOCK_COLUMNS, FEW_ROWS
from onnx2torch_mlir.engine.compiler.contraction_match import all_known
from onnx2torch_mlir.engine.compiler.integer_forms import IntegerForm
from onnx2torch_mlir.engine.compiler.integer_match import IntegerContraction, Side, match
from onnx2torch_mlir.engine.compiler.integer_turns import Kind
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address, fill_before, where
from onnx2torch_mlir.engine.compiler.outlined import Outlined
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import constant_of, functions, is_memref, named, pointer, symbol
from onnx2torch_mlir.engine.compiler.written_code import WrittenCode
from onnx2torch_mlir.engine.layout import Packing

_SIGN = 128
_MANY_PANELS = 8
"""Of which half a one less saves nothing worth its code."""


@dataclass
class _Program:
    """What a module's contractions need beside the module: its weights, and the functions they call."""

    weights: Weights
    tails: Outlined
    nests: list[ir.Operation]
    """What has not been looked at yet."""
    with_winograd: bool
    kinds: set[Kind] = field(default_factory=set)
    forms: set[IntegerForm] = field(default_factory=set)
    """What packed weights may be."""
    has_winograd: bool = False
    has_halves: bool = False
    """Whether the last panel of some columns is at most half full, and one of few."""


def replace(
    module: ir.Module, weights: Weights, tails: Outlined, written: WrittenCode, *, with_winograd: bool
) -> None:
    """Let every contraction of bytes in @main call the driver, as contractions.replace does those of float32."""
    (main,) = (f for f in functions(module) if symbol(f) == "main")
    program = _Program(weights, tails, named(main, "linalg.generic"), with_winograd)
    while program.nests:
        found = match(program.nests.pop(0))
        if found is None or not found.columns:
            continue
        if not found.is_wide:
            _call(found, program)
        elif (narrow := integer_sums.narrow(found)) is not None:
            program.nests.insert(0, narrow)
    if program.kinds or program.has_winograd:
        declared = threads.SIGNATURES + call_memory.SIGNATURES
        which = {"has_halves": program.has_halves, "with_winograd": program.has_winograd}
        text = integer_driver.functions_for(of_host(), program.kinds, program.forms, **which)
        written.add(module, declared + text)


def _call(found: IntegerContraction, program: _Program) -> None:
    packing = _packing(found, program)
    rows = all_known([found.fixed_length(dim) for dim in found.rows])
    if packing is None and rows is not None and math.prod(rows) < FEW_ROWS:
        return
    generic = found.generic
    fill = fill_before(generic)
    unknown = integer_zeros.unknown(found)
    tail = _tail(found, fill) if not unknown else None
    if tail is not None:
        contraction_tails.prepare(tail, generic)
    with ir.InsertionPoint(generic), generic.location:
        place = ir.InsertionPoint(generic)
        if unknown:
            place = where(integer_zeros.fit(unknown), generic, fill)
        elif fill is not None:
            fill.erase()
        with place:
            _emit(found, program, packing, tail, zeroed=fill is not None)
    generic.erase()
    if tail is not None:
        program.nests = [nest for nest in program.nests if nest != tail.nest]
        contraction_tails.leave_out(tail)


def _tail(found: IntegerContraction, fill: ir.Operation | None) -> contraction_tails.Found | None:
    """What follows the sums one by one."""
    if len(found.columns) != 1:
        return None
    operands = list(found.generic.operands)
    loops = [*found.batches, *found.rows, *found.columns]
    sums = contraction_tails.Sums(found.generic, operands[: found.out], operands[found.out], found.operands[found.out], loops)
    return contraction_tails.follow(sums, fill)


def _emit(
    found: IntegerContraction,
    program: _Program,
    packing: Packing | None,
    tail: contraction_tails.Found | None,
    *,
    zeroed: bool,
) -> None:
    """The call of the driver at the insertion point."""
    program.has_halves = program.has_halves or _has_half(found)
    image = integer_winograd.match(found, packing) if program.with_winograd and zeroed else None
    if image is not None and packing is not None:
        _emit_winograd(found, image, program, packing, tail)
        return
    sizes = Sizes(found)
    left, right, out = found.left.operand, found.right.operand, found.out
    zeros = _zeros(found) if packing is None else None
    columns = 0 if packing else len(found.columns)
    kind = Kind(len(found.batches), len(found.rows), columns, len(found.sums), zeros is not None)
    program.kinds.add(kind)
    if packing is None:
        b = address(found.generic.operands[right])
        steps = [sizes.step(right, dim) for dim in found.batches]
    else:
        program.forms |= integer_forms.possible(of_host(), packing)
        b = program.weights.packed(packing)
        steps = [sizes.number(step) for step in packing.batch_steps]
    words: list[ir.Value] = []
    for dim, step in zip(found.batches, steps, strict=True):
        words += [sizes.count(dim), sizes.step(left, dim), step, sizes.step(out, dim)]
    for dim in found.rows:
        words += [sizes.count(dim), sizes.step(left, dim), sizes.step(out, dim)]
    if packing is None:
        for dim in found.columns:
            words += [sizes.count(dim), sizes.step(right, dim)]
    else:
        words.append(sizes.number(packing.columns[0]))
    for dim in found.sums:
        words += [sizes.count(dim), sizes.step(left, dim), sizes.step(right, dim)]
    words.append(sizes.count_of(_run(found)))
    nowhere = llvm.ZeroOp(pointer()).result
    flag = arith.ConstantOp(ir.IntegerType.get_signless(1), ir.BoolAttr.get(not zeroed)).result
    a = address(found.generic.operands[left])
    given = [program.weights.context, a, b, a if tail is not None else address(found.generic.operands[out])]
    given += [nowhere if zeros is None else address(zeros), flag]
    given += [*_conversion(found, found.left), *_conversion(found, found.right)]
    with tail_calls.handed_on(tail, program.tails, [BLOCK_COLUMNS]) as told:
        func.CallOp([], ir.FlatSymbolRefAttr.get(kind.name), [*given, *words, *told])


def _emit_winograd(
    found: IntegerContraction, image: winograd.Image, program: _Program, packing: Packing, tail: contraction_tails.Found | None
) -> None:
    """The call of what does a convolution by Winograd's algorithm at the insertion point."""
    program.has_winograd = True
    weights = program.weights.packed(winograd.packing_of(packing))
    a, out = (address(found.generic.operands[number]) for number in (found.left.operand, found.out))
    pointers = [program.weights.context, a, weights, a if tail is not None else out]
    with tail_calls.handed_on(tail, program.tails, [BLOCK_COLUMNS]) as told:
        more = [*_conversion(found, found.left), *told]
        winograd.call(winograd_forms.INTEGERS, Sizes(found), image, pointers, more)


def _has_half(found: IntegerContraction) -> bool:
    """Whether one vector holds the columns that are left after a few whole panels: to compile tiles for it pays only then."""
    lengths, unit = all_known([found.fixed_length(dim) for dim in found.columns]), of_host()
    if lengths is None:
        return False
    panels, left = divmod(math.prod(lengths), unit.columns)
    return 0 < left <= unit.lanes and panels < _MANY_PANELS


def _run(found: IntegerContraction) -> list[int]:
    """The innermost dims summed over along which the left operand is dense."""
    access, run, length = found.operands[found.left.operand], list[int](), 1
    for dim in reversed(found.sums):
        if access.step(dim) != length:
            break
        run.insert(0, dim)
        fixed = found.fixed_length(dim)
        if fixed is None:
            break
        length *= fixed
    return run


def _zeros(found: IntegerContraction) -> ir.Value | None:
    """The zero points of the columns, where each has its own."""
    number = found.right.number
    value = None if number is None else found.generic.operands[number]
    return value if value is not None and is_memref(value.type) and ir.MemRefType(value.type).rank else None


def _conversion(found: IntegerContraction, side: Side) -> list[ir.Value]:
    """Flip and bias of an operand (integer_packing.py), but for the zero points of columns."""
    byte, word = ir.IntegerType.get_signless(8), ir.IntegerType.get_signless(16)
    flip = arith.ConstantOp(byte, ir.IntegerAttr.get(byte, -_SIGN if side.signed else 0)).result
    bias = arith.ConstantOp(word, ir.IntegerAttr.get(word, _SIGN if side.signed else 0)).result
    zero = side.zero
    if side.number is not None and not (side is found.right and _zeros(found) is not None):
        zero = found.generic.operands[side.number]
        if is_memref(zero.type):
            zero = memref.LoadOp(zero, []).result
    if zero is not None:
        bias = arith.AddIOp(bias, arith.TruncIOp(word, zero).result).result
    return [flip, bias]


def _packing(found: IntegerContraction, program: _Program) -> Packing | None:
    """How the right operand is packed once, if it is a weight of which everything is known."""
    side, access = found.right, found.operands[found.right.operand]
    value = found.generic.operands[side.operand]
    weight = program.weights.number_of(value)
    zero = 0 if side.zero is None else constant_of(side.zero)
    if weight is None or zero is None or side.number is not None or None in access.strides or len(found.columns) != 1:
        return None
    offset = ir.MemRefType(value.type).get_strides_and_offset()[1]
    if offset == ir.ShapedType.get_dynamic_stride_or_offset():
        return None

    def pairs(dims: list[int]) -> list[tuple[int, int]] | None:
        measured = [(found.fixed_length(dim), access.step(dim)) for dim in dims]
        known = [(count, step) for count, step in measured if count is not None and step is not None]
        return known if len(known) == len(dims) else None

    batches, columns, sums = (pairs(dims) for dims in (found.batches, found.columns, found.sums))
    if batches is None or columns is None or sums is None:
        return None
    unit = of_host()
    return Packing(weight, offset, unit.columns, batches, columns[0], sums, int(zero), side.signed, largest=unit.largest_byte)
