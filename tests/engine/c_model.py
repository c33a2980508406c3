"""A compiled model as C programs use it, called from Python through its shared library."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnx2torch_mlir.engine.ahead_of_time.interface import ELEMENT_TYPES, ERROR_BYTES, ERROR_TEXT, MAX_RANK
from onnx2torch_mlir.engine.arrays import _DTYPES

NUMBERS = {
    np.dtype(kind): ELEMENT_TYPES[str(dtype).removeprefix("torch.")].number
    for dtype, kind in _DTYPES.items()
    if str(dtype).removeprefix("torch.") in ELEMENT_TYPES
}
KINDS = {number: kind for kind, number in NUMBERS.items()}


class Tensor(ctypes.Structure):
    """``o2m_tensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("memory", ctypes.c_void_p),
    )


class Error(ctypes.Structure):
    """``o2m_error``."""

    _fields_ = (("code", ctypes.c_int32), ("text", ctypes.c_char * (ERROR_BYTES - ERROR_TEXT)))


class CError(Exception):
    """A call that failed, with its code."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.text.decode())
        self.code = error.code


def tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """A dense array as an input."""
    shape = (ctypes.c_int64 * MAX_RANK)(*array.shape)
    return Tensor(array.ctypes.data if array.size else None, NUMBERS[array.dtype], array.ndim, shape, None)


class CModel:
    """``name`` in ``folder``, opened."""

    def __init__(self, folder: Path, name: str, outputs: int, weights: Path | None = None, threads: int = 0) -> None:
        library = ctypes.CDLL(str(folder / f"lib{name}.so"))
        self._open, self._run, self._free, self._close = (
            getattr(library, f"{name}_{f}") for f in ("open", "run", "free", "close")
        )
        self._open.restype = ctypes.c_void_p
        self._outputs = outputs
        error = Error()
        path = str(weights or folder / f"{name}.weights").encode()
        self._model = ctypes.c_void_p(self._open(path, threads, ctypes.byref(error)))
        if not self._model:
            raise CError(error)

    def run(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Outputs for dense inputs."""
        return self.run_tensors([tensor(array) for array in arrays])

    def run_tensors(self, tensors: Sequence[Tensor]) -> list[np.ndarray[Any, Any]]:
        """The same for inputs that may be wrong."""
        inputs, outputs, error = (Tensor * len(tensors))(*tensors), (Tensor * self._outputs)(), Error()
        if self._run(self._model, inputs, outputs, ctypes.byref(error)):
            assert not any(output.data or output.memory for output in outputs)
            raise CError(error)
        assert not error.code
        found = [_copied(output) for output in outputs]
        self._free(outputs)
        assert not any(output.data or output.memory for output in outputs)
        return found

    def close(self) -> None:
        """``NAME_close``."""
        self._close(self._model)


def _copied(output: Tensor) -> np.ndarray[Any, Any]:
    kind, shape = KINDS[output.dtype], tuple(output.shape[: output.rank])
    return np.frombuffer(ctypes.string_at(output.data, kind.itemsize * math.prod(shape)), kind).reshape(shape)
