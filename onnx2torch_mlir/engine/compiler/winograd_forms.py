"""Of what numbers Winograd's F(2x2, 3x3) is computed (winograd_code.py): of float32, or of bytes, then exactly.

Sums of four bytes less their zero points are numbers of 16 bits. Weights are transformed times four (packed_weights.py), which
keeps them integers, of 16 bits too; so are all results, which are divided in the end. Products and sums are those of
integer_tile.py, modulo 2^32.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler.code_text import LINE_BYTES
from onnx2torch_mlir.engine.compiler.contraction_panels import FEW
from onnx2torch_mlir.engine.compiler.integer_packing import less_zero_point
from onnx2torch_mlir.engine.compiler.vector_unit import VectorUnit
from onnx2torch_mlir.engine.layout import INTEGERS_HEADER

_BYTES = {"f32": 4, "i8": 1, "i16": 2, "i32": 4}


@dataclass(frozen=True)
class Form:
    """The types of an image's numbers, of a transformed tile's and of sums, and what they come with.

    ``conversion``: arguments by which a number of the image becomes one of a tile; ``more``: all arguments that the other form
    does not have. ``row_part``: the bytes of which a tile's channels take a whole number. ``header``: the bytes before the
    packed weights. ``quarter``: how many bits the results are shifted by.
    """

    suffix: str
    read: str
    made: str
    sum: str
    conversion: tuple[tuple[str, str], ...]
    more: tuple[tuple[str, str], ...]
    row_part: int
    header: int
    quarter: int

    @property
    def read_bytes(self) -> int:
        """Of a number of the image."""
        return _BYTES[self.read]

    @property
    def made_bytes(self) -> int:
        """Of a number of a transformed tile."""
        return _BYTES[self.made]

    @property
    def is_float(self) -> bool:
        """Whether it is all float32."""
        return self.made == "f32"

    def channels_at_once(self, unit: VectorUnit) -> int:
        """How many numbers of a transformed tile a vector holds."""
        return unit.lanes * _BYTES["f32"] // self.made_bytes

    def added(self, name: str, one: str, other: str, vector: str) -> str:
        """``name``: one plus the other."""
        return f"{name} = arith.add{'f' if self.is_float else 'i'} {one}, {other} : {vector}"

    def subtracted(self, name: str, one: str, other: str, vector: str) -> str:
        """``name``: one less the other."""
        return f"{name} = arith.sub{'f' if self.is_float else 'i'} {one}, {other} : {vector}"

    def constants(self, unit: VectorUnit) -> list[str]:
        """What `loaded` needs, before the loops."""
        if self.is_float:
            return []
        count = self.channels_at_once(unit)
        return [
            f"%flips = vector.broadcast %fa : i8 to vector<{count}xi8>",
            f"%biases = vector.broadcast %za : i16 to vector<{count}xi16>",
        ]

    def loaded(self, name: str, place: str, unit: VectorUnit) -> list[str]:
        """``name``: a vector of channels from the image at ``place``, as numbers that a transform adds."""
        count = self.channels_at_once(unit)
        load = f"llvm.load {place} {{alignment = {self.read_bytes} : i64}} : !llvm.ptr -> vector<{count}x{self.read}>"
        if self.is_float:
            return [f"{name} = {load}"]
        return [f"{name}_bits = {load}", *less_zero_point(name, f"{name}_bits", ("%flips", "%biases"), count)]


FLOATS = Form("", "f32", "f32", "f32", conversion=(), more=tuple(FEW), row_part=LINE_BYTES, header=0, quarter=0)
"""``row_part``: whole lines of the cache, for to write a vector across two takes twice as long (61 channels: the convolution
7 % faster on Cascade Lake)."""

_FLIP_AND_BIAS = (("%fa", "i8"), ("%za", "i16"))
"""Of the image, as in integer_packing.py."""

INTEGERS = Form(
    "_i8",
    "i8",
    "i16",
    "i32",
    conversion=_FLIP_AND_BIAS,
    more=_FLIP_AND_BIAS,
    row_part=4,
    header=INTEGERS_HEADER,
    quarter=2,
)
"""``row_part``: whole pairs. What is behind an odd last channel meets weights of 0."""
