"""How packed columns of integers lie in memory: the forms that packed_weights.py may give a weight, and tiles read.

Neighbours along the sum lie side by side for each column: *fours* of bytes, which are multiplied as such; *pairs* of 16 bits;
or pairs of *bytes*, which become pairs of 16 bits as they are read. Those take half of the memory, and where a few rows meet
each column once, they come from memory in half of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import AS_BYTES, AS_FOURS, AS_PAIRS, Packing


@dataclass(frozen=True)
class IntegerForm:
    """``number``: in the header of packed weights. ``rows``: what the rows are packed as that meet them. ``bytes``: of what is
    multiplied at once for a column."""

    name: str
    number: int
    rows: str
    bytes: int

    @property
    def is_fours(self) -> bool:
        """Whether bytes are multiplied as such; the sums of a panel's columns come first then, an int32 each."""
        return self.name == "fours"

    def step_bytes(self, unit: VectorUnit) -> int:
        """Of a panel, for a step along the sum."""
        return self.bytes * unit.columns

    def head_bytes(self, unit: VectorUnit) -> int:
        """Before a panel's columns."""
        return 4 * unit.columns if self.is_fours else 0


FOURS = IntegerForm("fours", AS_FOURS, "fours", 4)
PAIRS = IntegerForm("pairs", AS_PAIRS, "pairs", 4)
BYTES = IntegerForm("bytes", AS_BYTES, "pairs", 2)
FORMS = (FOURS, PAIRS, BYTES)


def possible(unit: VectorUnit, packing: Packing) -> set[IntegerForm]:
    """The forms that a weight may turn out to have, of whatever numbers; not of windows (winograd_forms.py)."""
    wide = BYTES if packing.holds_bytes else PAIRS
    if not packing.largest:
        return {wide}
    return {FOURS} if packing.holds_bytes and unit.has_dot_products else {FOURS, wide}
