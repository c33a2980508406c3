"""Parallel loops at the top of a kernel are shared among threads: the kernel handles a range of them, and a function around it
says how many there are and how much work each one is (threads.py)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from torch_mlir import ir
from torch_mlir.dialects import arith, func, scf

from onnx2torch_mlir.engine.compiler import threads
from onnx2torch_mlir.engine.compiler.argument_words import loaded, pointer_to, stored
from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.walks import (
    append,
    constant_of,
    function_around,
    functions,
    index_of,
    made_by,
    named,
    nested,
    pointer,
    symbol,
    word,
    word_of,
)

SERIAL = "o2m.serial"
"""The attribute of a kernel whose turns may depend on each other, whatever its loops say."""

_WORKER = "o2m_worker_index"
TURN = "o2m_turn"
"""How the names of functions begin (turns.py) that touch nothing but the memory they are given."""
_NUMBERS_OF_TURN = 256
"""That they move."""
SOME_ROWS = "o2m_some_rows_"
"""How the names of functions begin (contraction_rows.py) that write only the rows they are asked for."""
_RANGE = "_range"
_PASSED = re.compile(r"!llvm\.ptr|index|i(1|8|16|32|64)|b?f16|f32|f64")
_UNKNOWN_TURNS = 8
_WORK = ("arith.", "math.", "memref.load", "memref.store", "vector.", "llvm.")

DECLARATIONS = f"func.func private @{_WORKER}() -> index"
"""Text of what `worker` calls."""


def thread_count(inside: ir.Operation) -> ir.Value:
    """How many threads a call of @main, which holds ``inside``, may use, at the insertion point: an index."""
    context = function_around(inside).regions[0].blocks[0].arguments[0]
    count = func.CallOp([word()], ir.FlatSymbolRefAttr.get("o2m_threads"), [context]).results[0]
    return index_of(count)


def worker() -> ir.Value:
    """The number of the thread that does this turn of a `parallel` loop, at the insertion point: an index."""
    value: ir.Value = func.CallOp([ir.IndexType.get()], ir.FlatSymbolRefAttr.get(_WORKER), []).results[0]
    return value


def parallel(bounds: Sequence[ir.Value]) -> ir.Operation:
    """An ``scf.parallel`` from 0 to ``bounds`` with an empty body, at the insertion point."""
    zeros = [index(0) for _ in bounds]
    ones = [index(1) for _ in bounds]
    count = len(bounds)
    attributes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([count, count, count, 0])}
    loop = ir.Operation.create("scf.parallel", operands=[*zeros, *bounds, *ones], attributes=attributes, regions=1)
    block = loop.regions[0].blocks.append(*[ir.IndexType.get()] * count)
    with ir.InsertionPoint(block):
        ir.Operation.create("scf.reduce")
    return loop


def share(module: ir.Module, exclusive: dict[str, list[int]]) -> dict[str, list[int]]:
    """Let every kernel of ``exclusive`` whose top is one parallel loop be shared among threads.

    ``exclusive`` are the kernels' pointers whose memory no other argument reaches (kernels.py); returns those of the
    functions that handle ranges.
    """
    kernels = {symbol(function): function for function in functions(module)}
    append(module, threads.SIGNATURES)
    found: dict[str, list[int]] = {}
    for name in [name for name in exclusive if name in kernels]:
        kernel = kernels[name]
        loop = _loop_of(kernel)
        if loop is not None:
            _split(module, kernel, loop)
            found[symbol(kernel)] = exclusive[name]
    _give_context(module, {name.removesuffix(_RANGE) for name in found})
    with ir.Location.unknown():
        for function in functions(module):
            _name_worker(function, lambda: index(0))
    return found


def _loop_of(kernel: ir.Operation) -> ir.Operation | None:
    """The parallel loop that is all the kernel does, if its turns may go side by side."""
    if SERIAL in kernel.attributes:
        return None
    loops = [view.operation for view in kernel.regions[0].blocks[0].operations if len(view.operation.regions)]
    if len(loops) != 1 or loops[0].name != "scf.parallel" or len(loops[0].results):
        return None
    if any(operation.name in ("func.call", "llvm.call") and not _is_harmless(operation) for operation in nested(loops[0])):
        return None
    if not all(_PASSED.fullmatch(str(argument.type)) for argument in kernel.regions[0].blocks[0].arguments):
        return None
    count = len(loops[0].regions[0].blocks[0].arguments)
    operands = list(loops[0].operands)
    starts, steps = operands[:count], operands[2 * count : 3 * count]
    plain = all(constant_of(value) == 0 for value in starts) and all(constant_of(value) == 1 for value in steps)
    known = {argument: argument for argument in kernel.regions[0].blocks[0].arguments}
    return loops[0] if plain and all(_is_outside(value, known) for value in operands[count : 2 * count]) else None


def _is_harmless(operation: ir.Operation) -> bool:
    """Whether a call may be made by several threads at once."""
    callee = _callee(operation)
    return callee == _WORKER or callee.startswith((TURN, SOME_ROWS))


def _is_worker(operation: ir.Operation) -> bool:
    return _callee(operation) == _WORKER


def _callee(operation: ir.Operation) -> str:
    """The function that is called; empty for what is no call of one."""
    return str(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value) if operation.name == "func.call" else ""


def _split(module: ir.Module, kernel: ir.Operation, loop: ir.Operation) -> None:
    """Make the kernel handle a range of the loop's turns, and a function of its name all of them."""
    name = symbol(kernel)
    part = name + _RANGE
    block = kernel.regions[0].blocks[0]
    types = [argument.type for argument in block.arguments]
    body = loop.regions[0].blocks[0]
    count = len(body.arguments)
    bounds = list(loop.operands)[count : 2 * count]
    deep = bool(named(loop, "scf.for"))
    outer = count if deep or count == 1 else count - 1
    with ir.Location.unknown():
        whole = func.FuncOp(name, ([*types, pointer()], []), visibility="private", ip=ir.InsertionPoint(module.body))
        entry = whole.add_entry_block()
        with ir.InsertionPoint(entry):
            known = dict(zip(block.arguments, entry.arguments, strict=False))
            turns = _product(_copied(bound, known) for bound in bounds[:outer])
            work = _product([_work(body, known), *(_copied(bound, known) for bound in bounds[outer:])])
            *given, context = entry.arguments
            task = pointer_to(threads.task_name(part), [pointer(), *[word()] * 3])
            no = arith.ConstantOp(ir.IntegerType.get_signless(1), ir.BoolAttr.get(False)).result
            job = [context, word_of(turns), word_of(index(1)), word_of(work), no, task, stored(given)]
            func.CallOp([], ir.FlatSymbolRefAttr.get(threads.ON_ALL), job)
            func.ReturnOp([])
        _write_task(module, part, types)
        kernel.attributes["sym_name"] = ir.StringAttr.get(part)
        kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*types, *[word()] * 3], []))
        begin, end, number = (block.add_argument(word(), ir.Location.unknown()) for _ in range(3))
    with ir.InsertionPoint(loop), loop.location:
        _write_range(loop, bounds, outer, index_of(begin), index_of(end))
    with ir.Location.unknown():
        _name_worker(kernel, lambda: index_of(number))


def _write_task(module: ir.Module, part: str, types: list[ir.Type]) -> None:
    """The function that calls ``part``, which takes ``types`` and a range, with the values that words hold."""
    range_ = [word()] * 3
    task = func.FuncOp(
        threads.task_name(part), ([pointer(), *range_], []), visibility="private", ip=ir.InsertionPoint(module.body)
    )
    with ir.InsertionPoint(task.add_entry_block()):
        words, *items = task.arguments
        func.CallOp([], ir.FlatSymbolRefAttr.get(part), [*loaded(words, types), *items])
        func.ReturnOp([])


def _name_worker(function: ir.Operation, number: Callable[[], ir.Value]) -> None:
    """Let what asks for the number of its thread (`worker`) in a function use ``number``, which is made there."""
    for operation in nested(function):
        if _is_worker(operation):
            with ir.InsertionPoint(operation):
                operation.results[0].replace_all_uses_with(number())
            operation.erase()


def _write_range(loop: ir.Operation, bounds: list[ir.Value], outer: int, begin: ir.Value, end: ir.Value) -> None:
    """Replace the loop: turns ``begin`` to ``end`` of its ``outer`` dims taken as one, with the other dims inside."""
    zero, one = index(0), index(1)
    places: list[ir.Value] = []
    rest = begin
    for bound in reversed(bounds[1:outer]):
        least = arith.MaxUIOp(bound, one).result
        places.insert(0, arith.RemUIOp(rest, least).result)
        rest = arith.DivUIOp(rest, least).result
    places.insert(0, rest)
    # A single dim counts by itself; of several the place goes along from turn to turn, for divisions cost more.
    running = places if outer > 1 else []
    made = scf.ForOp(begin, end, one, running)
    with ir.InsertionPoint(made.body):
        here = list(made.inner_iter_args) if running else [made.induction_variable]
        after: list[ir.Value] = []
        carry = one
        for place, bound in zip(reversed(here[1:]), reversed(bounds[1:outer]), strict=True):
            moved = arith.AddIOp(place, carry).result
            wraps = arith.CmpIOp(arith.CmpIPredicate.eq, moved, bound).result
            after.insert(0, arith.SelectOp(wraps, zero, moved).result)
            carry = arith.SelectOp(wraps, one, zero).result
        if running:
            after.insert(0, arith.AddIOp(here[0], carry).result)
        last = scf.YieldOp(after).operation
    last = _loops_inside(last, bounds[outer:], here)
    body = loop.regions[0].blocks[0]
    for argument, value in zip(body.arguments, here, strict=True):
        argument.replace_all_uses_with(value)
    for view in list(body.operations)[:-1]:
        view.operation.move_before(last)
    loop.erase()


def _loops_inside(place: ir.Operation, bounds: list[ir.Value], here: list[ir.Value]) -> ir.Operation:
    """Loops over ``bounds`` before ``place``, one inside the other; ``here`` gets their places. The innermost end."""
    for bound in bounds:
        with ir.InsertionPoint(place), place.location:
            loop = scf.ForOp(index(0), bound, index(1))
            here.append(loop.induction_variable)
            with ir.InsertionPoint(loop.body):
                end: ir.Operation = scf.YieldOp([]).operation
        place = end
    return place


def _work(block: ir.Block, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """How many operations on numbers a turn is, as an index at the insertion point; ``known`` are values that stand for
    others there."""
    total = index(sum(_numbers(view.operation) for view in block.operations))
    for view in block.operations:
        operation = view.operation
        for region in operation.regions:
            inside = [_work(inner, known) for inner in region.blocks]
            if operation.name == "scf.for":
                inside = [_product([_turns(operation, known), value]) for value in inside]
            for value in inside:
                total = arith.AddIOp(total, value).result
    return total


def _numbers(operation: ir.Operation) -> int:
    """How many numbers an operation computes, reads or writes."""
    if _callee(operation).startswith(TURN):
        return _NUMBERS_OF_TURN
    if not operation.name.startswith(_WORK):
        return 0
    types = [value.type for value in (*operation.operands, *operation.results)]
    return max((math.prod(ir.VectorType(type_).shape) for type_ in types if isinstance(type_, ir.VectorType)), default=1)


def _turns(loop: ir.Operation, known: dict[ir.Value, ir.Value]) -> ir.Value:
    bounds = list(loop.operands)[:3]
    if not all(_is_outside(value, known) for value in bounds):
        return index(_UNKNOWN_TURNS)
    lower, upper, step = (_copied(value, known) for value in bounds)
    rounded = arith.AddIOp(arith.SubIOp(upper, lower).result, arith.SubIOp(step, index(1)).result).result
    turns: ir.Value = arith.DivSIOp(rounded, step).result
    return turns


def _is_outside(value: ir.Value, known: dict[ir.Value, ir.Value]) -> bool:
    """Whether a value of a kernel is known before its loops."""
    if value in known:
        return True
    operation = made_by(value)
    return (
        operation is not None
        and not len(operation.regions)
        and not operation.name.startswith(("memref.load", "func.", "llvm.load", "memref.alloc"))
        and all(_is_outside(operand, known) for operand in operation.operands)
    )


def _copied(value: ir.Value, known: dict[ir.Value, ir.Value]) -> ir.Value:
    """The same value of ``known`` ones, at the insertion point."""
    if value not in known:
        operation = value.owner.operation
        operands = [_copied(operand, known) for operand in operation.operands]
        copy = operation.clone().operation
        for position, operand in enumerate(operands):
            copy.operands[position] = operand
        known.update(zip(operation.results, copy.results, strict=True))
    return known[value]


def _give_context(module: ir.Module, names: set[str]) -> None:
    """Let @main, which alone calls the kernels, pass its context on to those of ``names``."""
    main = next(function for function in functions(module) if symbol(function) == "main")
    context = main.regions[0].blocks[0].arguments[0]
    for operation in nested(main):
        if operation.name == "func.call" and ir.FlatSymbolRefAttr(operation.attributes["callee"]).value in names:
            with ir.InsertionPoint(operation), operation.location:
                func.CallOp([], operation.attributes["callee"], [*operation.operands, context])
            operation.erase()


def _product(factors: Iterable[ir.Value]) -> ir.Value:
    first, *others = factors
    for factor in others:
        first = arith.MulIOp(first, factor).result
    return first
