"""What C functions do with their inputs: whether these are what the model takes, and their words for the entry."""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.engine.ahead_of_time import interface as c
from onnx2torch_mlir.engine.ahead_of_time.interface import CValue
from onnx2torch_mlir.engine.compiler.c_code import POINTER, Fragment, Function, Value
from onnx2torch_mlir.engine.compiler.c_errors import fail

_NUMBER, _SIZE, _RANK, _WORD, _BOOL, _ROW_BYTES = range(0, 48, 8)
"""Where a row of the table has the element type's number, its bytes, the rank, the first word, and whether it is bool."""

_NAME_BYTES = 24
"""For each named size: its value (-1: none yet), the name of the input that gave it, and the dim."""

_LARGEST = 1 << 46

_FLAGS = 256
"""Bools that are looked at together."""


class Inputs:
    """The checks of a model's inputs: a table of what they have to be, and the function that compares one with its row."""

    def __init__(self, fragment: Fragment, values: Sequence[CValue]) -> None:
        """Add the function to ``fragment``."""
        self._values = values
        self._rows: list[int] = []
        self._dims: list[int] = []
        self._dims_at: list[int] = []
        word = 0
        for value in values:
            is_bool = int(value.dtype == "bool")
            self._rows += [value.element.number, value.element.size, len(value.shape), word, is_bool]
            self._dims_at.append(8 * len(self._dims))
            self._dims += value.sizes
            word += 1 + len(value.shape)
        # Inputs share the names of sizes; there is always room for one.
        self._names = max([-size for size in self._dims if size < 0], default=1)
        _define(fragment)

    def check(self, f: Function, tensors: Value, error: Value) -> None:
        """Let ``f`` end with an error unless all ``tensors`` fit."""
        bound = f.memory(_NAME_BYTES * self._names)
        with f.loop(self._names) as number:
            bound.at(number * _NAME_BYTES).store(f.number(-1))
        rows, dims = f.numbers(self._rows), f.numbers(self._dims)
        for index, value in enumerate(self._values):
            tensor, row = tensors.at(index * c.TENSOR_BYTES), rows.at(index * _ROW_BYTES)
            texts = (f.text(value.name), f.text(value.declared))
            code = f.get("o2m_c_check", tensor, row, dims.at(self._dims_at[index]), *texts, bound, error, result="i32")
            with f.when(code.differs(0)):
                f.give(code)

    def pack(self, f: Function, tensors: Value, words: Value) -> None:
        """Write the pointer and the sizes of each tensor where the entry reads them."""
        rows = f.numbers(self._rows)
        with f.loop(len(self._values)) as index:
            tensor, row = tensors.at(index * c.TENSOR_BYTES), rows.at(index * _ROW_BYTES)
            place = words.at(row.load(_WORD) * 8)
            place.store(tensor.load(c.DATA, POINTER))
            f.call("memcpy", place.at(8), tensor.at(c.SHAPE), row.load(_RANK) * 8, result=POINTER)


def _define(fragment: Fragment) -> None:
    """``i32 o2m_c_check(tensor, row, dims, name, declared, bound, error)``: whether an input fits, which binds sizes.

    ``bound`` has for each named size its value (-1: none yet), the name of the input that gave it, and the dim.
    """
    with fragment.function("o2m_c_check", [POINTER] * 7, "i32") as f:
        tensor, row, dims, name, declared, bound, error = f.arguments
        dtype, size, rank, is_bool = (row.load(offset) for offset in (_NUMBER, _SIZE, _RANK, _BOOL))
        found = tensor.load(c.DTYPE, "i32").widened()
        with f.when(found.differs(dtype)):
            text = "input %s has the element type %lld, the model takes %lld (see the O2M_… numbers)"
            fail(f, error, c.BAD_ARGUMENT, text, name, found, dtype)
        found = tensor.load(c.RANK, "i32").widened()
        with f.when(found.differs(rank)):
            text = "input %s has the rank %lld, the model takes the rank %lld (%s)"
            fail(f, error, c.BAD_ARGUMENT, text, name, found, rank, declared)
        bytes_ = f.memory(8)
        bytes_.store(size)
        with f.loop(rank) as axis:
            extent = tensor.at(axis * 8).load(c.SHAPE)
            with f.when(extent.above(_LARGEST)):  # or negative
                fail(f, error, c.BAD_ARGUMENT, "dim %lld of input %s is %lld", axis, name, extent)
            bytes_.store(bytes_.load() * extent)
            wanted = dims.at(axis * 8).load()
            with f.when(wanted.below(0)):
                place = bound.at((f.number(-1) - wanted) * _NAME_BYTES)
                before = place.load()
                with f.when(before.below(0)):
                    place.store(extent)
                    place.store(name, 8)
                    place.store(axis, 16)
                with f.when(place.load().differs(extent)):
                    text = "dim %lld of input %s (%s) is %lld, but dim %lld of input %s has made it %lld"
                    other = [place.load(16), place.load(8, POINTER), before]
                    fail(f, error, c.BAD_ARGUMENT, text, axis, name, declared, extent, *other)
            with f.when(f.number(-1).below(wanted) & wanted.differs(extent)):
                text = "dim %lld of input %s is %lld, the model takes %lld (%s)"
                fail(f, error, c.BAD_ARGUMENT, text, axis, name, extent, wanted, declared)
        data, count = tensor.load(c.DATA, POINTER), bytes_.load()
        with f.when(count.differs(0)):
            with f.when(data.equals(0)):
                fail(f, error, c.BAD_ARGUMENT, "input %s has no data", name)
            alignment = f.choose(size.above(8), f.number(8), size)
            with f.when(data.as_number().modulo(alignment).differs(0)):
                text = "the data of input %s begin at an address that is no multiple of %lld"
                fail(f, error, c.BAD_ARGUMENT, text, name, alignment)
            with f.when(is_bool.differs(0)):
                blocks = count.divided(_FLAGS)
                with f.loop(blocks) as block, f.when(data.at(block * _FLAGS).largest_byte(_FLAGS).above(1)):
                    _check_flags(f, data, block * _FLAGS, f.number(_FLAGS), name, error)
                _check_flags(f, data, blocks * _FLAGS, count.modulo(_FLAGS), name, error)
        f.give(f.number(0, "i32"))


def _check_flags(f: Function, data: Value, first: Value, count: Value, name: Value, error: Value) -> None:
    """Let ``f`` end with an error if one of so many bytes from ``first`` on is neither 0 nor 1."""
    with f.loop(count) as number:
        place = first + number
        with f.when(data.at(place).load(0, "i8").above(1)):
            fail(f, error, c.BAD_ARGUMENT, "byte %lld of input %s is neither 0 nor 1", place, name)
