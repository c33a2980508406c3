"""The protobuf wire format of an ONNX model, read without loading its weights.

`slim` copies a serialized ModelProto but leaves out what is large: every ``TensorProto.raw_data``, and every packed
``float_data`` or ``double_data`` whose bytes already are the tensor's little-endian contents. In its place stands
external data (location, offset, length) that points back into the model's own bytes. The elements of a long list
attribute are left out, too, and its doc_string tells where they are. Parsing then touches only the slim rest, and a file
beyond protobuf's 2 GB limit reads like any other.

Only messages longer than the threshold are entered, so the cost grows with the number of nodes, not with the weights.
Sources: https://protobuf.dev/programming-guides/encoding/ and the field numbers of onnx.proto.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

THRESHOLD = 4096
"""Contents of at least this many bytes are left in the file."""

_MAX_DEPTH = 100  # protobuf's own limit of message nesting
_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)

_FLOAT, _DOUBLE, _COMPLEX64, _COMPLEX128, _STRING = 1, 11, 14, 15, 8

# TensorProto's fields.
_DATA_TYPE, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 2, 9, 13, 14
_TYPED_AS_RAW = {4: (_FLOAT, _COMPLEX64), 10: (_DOUBLE, _COMPLEX128)}
_ALL_TYPED = {4, 5, 6, 7, 10, 11}

# message -> field number -> message: the ways that lead to a TensorProto.
_TENSOR = "Tensor"
_WAYS: dict[str, dict[int, str]] = {
    "Model": {7: "Graph", 25: "Function"},
    "Graph": {1: "Node", 5: _TENSOR, 15: "Sparse"},
    "Function": {7: "Node", 11: "Attribute"},
    "Node": {5: "Attribute"},
    "Attribute": {5: _TENSOR, 6: "Graph", 10: _TENSOR, 11: "Graph", 22: "Sparse", 23: "Sparse"},
    "Sparse": {1: _TENSOR, 2: _TENSOR},
}

# AttributeProto's fields; those that hold a value, or refer to one.
_DOC_STRING, _TYPE = 13, 20
_HOLDING = frozenset({*range(2, 12), 14, 15, 21, 22, 23})
_FLOATS, _INTS, _STRINGS = 7, 8, 9
_LIST_OF_TYPE = {6: _FLOATS, 7: _INTS, 8: _STRINGS}

# Runs of AttributeProto's elements, which are not packed: `floats` of 4 bytes each, `ints`, and short `strings`. Trees have
# millions of them.
_RUNS = {
    _FLOATS << 3 | _FIXED32: re.compile(rb"(?:\x3d.{4})++", re.DOTALL),
    _STRINGS << 3 | _BYTES: re.compile(b"(?:J(?:%s))++" % b"|".join(b"\\x%02x.{%d}" % (n, n) for n in range(32)), re.DOTALL),
    _INTS << 3 | _VARINT: re.compile(rb"(?:\x40[\x80-\xff]{0,9}+[\x00-\x7f])++"),
}

_ASCII = re.compile(rb"[\x00-\x7f]*+")

# The wire types of ModelProto's fields, to tell an ONNX model from other bytes.
_MODEL_FIELDS = {
    1: _VARINT, 2: _BYTES, 3: _BYTES, 4: _BYTES, 5: _VARINT, 6: _BYTES, 7: _BYTES, 8: _BYTES, 14: _BYTES, 20: _BYTES,
    25: _BYTES, 26: _BYTES,
}  # fmt: skip


class WireError(ValueError):
    """The bytes are no well-formed message; ``offset`` is where, ``known`` the ModelProto fields read until there."""

    def __init__(self, offset: int, reason: str, known: frozenset[int] = frozenset()) -> None:
        self.offset = offset
        self.reason = reason
        self.known = known
        super().__init__(f"at byte {offset}: {reason}")


@dataclass
class _Slimmer:
    """Copies messages of ``data`` chunk by chunk; ``marker`` is the location written for contents left behind."""

    data: memoryview
    marker: bytes
    threshold: int
    known: set[int] = field(default_factory=set)

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """The varint at ``at``, and where it ends."""
        value = shift = 0
        start, data = at, self.data
        while True:
            if at >= end:
                raise WireError(start, "the bytes end inside a number")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:
                raise WireError(start, "a number is longer than ten bytes")

    def field_at(self, at: int, end: int) -> tuple[int, int, int, int]:
        """The field at ``at``: its number, wire type, and the span of its contents."""
        start = at
        tag, at = self.varint(at, end)
        number, kind = tag >> 3, tag & 7
        if number == 0 or tag > 0xFFFFFFFF:
            raise WireError(start, f"{number} is no field number")
        if kind == _VARINT:
            stop = self.varint(at, end)[1]
        elif kind == _BYTES:
            length, at = self.varint(at, end)
            stop = at + length
        elif kind in (_FIXED64, _FIXED32):
            stop = at + (8 if kind == _FIXED64 else 4)
        else:
            raise WireError(start, f"wire type {kind} does not occur in ONNX models")
        if stop > end:
            raise WireError(start, f"field {number} needs {stop - end} bytes more than there are")
        return number, kind, at, stop

    def message(self, kind: str, at: int, end: int, out: list[bytes | memoryview], depth: int = 0) -> int:
        """Append the slim copy of message ``kind`` in ``data[at:end]`` to ``out``; returns its length."""
        if depth > _MAX_DEPTH:
            raise WireError(at, f"messages are nested deeper than {_MAX_DEPTH}")
        if kind == _TENSOR:
            return self.tensor(at, end, out)
        if kind == "Attribute" and (length := self.long_list(at, end, out)):
            return length
        ways, size, copied = _WAYS[kind], 0, at
        while at < end:
            if kind == "Attribute" and (stop := end_of_run(self.data, at, end)) > at:
                at = stop
                continue
            number, wire, start, stop = self.field_at(at, end)
            if kind == "Model" and _MODEL_FIELDS.get(number) == wire:
                self.known.add(number)
            inner = ways.get(number)
            if inner is not None and wire == _BYTES and stop - start >= self.threshold:
                chunks: list[bytes | memoryview] = []
                length = self.message(inner, start, stop, chunks, depth + 1)
                if length != stop - start:
                    head = _tag(number, _BYTES) + _varint(length)
                    out += (self.data[copied:at], head, *chunks)
                    size += at - copied + len(head) + length
                    copied = stop
            at = stop
        out.append(self.data[copied:end])
        return size + end - copied

    def long_list(self, at: int, end: int, out: list[bytes | memoryview]) -> int:
        """The slim copy of an AttributeProto that is nothing but a long list; 0, and no copy, for any other."""
        begin, kind, runs = at, 0, []
        while at < end:
            stop = end_of_run(self.data, at, end)
            if stop > at:
                runs.append((at, stop))
            else:
                number, wire, start, stop = self.field_at(at, end)
                if number in _HOLDING:
                    return 0
                if number == _TYPE and wire == _VARINT:
                    kind = self.varint(start, end)[0]
            at = stop
        if len(runs) != 1 or runs[0][1] - runs[0][0] < self.threshold:
            return 0
        start, stop = runs[0]
        number = self.data[start] >> 3
        # What is no text is to be told of when the model is read.
        if _LIST_OF_TYPE.get(kind) != number or (number == _STRINGS and not _ASCII.fullmatch(self.data, start, stop)):
            return 0
        tail = _string(_DOC_STRING, b"%s:%d:%d" % (self.marker, start, stop))
        out += (self.data[begin:start], self.data[stop:end], tail)
        return start - begin + end - stop + len(tail)

    def tensor(self, at: int, end: int, out: list[bytes | memoryview]) -> int:
        """The slim copy of a TensorProto; one that contradicts itself is copied whole, to be judged after parsing."""
        begin, dtype, fields = at, 0, []
        while at < end:
            number, wire, start, stop = self.field_at(at, end)
            fields.append((number, wire, at, start, stop))
            if number == _DATA_TYPE and wire == _VARINT:
                dtype = self.varint(start, end)[0]
            at = stop
        data = [f for f in fields if f[0] == _RAW_DATA or (f[0] in _ALL_TYPED and f[4] > f[3])]
        foreign = any(f[0] in (_EXTERNAL_DATA, _DATA_LOCATION) and f[4] > f[3] and f[1] == _BYTES for f in fields)
        if len(data) == 1 and not foreign and dtype != _STRING:
            number, wire, where, start, stop = data[0]
            as_raw = number == _RAW_DATA or dtype in _TYPED_AS_RAW.get(number, ())
            if as_raw and wire == _BYTES and stop - start >= self.threshold:
                tail = _external(self.marker, start, stop - start)
                out += (self.data[begin:where], self.data[stop:end], tail)
                return (where - begin) + (end - stop) + len(tail)
        out.append(self.data[begin:end])
        return end - begin


def end_of_run(data: memoryview, at: int, end: int) -> int:
    """Where the elements of AttributeProto's lists end, one kind of them, that are whole in ``data[at:end]`` from ``at`` on."""
    run = _RUNS.get(data[at])
    found = None if run is None else run.match(data, at, end)
    return at if found is None else found.end()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _string(number: int, value: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(value)) + value


def _external(marker: bytes, offset: int, length: int) -> bytes:
    entries = ((b"location", marker), (b"offset", str(offset).encode()), (b"length", str(length).encode()))
    encoded = b"".join(_string(_EXTERNAL_DATA, _string(1, key) + _string(2, value)) for key, value in entries)
    return encoded + _tag(_DATA_LOCATION, _VARINT) + _varint(1)


def slim(data: memoryview, marker: str, threshold: int = THRESHOLD) -> tuple[bytes, frozenset[int]]:
    """A copy of the serialized ModelProto ``data`` whose large tensor contents are references into ``data``.

    A reference is external data whose location is ``marker``, with offset and length in bytes. Offsets are as they
    fall in the file: they are in general *not* aligned to the element type. That of a list is ``marker:begin:end``.

    Returns the copy and the numbers of the ModelProto fields that were met. Never reads outside ``data``.

    Raises:
        WireError: where the bytes are not well-formed protobuf.
    """
    slimmer = _Slimmer(data, marker.encode(), threshold)
    chunks: list[bytes | memoryview] = []
    try:
        slimmer.message("Model", 0, len(data), chunks)
    except WireError as error:
        raise WireError(error.offset, error.reason, frozenset(slimmer.known)) from None
    return b"".join(chunks), frozenset(slimmer.known)
