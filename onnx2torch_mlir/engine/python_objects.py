"""Where the fields of Python's and NumPy's objects lie, for native code that looks at them (compiler/repeated_calls.py).

NumPy promises the order of an array's (``PyArrayObject_fields`` of its C API), CPython that of every object's (``PyObject``).
Both promise it to C code that is compiled for them; `are_readable` sees whether this process' objects are so.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref

import numpy as np

REFERENCES, TYPE = 0, 8
"""Of any object, in bytes from its `id`: 32 bits with how many refer to it, and its type."""
DATA, RANK, SIZES, BASE, DTYPE, FLAGS, WEAK_REFERENCES = 16, 24, 32, 48, 56, 64, 72
"""Of an array: its first element, 32 bits with its rank, its sizes, whose memory it lies in, its type, 32 bits of flags, and
the first of the weak references to it, or 0."""
FIRST_ITEM = tuple.__basicsize__
"""Of a tuple."""
IS_DENSE, IS_ALIGNED, IS_WRITEABLE = 0x1, 0x100, 0x400
"""Flags of an array: ``NPY_ARRAY_C_CONTIGUOUS``, ``NPY_ARRAY_ALIGNED``, ``NPY_ARRAY_WRITEABLE``."""

_END = 80
_PLAIN = IS_DENSE | IS_ALIGNED | IS_WRITEABLE


@functools.cache
def are_readable() -> bool:
    """Whether a tuple and an array of this process have their fields there."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little" or np.ndarray.__basicsize__ < _END:
        return False
    memory = (ctypes.c_float * 6)()
    array = np.ndarray((2, 3), np.float32, memory)  # type: ignore[arg-type]
    turned = array.T
    turned.flags.writeable = False
    values = (np.empty(1), memory)
    return (
        _fields(array) == _expected(array)
        and _fields(turned) == _expected(turned)
        and _word(id(values) + FIRST_ITEM + 8) == id(memory)
        and _half(id(values[0]) + REFERENCES) == 1
        and _word(id(array) + WEAK_REFERENCES) == 0
        and (reference := weakref.ref(array)) is not None
        and _word(id(array) + WEAK_REFERENCES) == id(reference)
    )


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
