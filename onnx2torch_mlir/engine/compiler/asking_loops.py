"""Long loops over numbers ask for what they will meet (streams.py): LLVM makes vectors of a group of turns, between which is
asked. In the rest of a loop, and in short ones, nothing is."""

from __future__ import annotations

from collections.abc import Container

from torch_mlir import ir
from torch_mlir.dialects import arith, scf

from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES
from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.streams import AHEAD, Line, Stream, times
from onnx2torch_mlir.engine.compiler.walks import FIRST_INDEX, constant_of, functions, loops_of, nested, symbol

FAR = "o2m.far"
"""The attribute of a function in which to ask pays (`streams.pays`) for what some call gives it."""
_TURNS = 64
"""Turns of a group, at least: LLVM makes several vectors of them."""
_GROUP_BYTES = 4 * LINE_BYTES
"""Of the widest numbers, at least as many as this go in a group: a line is asked for once."""
_LONG, _LONG_INSIDE = 4096, 512
"""From how many turns on a loop asks, and one inside of another."""


def write(module: ir.Module, kernels: Container[str]) -> None:
    """Let long loops of those of the functions ``kernels`` ask that are `FAR`."""
    far = {symbol(function) for function in functions(module) if FAR in function.attributes}
    for loop in loops_of(module, {name for name in far if name in kernels}):
        streams = _streams(loop)
        if streams:
            _ask(loop, streams)


def _streams(loop: ir.Operation) -> list[Stream]:
    """What the turns of a loop go along; nothing if it is no plain loop."""
    inside = nested(loop)
    if len(loop.results) or any(len(one.regions) for one in inside) or not _may_be_long(loop):
        return []
    block = loop.regions[0].blocks[0]
    found: dict[tuple[ir.Value, ...], bool] = {}
    for one in inside:
        first = FIRST_INDEX.get(one.name)
        if first is None:
            continue
        buffer, *indices = list(one.operands)[first - 1 :]
        moves = bool(indices) and indices.pop() == block.arguments[0]
        if moves and _is_dense(buffer) and not any(_is_in(block, number) for number in indices):
            place = (buffer, *indices)
            found[place] = found.get(place, False) or one.name == "memref.store"
    return [Stream(buffer, tuple(indices), writes) for (buffer, *indices), writes in found.items()]


def _may_be_long(loop: ir.Operation) -> bool:
    """Whether it has steps of one, and as many as a loop needs that asks, or nobody knows."""
    begin, end, step = (constant_of(value) for value in list(loop.operands)[:3])
    return step == 1 and (begin is None or end is None or end - begin >= _least(loop))


def _least(loop: ir.Operation) -> int:
    return _LONG if loop.parent.name == "func.func" else _LONG_INSIDE


def _is_dense(buffer: ir.Value) -> bool:
    """Whether what is along its last axis are neighbours, from where the buffer begins."""
    strides, offset = ir.MemRefType(buffer.type).get_strides_and_offset()
    return strides[-1] == 1 and offset == 0


def _is_in(block: ir.Block, value: ir.Value) -> bool:
    return value.owner == block or (isinstance(value, ir.OpResult) and value.owner.operation.block == block)


def _ask(loop: ir.Operation, streams: list[Stream]) -> None:
    """Take the turns of a loop by groups, each of which asks for a later one, where there are many; then the rest."""
    turns = max(_TURNS, _GROUP_BYTES // max(stream.width for stream in streams))
    begin, end, _ = loop.operands
    with ir.InsertionPoint(loop), loop.location:
        count = arith.SubIOp(end, begin).result
        groups = arith.MulIOp(arith.DivUIOp(count, index(turns)).result, index(turns)).result
        is_long = arith.CmpIOp(arith.CmpIPredicate.sge, count, index(_least(loop))).result
        rest = arith.SelectOp(is_long, arith.AddIOp(begin, groups).result, begin).result
        lines = [stream.line() for stream in streams]
        group = scf.ForOp(begin, rest, index(turns))
        with ir.InsertionPoint(group.body):
            later = arith.AddIOp(group.induction_variable, index(AHEAD * turns)).result
            is_next = arith.CmpIOp(arith.CmpIPredicate.sge, later, end).result
            for line in lines:
                line.ask(_far(line, later, end, is_next), turns)
            bounds = (index(0), index(turns), index(1))
            inner = loop.clone().operation
            for position, value in enumerate(bounds):
                inner.operands[position] = value
            scf.YieldOp([])
        block = inner.regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            place = arith.AddIOp(group.induction_variable, block.arguments[0])
            block.arguments[0].replace_all_uses_except(place.result, place.operation)
    loop.operands[0] = rest


def _far(line: Line, later: ir.Value, end: ir.Value, is_next: ir.Value) -> ir.Value:
    """How many bytes behind a line's begin its turn ``later`` is: behind its ``end``, in the next line."""
    far = times(later, line.stream.width)
    if line.step is None:
        return far
    in_next = arith.AddIOp(far, arith.SubIOp(line.step, times(end, line.stream.width)).result).result
    found: ir.Value = arith.SelectOp(is_next, in_next, far).result
    return found
