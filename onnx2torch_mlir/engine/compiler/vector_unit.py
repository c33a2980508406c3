"""What the processor that code is made for computes with: the width and number of its vector registers."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from onnx2torch_mlir.engine import objects


@dataclass(frozen=True)
class VectorUnit:
    """``lanes``: float32 numbers in a register; ``registers``: how many of these there are.

    ``multiplies_pairs``: whether an instruction multiplies integers of 16 bits and adds each two neighbours.
    """

    lanes: int
    registers: int
    multiplies_pairs: bool = False

    @property
    def columns(self) -> int:
        """Columns of a register tile: two registers, so that each broadcast number is used twice."""
        return 2 * self.lanes

    @property
    def rows(self) -> int:
        """Rows of a register tile: what is left of the registers after two for columns and one for a broadcast."""
        return (self.registers - 3) // 2 if self.registers < 32 else 12


@functools.cache
def of_host() -> VectorUnit:
    """The vector unit of this machine; SSE's where nothing better is known."""
    features = set(objects.host().split()[-1].split(","))
    if "+avx512f" in features:
        return VectorUnit(16, 32, "+avx512bw" in features)
    if {"+avx2", "+fma"} <= features:
        return VectorUnit(8, 16, True)
    return VectorUnit(4, 16, "+sse2" in features)
