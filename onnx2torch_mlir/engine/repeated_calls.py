"""Calls like the one before: what native code has to know of it (compiler/repeated_calls.py), and the arrays it gives again."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np
import torch

from onnx2torch_mlir.engine import layout, python_objects
from onnx2torch_mlir.engine.arrays import Array, address_of, numpy_dtype
from onnx2torch_mlir.engine.objects import Code
from onnx2torch_mlir.lowering.lowered import Lowered

_API = {
    layout.HOLD: "Py_IncRef",
    layout.LET_GO: "Py_DecRef",
    layout.RELEASE_LOCK: "PyEval_SaveThread",
    layout.TAKE_LOCK: "PyEval_RestoreThread",
}
"""The functions of Python's C API in a record."""
_OUTCOMES = tuple(range(layout.UNLIKE + 1))
"""As objects, which native code gives to others; here they stay for as long as the process."""

_MOST_GIVEN = 2
"""Calls whose results are kept: who holds the last call's during the next one needs two by turns."""
_REFERENCES = 3
"""To an array that nobody uses: of the tuple, of a variable, and of what counts them."""


class Given(NamedTuple):
    """What a call gave: ``arrays`` over memory that is lent (`arrays.Lent`), and their ``words`` (layout.GIVEN)."""

    arrays: tuple[Array, ...]
    words: Any


class Forms(NamedTuple):
    """The names of the inputs; of each input and of each result the dtype, None where its bytes have to be looked at, and the
    rank."""

    names: Sequence[str]
    inputs: Sequence[tuple[np.dtype[Any] | None, int]]
    results: Sequence[tuple[np.dtype[Any] | None, int]]

    @classmethod
    def of(cls, lowered: Lowered) -> Forms | None:
        """Those of a program; None where no call is like the one before for native code."""
        is_packed = any(spec.element for spec in lowered.outputs)
        if is_packed or len(lowered.outputs) > layout.MOST_LENT or not python_objects.are_readable():
            return None
        plain = [None if spec.element or spec.dtype == torch.bool else numpy_dtype(spec.dtype) for spec in lowered.inputs]
        inputs = [(dtype, len(spec.shape)) for dtype, spec in zip(plain, lowered.inputs, strict=True)]
        results = [(numpy_dtype(spec.dtype), len(spec.shape)) for spec in lowered.outputs]
        return cls([spec.name for spec in lowered.inputs], inputs, results)

    def words(self) -> list[int]:
        """As native code reads them; the dtypes have to be there for as long."""
        return [word for dtype, rank in (*self.inputs, *self.results) for word in (id(dtype) if dtype is not None else 0, rank)]


class Repetition:
    """Calls of one context, which one thread has at a time."""

    def __init__(self, code: Code, forms: Forms, context: int, words: int, out: Any) -> None:
        """``context`` and ``words`` are where the context and the words of the arguments are; ``out`` holds those of the
        results and their flags. ``code`` has to be there for as long as this."""
        count = len(forms.inputs)
        self._held = (ctypes.c_int64 * max(count, 1))()
        self._places, self._names = (ctypes.c_int64 * count)(*range(count)), (ctypes.c_int64 * count)(*map(id, forms.names))
        head = [0] * layout.FORMS
        head[layout.ENTRY_OF], head[layout.CONTEXT] = code.entry, context
        head[layout.WORDS_IN], head[layout.WORDS_OUT], head[layout.COUNT_OUT] = words, ctypes.addressof(out), len(out)
        head[layout.ARRAY], head[layout.INPUTS], head[layout.RESULTS] = id(np.ndarray), count, len(forms.results)
        head[layout.HELD] = ctypes.addressof(self._held)
        for place, name in _API.items():
            head[place] = python_objects.api(name)
        head[layout.OUTCOMES : layout.KINDS] = map(id, _OUTCOMES)
        head[layout.KINDS :] = [word for kind in python_objects.KINDS for word in self._kind(kind)]
        told = [*head, *forms.words()]
        self._record = (ctypes.c_int64 * len(told))(*told)
        self._forms, self._out = forms, out
        self._lent = (ctypes.c_int64 * len(forms.results)).from_address(context + 8 * layout.LENT)
        starts = itertools.accumulate((3 + 2 * rank for _, rank in forms.results), initial=0)
        self._blocks = list(starts)[: len(forms.results)]
        """Which words of the results are their blocks."""
        self._function = python_objects.Function("again", code.address(layout.REPEAT), ctypes.addressof(self._record))
        self.call: Callable[[Any], tuple[Array, ...] | int] = self._function.call
        """`layout.REPEAT` for inputs by name or in order."""
        self.given: list[Given] = []

    def keep(self, arrays: Sequence[Array]) -> None:
        """The call that was gave these ``arrays``, all of them over memory that is lent."""
        own, lent = [self._out[place] for place in self._blocks], list(self._lent)
        # Results of the same size take what is lent as it comes: in the order of before each finds its own.
        blocks = lent if sorted(lent) == sorted(own) else own
        given = tuple(arrays)
        told = [*self._out, *blocks, *(word for array in given for word in (id(array), address_of(array))), id(given)]
        self._replace([Given(given, (ctypes.c_int64 * len(told))(*told)), *self.given][:_MOST_GIVEN])

    def drop(self) -> None:
        """Nothing is kept: what nobody uses gives its memory back."""
        self._replace([])

    def drop_unlike(self) -> bool:
        """Keep of it only what somebody uses, which may end before the next call; whether there is room for another call's."""
        used = [one for one in self.given if any(getrefcount(array) > _REFERENCES for array in one.arrays)]
        self._replace(used if len(used) < _MOST_GIVEN else [])
        return len(used) < _MOST_GIVEN

    def settle(self) -> None:
        """Where a call took the memory of what was given and has not given it again: that belongs to the program now."""
        number = self._record[layout.CONSUMED] - 1
        if number < 0:
            return
        for one in self.given[number : number + 1]:
            for array in one.arrays:
                memory: Any = array.base
                memory.block = 0
        self._replace(self.given[:number] + self.given[number + 1 :])
        self._record[layout.CONSUMED] = 0

    def _kind(self, kind: type) -> tuple[int, int, int, int]:
        """The words of a kind of inputs (layout.KINDS)."""
        keys = self._names if kind is dict else self._places
        size, item = (python_objects.api(f"Py{kind.__name__.capitalize()}_{function}") for function in ("Size", "GetItem"))
        return id(kind), size, item, ctypes.addressof(keys)

    def _replace(self, given: list[Given]) -> None:
        # Wherever this is interrupted, native code knows of nothing that is not there.
        for number in range(_MOST_GIVEN):
            self._record[layout.GIVEN + number] = 0
        self.given = given
        for number, one in enumerate(given):
            self._record[layout.GIVEN + number] = ctypes.addressof(one.words)
