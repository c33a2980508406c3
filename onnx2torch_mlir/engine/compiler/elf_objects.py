"""Relocatable ELF objects made one, as ``ld -r`` does: for 64-bit little-endian ones that LLVM wrote for one module's parts.

All sections stay, those of one name beside each other; symbols are one table, and relocations name their new places there
(System V ABI, chapter 4; the tables' entries are those of Elf64_Ehdr, Elf64_Shdr, Elf64_Sym and Elf64_Rela).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_SYMTAB, _STRTAB, _RELA, _NOBITS, _GROUP, _ADDRSIG = 2, 3, 4, 8, 17, 0x6FFF4C03
_RESERVED = 0xFF00
"""Section numbers from here on are no sections: absolute values and the like."""


@dataclass
class _Section:
    """The fields of a section header but for offset, size and name, and what it holds."""

    name: bytes
    type: int
    flags: int
    link: int
    info: int
    align: int
    entry: int
    data: bytes
    size: int


@dataclass
class _Symbol:
    name: bytes
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def is_local(self) -> bool:
        return self.info >> 4 == 0


@dataclass
class _Object:
    header: tuple[int, ...]
    sections: list[_Section]
    symbols: list[_Symbol]


def joined(codes: Sequence[bytes], local: Collection[str]) -> bytes:
    """The objects as one; the symbols ``local``, by which they find each other, are not seen from outside any more.

    Raises `ValueError` for a symbol that two of them define, and for what LLVM does not write for such modules.
    """
    objects = [_read(code) for code in codes]
    sections = [_Section(b"", 0, 0, 0, 0, 0, 0, b"", 0)]
    places: list[dict[int, int]] = []
    for each in objects:
        kept = [number for number, one in enumerate(each.sections) if one.type not in (0, _SYMTAB, _STRTAB, _ADDRSIG)]
        places.append({number: len(sections) + place for place, number in enumerate(kept)})
        sections += [each.sections[number] for number in kept]
    table, numbers = _symbols(objects, places, {name.encode() for name in local})
    symbols_at = len(sections)
    for each, place, number in zip(objects, places, numbers, strict=True):
        for old, new in place.items():
            one = each.sections[old]
            if one.type == _RELA:
                sections[new] = _relocated(one, symbols_at, place[one.info], number)
            elif one.type == _GROUP or one.link or one.info:
                raise ValueError(f"the section {one.name.decode()} names others")
    names = _Names()
    written = b"".join(_SYMBOL.pack(names.add(s.name), s.info, s.other, s.section, s.value, s.size) for s in table)
    first_global = sum(symbol.is_local for symbol in table)
    sections.append(
        _Section(b".symtab", _SYMTAB, 0, symbols_at + 1, first_global, 8, _SYMBOL.size, written, len(written))
    )
    sections.append(_Section(b".strtab", _STRTAB, 0, 0, 0, 1, 0, names.data, len(names.data)))
    return _write(objects[0].header, sections)


@dataclass
class _Names:
    """A table of strings."""

    data: bytes = b"\0"
    _known: dict[bytes, int] = field(default_factory=lambda: {b"": 0})

    def add(self, name: bytes) -> int:
        """Where the name is in the table."""
        if name not in self._known:
            self._known[name] = len(self.data)
            self.data += name + b"\0"
        return self._known[name]


def _read(code: bytes) -> _Object:
    header = _HEADER.unpack_from(code)
    start, count, names = header[6], header[12], header[13]
    fields = [_SECTION.unpack_from(code, start + number * _SECTION.size) for number in range(count)]
    strings = fields[names]
    sections, symbols = [], []
    for name, kind, flags, _, offset, size, link, info, align, entry in fields:
        data = b"" if kind == _NOBITS else code[offset : offset + size]
        sections.append(_Section(_string(code, strings[4] + name), kind, flags, link, info, align, entry, data, size))
        if kind == _SYMTAB:
            for at in range(0, size, _SYMBOL.size):
                named, *rest = _SYMBOL.unpack_from(data, at)
                symbols.append(_Symbol(_string(code, fields[link][4] + named), *rest))
    return _Object(header, sections, symbols)


def _string(code: bytes, start: int) -> bytes:
    return code[start : code.index(b"\0", start)]


def _symbols(
    objects: list[_Object], places: list[dict[int, int]], local: set[bytes]
) -> tuple[list[_Symbol], list[list[int]]]:
    """One table of all symbols, those that are local first, and for each object where its own are there."""
    nothing = objects[0].symbols[0]
    known: dict[bytes, _Symbol] = {}
    own: list[list[_Symbol]] = []
    for each, place in zip(objects, places, strict=True):
        own.append([nothing])
        for symbol in each.symbols[1:]:
            if symbol.section and symbol.section < _RESERVED:
                symbol.section = place[symbol.section]
            own[-1].append(symbol if symbol.is_local else _agreed(known.setdefault(symbol.name, symbol), symbol))
    for name in local & known.keys():
        known[name].info &= 15
    every = {id(symbol): symbol for found in own for symbol in found}
    table = sorted(every.values(), key=lambda symbol: not symbol.is_local)
    numbers = {id(symbol): number for number, symbol in enumerate(table)}
    return table, [[numbers[id(symbol)] for symbol in found] for found in own]


def _agreed(known: _Symbol, symbol: _Symbol) -> _Symbol:
    """``known``, and what ``symbol`` of the same name says of it."""
    if symbol is not known and symbol.section:
        if known.section:
            raise ValueError(f"{symbol.name.decode()} is defined twice")
        known.info, known.other, known.section, known.value, known.size = (
            symbol.info,
            symbol.other,
            symbol.section,
            symbol.value,
            symbol.size,
        )
    return known


def _relocated(section: _Section, symbols_at: int, target: int, numbers: list[int]) -> _Section:
    entries = []
    for offset, info, addend in _RELOCATION.iter_unpack(section.data):
        entries.append(_RELOCATION.pack(offset, numbers[info >> 32] << 32 | info & 0xFFFFFFFF, addend))
    data = b"".join(entries)
    return _Section(
        section.name, _RELA, section.flags, symbols_at, target, section.align, section.entry, data, len(data)
    )


def _write(header: tuple[int, ...], sections: list[_Section]) -> bytes:
    names = _Names()
    starts = [names.add(section.name) for section in [*sections, _Section(b".shstrtab", 0, 0, 0, 0, 0, 0, b"", 0)]]
    sections = [*sections, _Section(b".shstrtab", _STRTAB, 0, 0, 0, 1, 0, names.data, len(names.data))]
    body = bytearray(_HEADER.size)
    fields = b""
    for start, one in zip(starts, sections, strict=True):
        body += bytes(-len(body) % max(one.align, 1))
        offset = len(body) if one.type else 0
        body += one.data
        fields += _SECTION.pack(start, one.type, one.flags, 0, offset, one.size, one.link, one.info, one.align, one.entry)
    body += bytes(-len(body) % 8)
    changed = list(header)
    changed[6], changed[12], changed[13] = len(body), len(sections), len(sections) - 1
    body[: _HEADER.size] = _HEADER.pack(*changed)
    return bytes(body + fields)
