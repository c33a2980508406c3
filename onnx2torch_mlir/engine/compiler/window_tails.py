"""What follows the value of a window in a tile of window_tile.py: computed on the same vectors, before they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, moved
from onnx2torch_mlir.engine.compiler.window_code import Code
from onnx2torch_mlir.engine.compiler.window_taps import load, spread

_LONG = 16
"""Operations of a tail that are not written down for each place of a tile."""


@dataclass(frozen=True)
class Input:
    """Another array that a tail reads: its name in the code, how it moves ("all" like the result, by "column", "around" by the
    loops around a tile, or "none"), and the bytes of an element."""

    name: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class Tail:
    """What is computed of each value of a window right after it; ``sums`` are the names of that value."""

    code: Code
    sums: tuple[str, ...]
    inputs: tuple[Input, ...]

    @property
    def result(self) -> str:
        """The scalar type of what it makes."""
        return self.code.type_of(self.code.yielded)

    @property
    def is_long(self) -> bool:
        """Whether it is better written down once, in a loop over places, than for each of these."""
        return len(self.code.operations) > _LONG

    def around(self) -> list[str]:
        """The pointers that loops around a tile move."""
        return [f"{input.name}_p" for input in self.inputs if input.kind == "around"]

    def shared(self, lanes: int, filters: int, here: Mapping[str, str]) -> list[str]:
        """What all vectors of so many filters need: how far their result is behind ``%base``, and numbers that are the same for
        all of them, or for all of a filter; pointers are where ``here`` tells, if it does."""
        lines = [
            *self.code.shared(lanes),
            f"%there = llvm.ptrtoint {here.get('%o', '%o')} : !llvm.ptr to i64",
            "%origin = llvm.ptrtoint %base : !llvm.ptr to i64",
            "%apart = arith.subi %there, %origin : i64",
        ]
        for input in self.inputs:
            kind, pointer = self.code.type_of(input.name), f"{input.name}_p"
            first = here.get(pointer, pointer)
            for number in range({"none": 1, "around": filters}.get(input.kind, 0)):
                place = f"{pointer}{number}" if number else first
                lines += [bytes_behind(place, first, of_filter(pointer, number))] if number else []
                lines += spread(f"{input.name}_v{number}", place, lanes, kind)
        return lines

    def columns(self, tag: str, channel: str, lanes: int, mask: str | None) -> list[str]:
        """The vectors at ``channel`` that all places share."""
        lines = []
        for input in self.inputs:
            if input.kind == "column":
                name = f"%{tag}{input.name[1:]}"
                lines += [
                    f"{name}_size = arith.constant {input.bytes} : i64",
                    *moved(f"{name[1:]}_at", f"{input.name}_p", channel, f"{name}_size"),
                    *load(f"{name}_c", f"{name}_at", lanes, self.code.type_of(input.name), input.bytes, mask),
                ]
        return lines

    def after(
        self, name: str, tag: str, place: str, value: str, lanes: int, mask: str | None, number: int
    ) -> tuple[list[str], str]:
        """The text for one vector, which belongs at ``place`` of the result of that filter of the tile, and what it makes."""
        lines, given = list[str](), dict.fromkeys(self.sums, value)
        for input in self.inputs:
            kind = self.code.type_of(input.name)
            if input.kind in ("none", "around"):
                given[input.name] = f"{input.name}_v{number if input.kind == 'around' else 0}"
            elif input.kind == "column":
                given[input.name] = f"%{tag}{input.name[1:]}_c"
            else:
                here = f"%{name}{input.name[1:]}"
                lines += [
                    f"{here}_f = arith.addi %apart, {place}_b : i64",
                    f"{here}_e = arith.divui {here}_f, %ob : i64",
                    f"{here}_size = arith.constant {input.bytes} : i64",
                    *moved(f"{here[1:]}_at", f"{input.name}_p", f"{here}_e", f"{here}_size"),
                    *load(here, f"{here}_at", lanes, kind, input.bytes, mask),
                ]
                given[input.name] = here
        found, result = self.code.on_vectors(lanes, given, f"{name}_")
        return [*lines, *found], result


def of_filter(pointer: str, number: int) -> str:
    """How far a filter of a tile, of those that read the same, moves a pointer."""
    return f"%filter{number}_{pointer[1:]}"
