"""Calls like the one before: what native code has to know of it (compiler/repeated_calls.py), and the arrays it gives again."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from operator import itemgetter
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np
import torch

from onnx2torch_mlir.engine import layout, python_objects
from onnx2torch_mlir.engine.arrays import Array, address_of, numpy_dtype
from onnx2torch_mlir.engine.objects import Code
from onnx2torch_mlir.lowering.lowered import Lowered

_MOST_GIVEN = 2
"""Calls whose results are kept: who holds the last call's during the next one needs two by turns."""
_REFERENCES = 3
"""To an array that nobody uses: of the tuple, of a variable, and of what counts them."""


class Given(NamedTuple):
    """What a call gave: ``arrays`` over memory that is lent (`arrays.Lent`), and their ``words`` (layout.GIVEN)."""

    arrays: tuple[Array, ...]
    words: Any


class Forms(NamedTuple):
    """Of each input and of each result the dtype, None where its bytes have to be looked at, and the rank."""

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
        return cls(inputs, [(numpy_dtype(spec.dtype), len(spec.shape)) for spec in lowered.outputs])

    def words(self) -> list[int]:
        """As native code reads them; the dtypes have to be there for as long."""
        return [word for dtype, rank in (*self.inputs, *self.results) for word in (id(dtype) if dtype is not None else 0, rank)]


def in_order(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...] | None]:
    """What makes a tuple of the inputs that are called so, for `Repetition.call`; None of what is not usual."""
    # Of one name alone it would give no tuple.
    by_name = itemgetter(*names, names[0]) if names else lambda _: ()
    count = len(names)

    def ordered(inputs: Any) -> tuple[Any, ...] | None:
        kind = type(inputs)
        if kind is dict:
            try:
                return by_name(inputs) if len(inputs) == count else None
            except KeyError:
                return None
        return tuple(inputs) if (kind is list or kind is tuple) and len(inputs) == count else None

    return ordered


class Repetition:
    """Calls of one context, which one thread has at a time."""

    def __init__(self, code: Code, forms: Forms, context: int, words: int, out: Any) -> None:
        """``context`` and ``words`` are where the context and the words of the arguments are; ``out`` holds those of the
        results and their flags. ``code`` has to be there for as long as this."""
        head = [0] * layout.FORMS
        head[layout.ENTRY_OF], head[layout.CONTEXT] = code.entry, context
        head[layout.WORDS_IN], head[layout.WORDS_OUT], head[layout.COUNT_OUT] = words, ctypes.addressof(out), len(out)
        head[layout.ARRAY], head[layout.FIRST] = id(np.ndarray), python_objects.FIRST_ITEM
        head[layout.INPUTS], head[layout.RESULTS] = len(forms.inputs), len(forms.results)
        told = [*head, *forms.words()]
        self._record = (ctypes.c_int64 * len(told))(*told)
        self._forms, self._out = forms, out
        self._lent = (ctypes.c_int64 * len(forms.results)).from_address(context + 8 * layout.LENT)
        starts = itertools.accumulate((3 + 2 * rank for _, rank in forms.results), initial=0)
        self._blocks = list(starts)[: len(forms.results)]
        """Which words of the results are their blocks."""
        signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.py_object)
        self.call: Callable[[tuple[Any, ...]], int] = functools.partial(
            signature(code.address(layout.REPEAT)), ctypes.addressof(self._record)
        )
        """`layout.REPEAT` for a tuple of inputs, in order; there may be more behind them."""
        self.given: list[Given] = []

    def keep(self, arrays: Sequence[Array]) -> None:
        """The call that was gave these ``arrays``, all of them over memory that is lent."""
        own, lent = [self._out[place] for place in self._blocks], list(self._lent)
        # Results of the same size take what is lent as it comes: in the order of before each finds its own.
        blocks = lent if sorted(lent) == sorted(own) else own
        told = [*self._out, *blocks, *(word for array in arrays for word in (id(array), address_of(array)))]
        words = (ctypes.c_int64 * len(told))(*told)
        self._replace([Given(tuple(arrays), words), *self.given][:_MOST_GIVEN])

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

    def _replace(self, given: list[Given]) -> None:
        # Wherever this is interrupted, native code knows of nothing that is not there.
        for number in range(_MOST_GIVEN):
            self._record[layout.GIVEN + number] = 0
        self.given = given
        for number, one in enumerate(given):
            self._record[layout.GIVEN + number] = ctypes.addressof(one.words)
