"""Writing tensors to files straight from their (mapped) memory, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from onnx2torch_mlir.core.memory_advice import PAGE_OUT, advise
from onnx2torch_mlir.handoff.elements import as_array
from onnx2torch_mlir.handoff.paging import STEP

Progress = Callable[[int], None]
"""Called with the number of bytes that have been written since the last call."""


class RawFile(Protocol):
    """An unbuffered binary file, whose `write` may take less than it is given."""

    def write(self, data: memoryview, /) -> int | None:
        """Write some of ``data``; gives the number of bytes taken."""
        ...


def nbytes_of(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's elements."""
    return tensor.numel() * tensor.dtype.itemsize


def write_tensor(file: RawFile, tensor: torch.Tensor, progress: Progress | None = None) -> None:
    """Write the elements of ``tensor`` in order; its pages are given back to the system as the writing goes on."""
    array = as_array(tensor).reshape(-1).view(np.uint8)
    rest = array.data
    while rest:
        start = array.nbytes - rest.nbytes
        count = file.write(rest[:STEP]) or 0
        advise(array.ctypes.data + start, count, PAGE_OUT)
        rest = rest[count:]
        if progress is not None:
            progress(count)
