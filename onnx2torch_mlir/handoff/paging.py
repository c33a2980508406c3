"""Writing mapped weights without gathering them in memory.

A weight that is mapped from a file comes into memory when it is written out, and the system keeps it there as long as
there is room. Given back as the writing goes on, a model larger than the memory at hand can be handed on.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from onnx2torch_mlir.core.memory_advice import PAGE_OUT, advise

if TYPE_CHECKING:
    import torch

STEP = 32 << 20
"""Bytes written between two hints."""


class ReleasingFile(io.RawIOBase):
    """A binary file that gives the pages of ``tensors`` back to the system as it is written.

    ``progress`` is called with the number of bytes that have been written since the last call.
    """

    def __init__(
        self, file: BinaryIO, tensors: Sequence[torch.Tensor], progress: Callable[[int], None] | None = None
    ) -> None:
        self._file = file
        self._tensors = tensors
        self._progress = progress
        self._written = 0

    def write(self, data: Any) -> int:
        """Write all of ``data`` (bytes, or memory that looks like bytes)."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), STEP):
            self._file.write(view[start : start + STEP])
            self._count(min(STEP, len(view) - start))
        return len(view)

    def _count(self, count: int) -> None:
        self._written += count
        if self._written >= STEP:
            self.tell_progress()
            page_out(self._tensors)

    def tell_progress(self) -> None:
        """Say what has been written since the last time."""
        if self._progress is not None and self._written:
            self._progress(self._written)
        self._written = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """As the file below."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move in the file below."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The place in the file below."""
        return self._file.tell()


def page_out(tensors: Sequence[torch.Tensor]) -> None:
    """Tell the system that the memory of ``tensors`` is not needed for now; a no-op where there is no such hint."""
    for tensor in tensors:
        advise(tensor.data_ptr(), tensor.nbytes, PAGE_OUT)
