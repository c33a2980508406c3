"""What a C program sees of a compiled model: its values, the layout of the structures, and of the weights' file.

Imports no torch: the compiler's worker process reads it too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnx2torch_mlir.engine.derived import Derived

MAX_RANK = 16
"""Dims that an ``o2m_tensor`` has room for."""

DATA, DTYPE, RANK, SHAPE, MEMORY = 0, 8, 12, 16, 16 + 8 * MAX_RANK
TENSOR_BYTES = MEMORY + 8
"""Where the fields of an ``o2m_tensor`` are, in bytes, and its size."""

ERROR_TEXT, ERROR_BYTES = 4, 512
"""Where the text of an ``o2m_error`` begins, and the size of the structure."""

BAD_ARGUMENT, REQUIREMENT, NO_MEMORY, BAD_FILE, BAD_PROCESSOR = range(1, 6)
"""The codes of errors."""

MAGIC = b"o2mwts1\n"
IDENTITY, TOTAL, COUNT, OFFSETS = 8, 40, 48, 64
"""Where the weights' file has the identity of its code (32 bytes), its size, the number of its parts, and their offsets."""


@dataclass(frozen=True)
class ElementType:
    """``number`` is that of ONNX's TensorProto.DataType; ``c_type`` is what C has for it."""

    number: int
    macro: str
    c_type: str
    size: int


ELEMENT_TYPES: dict[str, ElementType] = {
    name: ElementType(number, f"O2M_{name.upper()}", c_type, size)
    for name, number, c_type, size in (
        ("float32", 1, "float", 4),
        ("uint8", 2, "uint8_t", 1),
        ("int8", 3, "int8_t", 1),
        ("uint16", 4, "uint16_t", 2),
        ("int16", 5, "int16_t", 2),
        ("int32", 6, "int32_t", 4),
        ("int64", 7, "int64_t", 8),
        ("bool", 9, "uint8_t, 0 or 1", 1),
        ("float16", 10, "uint16_t holding its bits", 2),
        ("float64", 11, "double", 8),
        ("uint32", 12, "uint32_t", 4),
        ("uint64", 13, "uint64_t", 8),
        ("complex64", 14, "float[2]", 8),
        ("complex128", 15, "double[2]", 16),
        ("bfloat16", 16, "uint16_t holding its bits", 2),
        ("float8_e4m3fn", 17, "uint8_t holding its bits", 1),
        ("float8_e4m3fnuz", 18, "uint8_t holding its bits", 1),
        ("float8_e5m2", 19, "uint8_t holding its bits", 1),
        ("float8_e5m2fnuz", 20, "uint8_t holding its bits", 1),
        ("float8_e8m0fnu", 24, "uint8_t holding its bits", 1),
    )
}
"""By torch's name."""


@dataclass(frozen=True)
class CValue:
    """An input or output. ``shape`` are its sizes as the model tells them: numbers, or texts with the names of its dims.

    ``sizes`` are those that a call has to have: a number, or -1 less the number of the name whose size all dims share that
    bear it. Outputs have none.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    sizes: tuple[int, ...] = ()

    @property
    def element(self) -> ElementType:
        """Its element type."""
        return ELEMENT_TYPES[self.dtype]

    @property
    def declared(self) -> str:
        """The shape in the words of the model."""
        return f"[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Interface:
    """A model for C: ``prefix`` begins the names of its functions; ``weights`` are the shapes of its weights, in order.

    ``features`` are those of LLVM's processor features that the code was made for, and that a processor has to have.
    """

    prefix: str
    inputs: tuple[CValue, ...]
    outputs: tuple[CValue, ...]
    weights: tuple[tuple[int, ...], ...]
    features: tuple[str, ...]
    identity: bytes = b""

    @property
    def entry(self) -> str:
        """A function that the object exports."""
        return f"{self.prefix}_run"

    @property
    def input_words(self) -> int:
        """Words of the inputs: for each a pointer and its sizes."""
        return _words([len(value.shape) for value in self.inputs])

    @property
    def weight_words(self) -> int:
        """Words of the weights."""
        return _words([len(shape) for shape in self.weights])

    @property
    def result_words(self) -> int:
        """Words of the results: for each two pointers, an offset, sizes and strides."""
        return sum(3 + 2 * len(value.shape) for value in self.outputs)

    def with_weights(self, derived: Sequence[Derived]) -> Interface:
        """The same with weights that are computed from the others."""
        return replace(self, weights=(*self.weights, *(tuple(shape) for shape, _, _ in derived)))

    def identified(self, code_key: str) -> Interface:
        """The same with the identity of code that is kept under ``code_key``: weights' files and code belong together by it."""
        return replace(self, identity=hashlib.sha256(f"{code_key} {self!r}".encode()).digest())


def _words(ranks: Sequence[int]) -> int:
    return sum(1 + rank for rank in ranks)
