"""Long list attributes, which stay in the model's bytes until somebody asks for their elements.

The nodes of trees are attributes, millions of elements long. As Python's objects each would take ten times what it takes in
the file, and protobuf, onnx_ir and whoever converts the node would have lists of their own. In a slim model (wire.py) such
an attribute has no elements, and a doc_string that tells where they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, overload

import numpy as np
import onnx
import onnx_ir as ir

from onnx2torch_mlir.model import wire
from onnx2torch_mlir.model.external_data import let_go

_PART = 1 << 16
"""Bytes that are taken apart at once."""

Numbers = np.ndarray[Any, np.dtype[Any]]


class StoredList(Sequence[Any]):
    """A list in the model's bytes; they are read anew each time. numpy makes an array of numbers without Python's objects."""

    def __init__(self, type_: ir.AttributeType, data: memoryview) -> None:
        self._type = type_
        self._data = data
        self._length: int | None = None

    def __len__(self) -> int:
        if self._length is None:
            self._length = _LENGTHS[self._type](self._data)
            let_go(self._data)
        return self._length

    def __iter__(self) -> Iterator[Any]:
        if self._type in _NUMBERS:
            return iter(self.__array__().tolist())
        return _strings(self._data)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return list(self)[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Numbers:
        if copy is False:
            raise ValueError("elements are taken apart: there is no array without a copy")
        found = _NUMBERS[self._type](self._data) if self._type in _NUMBERS else np.array(list(self))
        # There are two of them now, and hardly anybody takes elements twice.
        let_go(self._data)
        return found if dtype is None else found.astype(dtype, copy=False)


class StoredAttribute(ir.Attr):
    """An attribute whose value is a `StoredList`, where onnx_ir would make a tuple of it."""

    def __init__(self, name: str, type_: ir.AttributeType, elements: StoredList) -> None:
        super().__init__(name, type_, None)
        self._value = elements


def place_lists(attributes: MutableMapping[str, ir.Attr], data: memoryview, marker: str) -> None:
    """Give those of ``attributes`` whose elements were left in ``data`` these elements."""
    for name, attribute in list(attributes.items()):
        if attribute.doc_string and attribute.doc_string.startswith(f"{marker}:"):
            start, stop = map(int, attribute.doc_string.split(":")[1:])
            attributes[name] = StoredAttribute(name, attribute.type, StoredList(attribute.type, data[start:stop]))


def _floats(data: memoryview) -> Numbers:
    """Each a tag and four bytes."""
    found: Numbers = np.frombuffer(data, np.uint8).reshape(-1, 5)[:, 1:].copy().view("<f4").reshape(-1)
    return found


def _ints(data: memoryview) -> Numbers:
    """Each a tag and a varint, of which only the last byte has no highest bit; the tag has none either."""
    given = np.frombuffer(data, np.uint8)
    found = np.empty(_LENGTHS[ir.AttributeType.INTS](data), np.int64)
    at = done = 0
    while at < len(given):
        part = given[at : at + _PART]
        ends = np.flatnonzero(part < 0x80)
        tags, lasts = ends[0 : len(ends) // 2 * 2 : 2], ends[1::2]
        more = lasts - tags - 1
        bits = part & 0x7F
        values = bits[tags + 1].astype(np.int64)
        for place in range(1, int(more.max()) + 1):
            longer = np.flatnonzero(more >= place)
            values[longer] |= bits[tags[longer] + 1 + place].astype(np.int64) << 7 * place
        found[done : done + len(values)] = values
        done += len(values)
        at += int(lasts[-1]) + 1
    return found


def _strings(data: memoryview) -> Iterator[str]:
    def parts() -> Iterator[Sequence[bytes]]:
        at = 0
        while at < len(data):
            stop = wire.end_of_run(data, at, min(at + _PART, len(data)))
            yield onnx.AttributeProto.FromString(bytes(data[at:stop])).strings
            at = stop

    return map(bytes.decode, itertools.chain.from_iterable(parts()))


_NUMBERS: dict[ir.AttributeType, Callable[[memoryview], Numbers]] = {
    ir.AttributeType.FLOATS: _floats,
    ir.AttributeType.INTS: _ints,
}
_LENGTHS: dict[ir.AttributeType, Callable[[memoryview], int]] = {
    ir.AttributeType.FLOATS: lambda data: len(data) // 5,
    ir.AttributeType.INTS: lambda data: int(np.count_nonzero(np.frombuffer(data, np.uint8) < 0x80)) // 2,
    ir.AttributeType.STRINGS: lambda data: sum(1 for _ in _strings(data)),
}
