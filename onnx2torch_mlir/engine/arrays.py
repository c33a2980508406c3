"""Arrays in and out: torch's element types as NumPy's and ml_dtypes', and memory that native code can point to."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from onnx2torch_mlir.core.narrow import NARROW
from onnx2torch_mlir.core.signature import TensorSpec

Array = np.ndarray[Any, Any]

_BY_NAME: dict[str, Any] = {
    "bool": np.bool_,
    **{name: getattr(np, name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name: getattr(np, name) for name in ("float16", "float32", "float64", "complex64", "complex128")},
    **{
        name: getattr(ml_dtypes, name)
        for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    },
}
_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    getattr(torch, name): np.dtype(kind) for name, kind in _BY_NAME.items() if hasattr(torch, name)
}


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy (or ml_dtypes) element type of ``dtype``; raises KeyError for one that has none."""
    return _DTYPES[dtype]


def array_dtype(spec: TensorSpec) -> np.dtype[Any]:
    """The element type of the arrays that are given for ``spec``, or come out for it."""
    return NARROW[spec.element].numpy if spec.element else numpy_dtype(spec.dtype)


def pointable(array: Array) -> Array:
    """``array`` as native code needs it: dense and aligned, copied only if it is not; bools as 0 and 1."""
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.array(array, order="C", copy=True, ndmin=array.ndim)
    if array.dtype == np.bool_ and not holds_flags(array):
        array = array.view(np.uint8) != 0
    return array


def holds_flags(array: Array) -> bool:
    """Whether all bytes of dense bools are 0 or 1; views of other bytes as bools may have any."""
    return bool(np.maximum.reduce(array.view(np.uint8), axis=None, initial=0) <= 1)


def address_of(array: Array) -> int:
    """Where the elements of a dense array begin; ``array.ctypes.data`` takes as long as a small kernel."""
    try:
        return address_of_buffer(buffer_of(array))
    except (TypeError, ValueError, BufferError):  # no elements, read-only, or an element type that Python's buffers do not know
        return array.ctypes.data


address_of_buffer: Callable[[Any], int] = ctypes.addressof
buffer_of: Callable[[Any], Any] = ctypes.c_char.from_buffer
"""What Python takes for the buffer of something dense and writeable that is not empty; else an exception is raised."""


def arguments(values: Sequence[Array]) -> list[int]:
    """The words of dense arrays as @main takes them: for each the address of its elements, then its sizes."""
    words: list[int] = []
    for value in values:
        words.append(address_of(value))
        words += value.shape
    return words


def from_anything(value: Any, dtype: torch.dtype, *, aligned: bool = True) -> Array:
    """A weight's contents (torch tensor or array) as a dense array without copying, where that is possible.

    In a model's file weights may lie anywhere; NumPy reads what is not ``aligned`` too, native code does not.
    """
    if not isinstance(value, torch.Tensor):
        return pointable(np.asarray(value))
    tensor = value.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype != dtype or tensor.device.type != "cpu":
        raise ValueError(f"is {tensor.dtype} on {tensor.device}, declared {dtype}")
    if tensor.numel() == 0:
        return np.empty(tuple(tensor.shape), numpy_dtype(dtype))
    if aligned and tensor.data_ptr() % tensor.element_size():
        tensor = tensor.clone()
    memory = (ctypes.c_uint8 * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
    memory._tensor = tensor  # type: ignore[attr-defined]  # The view must not outlive what it looks at.
    return _bytes(memory).view(numpy_dtype(dtype)).reshape(tuple(tensor.shape))


def window(address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """An array over the dense elements at ``address``, which keeps nothing alive: to copy from."""
    count = dtype.itemsize * math.prod(shape)
    if not count:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, (ctypes.c_uint8 * count).from_address(address))  # type: ignore[arg-type]


class Lent:
    """Memory that an array lies in: ``give_back`` is called with ``block``, if not 0, when no array uses it any more.

    A mixin of arrays of bytes of ctypes. `weakref.finalize` would do the same and takes longer than a small kernel.
    """

    give_back: Callable[[int], None]
    block: int

    def __del__(self) -> None:
        if self.block:
            self.give_back(self.block)


@functools.lru_cache(256)
def _lent(count: int) -> Any:
    return type("_Lent", (Lent, ctypes.c_uint8 * count), {"__slots__": ("block", "give_back")})


def over(
    address: int, dtype: np.dtype[Any], shape: tuple[int, ...], give_back: Callable[[int], None], block: int
) -> Array:
    """An array over the dense elements at ``address``, at least one; its memory, the array's base, is `Lent`."""
    memory = _lent(dtype.itemsize * math.prod(shape)).from_address(address)
    memory.give_back, memory.block = give_back, block
    return np.ndarray(shape, dtype, memory)


def _bytes(memory: ctypes.Array[ctypes.c_uint8]) -> Array:
    return np.frombuffer(memory, np.uint8)  # type: ignore[call-overload]


_libc = ctypes.CDLL(None)
_libc.free.argtypes = [ctypes.c_void_p]
_libc.free.restype = None


free: Callable[[int], None] = _libc.free
"""Gives memory of malloc back."""
