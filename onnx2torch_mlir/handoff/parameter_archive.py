"""Weight files in IREE's format of parameter archives (.irpa), written straight from the tensors' memory.

The format (iree/schemas/parameter_archive.h, version 0): a header, a table of entries, their names, their data. Everything is
little-endian, offsets are relative to the header, an entry begins at a multiple of 16 and its data at one of 64 bytes.
IREE's own tools write the same bytes for the same parameters.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from onnx2torch_mlir.handoff.atomic import replacing
from onnx2torch_mlir.handoff.weight_file import Progress, nbytes_of, write_tensor

if TYPE_CHECKING:
    import torch

_MAGIC = b"IRPA"
_HEADER = struct.Struct("<4sHHQQQ Q QQ QQ QQ")
"""Magic, version, size of the header, next header, flags; number of entries; offset and length of entries, names, data."""
_ENTRY = struct.Struct("<QIQ QQ QQ Q QQ")
"""Size, type, flags; offset and length of the name, of metadata; alignment; offset and length of the data."""
_DATA_ENTRY = 2
_ENTRY_ALIGNMENT = 16
_DATA_ALIGNMENT = 64
_FILE_ALIGNMENT = 4096


def save_archive(tensors: Mapping[str, torch.Tensor], path: str | os.PathLike[str], progress: Progress | None = None) -> None:
    """Write ``tensors`` to a parameter archive at ``path``, one after the other and without a copy of any.

    Raises:
        Refusal: O2M-U004 where ``path`` cannot be written.
    """
    names = [name.encode() for name in tensors]
    sizes = [nbytes_of(tensor) for tensor in tensors.values()]
    table = bytearray()
    named = end = 0
    starts = []
    for name, size in zip(names, sizes, strict=True):
        table += bytes(-len(table) % _ENTRY_ALIGNMENT)
        start = _aligned(end, _DATA_ALIGNMENT)
        table += _ENTRY.pack(_ENTRY.size, _DATA_ENTRY, 0, named, len(name), 0, 0, _DATA_ALIGNMENT, start, size)
        starts.append(start)
        named, end = named + len(name), start + size
    entries = _aligned(_HEADER.size, _ENTRY_ALIGNMENT)
    metadata = entries + len(table)
    data = _aligned(metadata + named, _DATA_ALIGNMENT if names else 1)
    segments = (entries, len(table), metadata, named, data, end)
    header = _HEADER.pack(_MAGIC, 0, 0, _HEADER.size, 0, 0, len(names), *segments)
    with replacing(path) as temporary, temporary.open("wb", buffering=0) as file:
        file.write((header.ljust(entries, b"\0") + table + b"".join(names)).ljust(data, b"\0"))
        written = 0
        for start, size, tensor in zip(starts, sizes, tensors.values(), strict=True):
            file.write(bytes(start - written))
            write_tensor(file, tensor, progress)
            written = start + size
        file.write(bytes(_aligned(data + end, _FILE_ALIGNMENT) - data - end))


def _aligned(position: int, alignment: int) -> int:
    return position + -position % alignment
