"""Functions of Python's that are native code, and where the fields of the objects lie that it looks at
(compiler/repeated_calls.py).

NumPy promises the order of an array's (``PyArrayObject_fields`` of its C API), CPython that of every object's (``PyObject``).
Both promise it to C code that is compiled for them; `are_readable` sees whether this process' objects are so.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

REFERENCES, TYPE = 0, 8
"""Of any object, in bytes from its `id`: 32 bits with how many refer to it, and its type."""
DATA, RANK, SIZES, BASE, DTYPE, FLAGS, WEAK_REFERENCES = 16, 24, 32, 48, 56, 64, 72
"""Of an array: its first element, 32 bits with its rank, its sizes, whose memory it lies in, its type, 32 bits of flags, and
the first of the weak references to it, or 0."""
FIRST_BYTE = bytes.__basicsize__ - 1
"""Of bytes."""
IS_DENSE, IS_ALIGNED, IS_WRITEABLE = 0x1, 0x100, 0x400
"""Flags of an array: ``NPY_ARRAY_C_CONTIGUOUS``, ``NPY_ARRAY_ALIGNED``, ``NPY_ARRAY_WRITEABLE``."""

KINDS: tuple[type, ...] = (dict, list, tuple)
"""Of what holds other objects. ``PyDict_Size`` and ``PyDict_GetItem`` of the C API, as those of the others, take the object and
a word, which is an object or a number; the item belongs to the object."""

_END = 80
_PLAIN = IS_DENSE | IS_ALIGNED | IS_WRITEABLE


@functools.cache
def are_readable() -> bool:
    """Whether bytes and an array of this process have their fields there."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little" or np.ndarray.__basicsize__ < _END:
        return False
    memory = (ctypes.c_float * 6)()
    array = np.ndarray((2, 3), np.float32, memory)  # type: ignore[arg-type]
    turned = array.T
    turned.flags.writeable = False
    alone, told = np.empty(1), bytes(range(8))
    return (
        _fields(array) == _expected(array)
        and _fields(turned) == _expected(turned)
        and _word(id(told) + FIRST_BYTE) == int.from_bytes(told, sys.byteorder)
        and _half(id(alone) + REFERENCES) == 1
        and _word(id(array) + WEAK_REFERENCES) == 0
        and (reference := weakref.ref(array)) is not None
        and _word(id(array) + WEAK_REFERENCES) == id(reference)
    )


class _Method(ctypes.Structure):
    """``PyMethodDef`` of the C API."""

    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("text", ctypes.c_char_p))


_OF_ONE_ARGUMENT = 0x8
"""``METH_O`` of the C API."""


class Function:
    """A function of Python's, `call`, that is native code (a ``PyCFunction``), entered and left with Python's lock held.

    ctypes would take several times as long, and a hundred lines of the cache more.
    """

    def __init__(self, name: str, code: int, record: int) -> None:
        """``code`` is where the code is; its ``self`` are bytes with the address of its ``record``. Both, and this object, have
        to be there for as long as the function is called."""
        self._method = _Method(name.encode(), code, _OF_ONE_ARGUMENT, None)
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )
        told = record.to_bytes(8, sys.byteorder)
        self.call: Callable[[Any], Any] = new(ctypes.addressof(self._method), told, None)


@functools.cache
def api(name: str) -> int:
    """Where a function of Python's C API is."""
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


def _fields(array: np.ndarray) -> list[int]:
    begin = id(array)
    sizes = [_word(_word(begin + SIZES) + 8 * axis) for axis in range(array.ndim)]
    halves = [_half(begin + RANK), _half(begin + FLAGS) & _PLAIN]
    return [*halves, *sizes, *(_word(begin + place) for place in (TYPE, DATA, BASE, DTYPE))]


def _expected(array: np.ndarray) -> list[int]:
    flags = array.flags
    told = (IS_DENSE * flags.c_contiguous) | (IS_ALIGNED * flags.aligned) | (IS_WRITEABLE * flags.writeable)
    return [array.ndim, told, *array.shape, id(type(array)), array.ctypes.data, id(array.base), id(array.dtype)]


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _half(address: int) -> int:
    return ctypes.c_uint32.from_address(address).value
