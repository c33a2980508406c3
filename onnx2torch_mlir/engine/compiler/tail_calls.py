"""What a driver is given for a tail: the tail's function, the array that it writes, and words for all that it reads besides."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

from torch_mlir import ir
from torch_mlir.dialects import func, llvm

from onnx2torch_mlir.engine.compiler.argument_words import loaded, pointer_to, stored
from onnx2torch_mlir.engine.compiler.contraction_tails import Follower, spread_of
from onnx2torch_mlir.engine.compiler.flatten import Known, parts, size_word, sizes_and_strides, times, value_of, without_offset
from onnx2torch_mlir.engine.compiler.kernels import is_constant
from onnx2torch_mlir.engine.compiler.likeness import likeness, made_alike
from onnx2torch_mlir.engine.compiler.outlined import Outlined
from onnx2torch_mlir.engine.compiler.row_parts import axis_along
from onnx2torch_mlir.engine.compiler.tail_code import write_body
from onnx2torch_mlir.engine.compiler.walks import is_memref, pointer, word

PREFIX = "o2m_tail_"
"""How the names of tails' functions begin."""

_SUMS, _OUT, _WORDS = 0, 6, 7
"""Which arguments of a tail's function are the sums, the array that it writes, and the words that it reads besides."""


@contextmanager
def handed_on(found: Follower | None, tails: Outlined, widths: list[int]) -> Iterator[list[ir.Value]]:
    """What the driver's call, in the block, hands on to a tail (`tail_text.ARGUMENTS`): null pointers, if there is none.

    The tail's function is added to ``tails``. It takes any number of columns; most often there will be one of ``widths``.
    """
    if found is None:
        yield [llvm.ZeroOp(pointer()).result] * 3
        return
    nest = found.nest
    like = likeness(nest)
    free = [value for value in like.captured if not is_constant(value)]
    given: list[Known] = []
    groups: list[int] = []
    for position, (value, kind) in enumerate(zip(nest.operands, found.kinds, strict=True)):
        if kind == "scalar":
            given.append(value)
        elif kind != "sums":
            type_ = without_offset(ir.MemRefType(value.type))
            pieces = parts(value, type_)
            result = len(given)
            given.append(pieces[0])
            sizes, strides = sizes_and_strides(type_, pieces)
            if kind == "spread":
                told = _groups(value, sizes, strides)
                groups.append(len(told))
                given += told
            if kind == "part":
                told = _parts(found, position)
                groups.append(len(told))
                given += told
    given += free
    out = given.pop(result)
    # Of the numbers it knows 0 and 1 only, so that layers of other sizes have the same function: to divide by one that is not
    # known takes about as long as a step of a tile.
    known = tuple(value if _is_known(value) else _type_of(value) for value in given)
    elements = tuple(ir.MemRefType(value.type).element_type if is_memref(value.type) else value.type for value in nest.operands)
    own = made_alike(like.captured, is_constant)
    key = (like.said, elements, own, tuple(found.kinds), tuple(widths), known, tuple(groups))
    name = tails.name(key, [_SUMS, _OUT], lambda: _function(found, tails.module, widths, given, (result, free)))
    # What is called in a loop, or by several threads, needs words of its own each time.
    stack = llvm.StackSaveOp(pointer()).result
    words = stored([value_of(value) for value in given if not _is_known(value)])
    yield [pointer_to(name, signature()), out, words]
    llvm.StackRestoreOp(stack)


def _function(
    found: Follower, module: ir.Module, widths: list[int], given: list[Known], places: tuple[int, list[ir.Value]]
) -> ir.Operation:
    """The tail's function, in the ``module``.

    ``given``: what becomes its words. ``places``: before which of these the result's pointer belongs, and the last of the
    values.
    """
    result, free = places
    with ir.Location.unknown():
        kernel = func.FuncOp("tail", (signature(), []), visibility="private", ip=ir.InsertionPoint(module.body))
        block = kernel.add_entry_block()
        with ir.InsertionPoint(block):
            arguments = list(block.arguments)
            types = [_type_of(value) for value in given if not _is_known(value)]
            words = iter(loaded(arguments[_WORDS], types))
            told = [value_of(value) if _is_known(value) else next(words) for value in given]
            told.insert(result, arguments[_OUT])
            write_body(found, arguments[:_OUT], told, free, widths)
            func.ReturnOp([])
    made: ir.Operation = kernel.operation
    return made


def _is_known(value: Known) -> bool:
    """Whether the tail's function knows the number itself."""
    return isinstance(value, int) and value in (0, 1)


def _type_of(value: Known) -> ir.Type:
    return word() if isinstance(value, int) else value.type


def signature() -> list[ir.Type]:
    """The types of a tail's arguments, as `tail_text.call` gives them."""
    return [pointer(), *[word()] * 5, pointer(), pointer()]


def _groups(value: ir.Value, sizes: list[Known], strides: list[Known]) -> list[Known]:
    """What the function is told of the groups of an array's rows: each one's step, and its count but for the outermost."""
    told: list[Known] = []
    for group in spread_of(value) or ():
        told.append(strides[group.axis] if group.step is None else group.step)
        told.append(sizes[group.axis] if group.count is None else group.count)
    return told[:-1]


def _parts(found: Follower, position: int) -> list[Known]:
    """What the function is told of an operand that moves along some rows: as of the groups of an array's."""
    nest = found.nest
    out = nest.operands[len(nest.operands) - 1]
    told: list[Known] = []
    behind: Known = 1
    for moves, dims in found.parts_of_rows(position):
        axes = [axis_along(nest, dim) for dim in dims]
        count = functools.reduce(times, [size_word(out, axis) for axis in axes])
        told += [behind if moves else 0, count]
        behind = times(behind, count) if moves else behind
    return told[:-1]
