"""The weights' file: what code reads at run time, in one piece that is mapped as it is.

It begins with `MAGIC`, the identity of the code (interface.py), the file's size, the number of parts and their offsets (i64,
little-endian; 0 for a weight that is only needed packed). Parts begin at multiples of 64: weights first, in the order of the
program, then the packed ones in the order of the code's packings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from onnx2torch_mlir.engine.ahead_of_time.interface import COUNT, MAGIC, OFFSETS, TOTAL, Interface
from onnx2torch_mlir.engine.arrays import Array
from onnx2torch_mlir.engine.computed import Computed
from onnx2torch_mlir.engine.derived import Derived
from onnx2torch_mlir.engine.layout import Packing
from onnx2torch_mlir.engine.mapped_files import MappedFiles
from onnx2torch_mlir.engine.packed_weights import packed
from onnx2torch_mlir.engine.weights import OnDemand, loaded
from onnx2torch_mlir.lowering.lowered import Lowered

Writing = Callable[[str, int], AbstractContextManager[Callable[[int], None] | None]]
"""Given a file's name and about how many bytes it will have: what is told the number of bytes of each piece written."""

_STEP = 1 << 24


def write(
    path: Path,
    lowered: Lowered,
    interface: Interface,
    packings: Sequence[Packing],
    derived: Sequence[Derived],
    read: Collection[int],
    writing: Writing,
) -> list[dict[str, Any]]:
    """Write the file; ``derived`` are weights that are computed from others, ``read`` those that the code reads as they are.

    Gives what the manifest says of each part.
    """
    sizes = [
        _bytes(weight.spec.dtype.itemsize, shape) for weight, shape in zip(lowered.weights, interface.weights, strict=True)
    ]
    sizes += [_bytes(4, shape) for shape, _, _ in derived]
    expected = sum(sizes[number] for number in read) + sum(sizes[packing.weight] for packing in packings)
    count = len(sizes) + len(packings)
    offsets = [0] * count
    told: list[dict[str, Any]] = []
    known: dict[object, int] = {}
    with path.open("wb") as file, writing(path.name, expected) as progress:
        file.write(bytes(OFFSETS + 8 * count))
        for number, key, name, array in _parts(lowered, packings, derived, frozenset(read)):
            if key not in known:
                known[key] = _append(file, array, progress)
            offsets[number] = known[key]
            form = {"packed": True} if number >= len(sizes) else {}
            shape = list(array.shape)
            told.append({"name": name, "dtype": str(array.dtype), "shape": shape, "offset": known[key], **form})
        total = file.tell()
        file.seek(0)
        file.write((MAGIC + interface.identity).ljust(OFFSETS, b"\0"))
        file.write(np.array(offsets, "<i8").tobytes())
        for place, value in ((TOTAL, total), (COUNT, count)):
            file.seek(place)
            file.write(value.to_bytes(8, "little"))
    return told


def _parts(
    lowered: Lowered, packings: Sequence[Packing], derived: Sequence[Derived], read: frozenset[int]
) -> Iterator[tuple[int, object, str, Array]]:
    """The number, what tells its contents from others', the weight's name, and the array of each part, one at a time."""
    own, files = len(lowered.weights), MappedFiles()
    for number, weight in enumerate(lowered.weights):
        if number in read:
            array = loaded(weight, files=files)
            yield number, _key(number, weight.array, array), weight.name, array
            files.drop(array.ctypes.data, array.nbytes)
    source = OnDemand(lowered.weights, files)

    def computed(number: int) -> Computed:
        shape, _, steps = derived[number - own]
        return Computed(shape, steps, source, files.drop)

    for number in range(own, own + len(derived)):
        if number in read:
            yield number, number, _name(number, own), computed(number).numbers()
    for number, packing in enumerate(packings, own + len(derived)):
        if packing.weight < own:
            array = packed(source[packing.weight], packing, told=files.drop)
            yield number, repr(packing), lowered.weights[packing.weight].name, array
        else:
            yield number, repr(packing), _name(packing.weight, own), packed(computed(packing.weight), packing)


def _name(number: int, own: int) -> str:
    return f"computed {number - own}"


def _key(number: int, given: Any, array: Array) -> object:
    """The memory of a weight, if it stays where it is: tied weights are one part. Else its number."""
    stays = isinstance(given, torch.Tensor) and array.nbytes and given.data_ptr() == array.ctypes.data
    return (array.ctypes.data, array.nbytes) if stays else number


def _append(file: BinaryIO, array: Array, progress: Callable[[int], None] | None) -> int:
    file.write(bytes(-file.tell() % 64))
    start = file.tell()
    rest = array.reshape(-1).view(np.uint8).data
    while rest:
        count = file.write(rest[:_STEP])
        rest = rest[count:]
        if progress is not None:
            progress(count)
    return start


def _bytes(size: int, shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * size
