"""What code goes along in memory, and how it asks for what comes later there, so that it is on its way from far caches in time.

A processor fetches what is read in order by itself, but no further than the end of a page, and not what is written. A loop of
a single operation over 4 MB takes five sixths of the time where it asks (Cascade Lake), one of long chains of operations seven
eighths, a softmax of 512 numbers a row four fifths. What is in the caches next to the processor gains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, llvm, memref

from onnx2torch_mlir.engine.compiler.flatten import element_bytes, value_of
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import ask_for, bytes_on, is_memref, pointer, word_of

AHEAD = 4
"""Groups of turns that what is asked for is ahead of the one that asks."""
_FAR_BYTES = 1 << 18


def pays(types: Iterable[ir.Type]) -> bool:
    """Whether to ask pays where buffers of these types are met: beside what else there is, they are more than the caches next
    to a processor hold, or may be; and it does not have what is met in order by itself (`VectorUnit.fetches_ahead`)."""
    buffers = [ir.MemRefType(type_) for type_ in types if is_memref(type_)]
    if of_host().fetches_ahead:
        return False
    if not all(buffer.has_static_shape for buffer in buffers):
        return True
    return sum(math.prod(buffer.shape) * element_bytes(buffer.element_type) for buffer in buffers) >= _FAR_BYTES


@dataclass(frozen=True)
class Stream:
    """A line of a buffer, at these ``indices`` before the last, that code goes along, maybe to write there."""

    buffer: ir.Value
    indices: tuple[ir.Value, ...]
    writes: bool

    @property
    def width(self) -> int:
        """Bytes of a number."""
        return element_bytes(ir.MemRefType(self.buffer.type).element_type)

    def line(self) -> Line:
        """Where it is, at the insertion point."""
        base, _, *others = memref.ExtractStridedMetadataOp(self.buffer).results
        place, step = word_of(memref.ExtractAlignedPointerAsIndexOp(base).result), None
        for number, stride in zip(self.indices, others[len(self.indices) + 1 :], strict=False):
            step = times(stride, self.width)
            place = arith.AddIOp(place, arith.MulIOp(word_of(number), step).result).result
        return Line(self, llvm.IntToPtrOp(pointer(), place).result, step)


@dataclass(frozen=True)
class Line:
    """Where a `Stream` begins, and how many bytes behind that the next one does, if its buffer has others."""

    stream: Stream
    begin: ir.Value
    step: ir.Value | None

    def ask(self, far: ir.Value, elements: int) -> None:
        """Ask for so many elements that are so many bytes (a word) behind the first."""
        ask_for(bytes_on(self.begin, far), elements * self.stream.width, writing=self.stream.writes)


def times(number: ir.Value, width: int) -> ir.Value:
    """So many times an index, as a word, at the insertion point."""
    product: ir.Value = arith.MulIOp(word_of(number), value_of(width)).result
    return product
