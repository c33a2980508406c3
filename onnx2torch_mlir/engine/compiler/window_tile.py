"""Windows over channels that lie side by side, or over lines: depthwise convolutions and pools, as functions of run-time sizes.

A tile is a few neighbouring places of the result times one vector of channels; its running values stay in registers while it
walks along the taps of the window. The elements of a tap lie as far apart as the places do. What a tap does to a running
value is the body of the nest, on vectors; what follows a window's value is the tail, on the same vectors. A weight, if there
is one, is packed: for each vector of channels the taps in their order, of each the numbers of the channels. Along lines, places
of a line stand for channels: their taps have one number each, and each filter, of the loops around a tile, its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler import threads
from onnx2torch_mlir.engine.compiler.code_text import asked, bytes_behind, declared, masked_store, product, words
from onnx2torch_mlir.engine.compiler.window_code import Code
from onnx2torch_mlir.engine.compiler.window_taps import Body, Taps, load, spread

MOST_PLACES = 8
_LONG_TAIL = 16
"""Operations of a tail that are not written down for each place of a tile: there is a loop over the places."""


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


@dataclass(frozen=True)
class Window:
    """A function: what is done along taps, how many loops there are around a tile, and ``bytes`` of an element of the result.

    With ``start``, every running value begins as one number, else as what the result holds. With ``spread``, places are vectors
    of the same channels, at most so many in a tile, and the last one begins so far before its place that it ends with them:
    what it shares with the one before is computed twice, and the same.
    """

    taps: Taps
    outer: int
    bytes: int
    start: bool
    tail: Tail | None = None
    spread: int = 0

    @property
    def body(self) -> Body:
        """What a tap does."""
        return self.taps.body

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return self.taps.lanes

    @property
    def moved(self) -> list[str]:
        """The pointers that each loop around a tile moves: of the input and the result, of weights and of a tail's inputs."""
        inputs = () if self.tail is None else self.tail.inputs
        weight = ["%w"] if self.taps.single else []
        return ["%x", "%o", *weight, *(f"{input.name}_p" for input in inputs if input.kind == "around")]

    def sizes(self) -> list[str]:
        """The names of the i64 arguments, which come last; of a loop around a tile its count and how it moves each pointer."""
        steps = ["n", *(name[1:] for name in self.moved)]
        outer = [f"o{step}{i}" for i in range(self.outer) for step in steps]
        return [*outer, "tn", "tx", "to", *(["all"] if self.spread else []), "cn", *self._tap_sizes()]

    def _tile_sizes(self) -> list[str]:
        return ["tx", "to", *(["left"] if self.spread else []), "cn", *self._tap_sizes()]

    def _tap_sizes(self) -> list[str]:
        return [f"{letter}{i}" for i in range(self.taps.loops) for letter in ("kn", "kx")]

    def text(self, name: str, places: Collection[int], *, masked: bool) -> str:
        """The function ``name`` and its tiles of so many ``places``; ``masked`` if channels may be no multiple of a vector."""
        given = self._given(["%x", "%w", "%o"], self.sizes())
        part = f"{name}_range"
        texts = [self._tile(name, count, masked=masked) for count in sorted(places)]
        texts += [self._around(part, name, places), threads.spread(part, [kind for _, kind in given])]
        return "\n".join([*texts, self._whole(name, part, given)])

    def _whole(self, name: str, part: str, given: Sequence[tuple[str, str]]) -> str:
        """What programs call, with the context first: the outer loops as one, shared among threads."""
        inside = ["tn", "cn", *(f"kn{i}" for i in range(self.taps.loops))]
        values = ", ".join(["%ctx, %count, %work", *(value for value, _ in given)])
        types = ", ".join(["!llvm.ptr, i64, i64", *(kind for _, kind in given)])
        return f"""
          func.func private @{name}(%ctx: !llvm.ptr, {", ".join(f"{value}: {kind}" for value, kind in given)}) {{
            %one = arith.constant 1 : i64
            {product("count", [f"%on{i}" for i in range(self.outer)])}
            {product("work", [f"%{size}" for size in inside])}
            func.call @{threads.spread_name(part)}({values}) : ({types}) -> ()
            return
          }}"""

    def _given(self, pointers: Sequence[str], sizes: Sequence[str]) -> list[tuple[str, str]]:
        """Arguments and their types: the pointers, those of the tail, scalars of the body, the start, scalars of the tail."""
        codes = [self.body.code] if self.tail is None else [self.body.code, self.tail.code]
        inputs = () if self.tail is None else self.tail.inputs
        scalars = [[(name, code.type_of(name)) for name in code.scalars] for code in codes]
        start = [("%start", self.body.type_of(self.body.running))] if self.start else []
        named = [*pointers, *(f"{input.name}_p" for input in inputs)]
        given = [(name, "!llvm.ptr") for name in named] + scalars[0] + start
        return [*given, *(scalars[1] if self.tail is not None else []), *words(sizes)]

    def _around(self, part: str, name: str, variants: Collection[int]) -> str:
        """The function of a range of turns of the outer loops taken as one."""
        given = self._given(["%x", "%w", "%o"], self.sizes())
        lines = [
            f"func.func private @{part}({declared(given)}, {threads.RANGE}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            f"%most = arith.constant {self.spread or MOST_PLACES} : i64",
            "%some = arith.maxsi %tn, %one : i64",
            "%tiles = arith.ceildivsi %some, %most : i64",
            "%even = arith.ceildivsi %some, %tiles : i64",
        ]
        lines.append("scf.for %turn = %begin to %end step %one : i64 {")
        here, rest = {name: name for name in self.moved}, "%turn"
        for i in reversed(range(self.outer)):
            lines += [f"%i{i} = arith.remui {rest}, %on{i} : i64", f"%turn{i} = arith.divui {rest}, %on{i} : i64"]
            rest = f"%turn{i}"
            for pointer, place in here.items():
                here[pointer] = f"{pointer}_{i}"
                lines += _moved(here[pointer][1:], place, f"%i{i}", f"%o{pointer[1:]}{i}")
        lines += [
            "scf.for %t = %none to %tn step %even : i64 {",
            *_moved("xt", here["%x"], "%t", "%tx"),
            *_moved("ot", here["%o"], "%t", "%to"),
            *self._channels_left(),
            "%rest = arith.subi %tn, %t : i64",
            "%places = arith.minsi %rest, %even : i64",
            "%which = arith.index_cast %places : i64 to index",
            "scf.index_switch %which",
        ]
        inner = self._given(["%x", "%w", "%o", "%base"], self._tile_sizes())
        here |= {"%x": "%xt", "%o": "%ot", "%base": "%o"}
        values, types = (", ".join(part) for part in zip(*((here.get(n, n), kind) for n, kind in inner), strict=True))
        for count in sorted(variants):
            head = f"case {count}" if count < max(variants) else "default"
            lines += [f"{head} {{", f"func.call @{name}_{count}({values}) : ({types}) -> ()", "scf.yield", "}"]
        return "\n".join([*lines, "}", "}", "return", "}"])

    def _channels_left(self) -> list[str]:
        """``%left``: how many channels there are from place ``%t`` on."""
        if not self.spread:
            return []
        return [
            f"%lanes = arith.constant {self.lanes} : i64",
            "%before = arith.muli %t, %lanes : i64",
            "%left = arith.subi %all, %before : i64",
        ]

    def _tile(self, name: str, places: int, *, masked: bool) -> str:
        given = self._given(["%x", "%w", "%o", "%base"], self._tile_sizes())
        lanes, (read, weight) = self.lanes, self.taps.bytes
        sizes = (self.taps.apart * read, weight, self.bytes)
        lines = [
            f"func.func private @{name}_{places}({declared(given)}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            f"%lanes = arith.constant {lanes} : i64",
            *(f"%{letter}b = arith.constant {size} : i64" for letter, size in zip("xwo", sizes, strict=True)),
            f"%lane = arith.constant dense<[{', '.join(map(str, range(lanes)))}]> : vector<{lanes}xi64>",
            *self.taps.shared(),
            "%rest = arith.remui %cn, %lanes : i64",
            "%whole = arith.subi %cn, %rest : i64",
            "%some = arith.cmpi ne, %rest, %none : i64",
            *self.body.code.shared(lanes),
            f"%places = arith.constant {places} : i64",
            "%next_places = arith.muli %places, %tx : i64",
            "%taps_before = arith.subi %kn0, %one : i64",
            "%last_row = arith.muli %taps_before, %kx0 : i64",
            "%to_next_x = arith.addi %next_places, %last_row : i64",
            "%to_next_o = arith.muli %places, %to : i64",
        ]
        if self.spread:
            lines += [
                f"%reach = arith.constant {places * lanes} : i64",
                "%over = arith.subi %reach, %left : i64",
                "%back = arith.maxsi %over, %none : i64",
                *(f"%back_{letter} = arith.muli %back, %{letter}b : i64" for letter in "xo"),
            ]
        if self.start:
            kind = self.body.type_of(self.body.running)
            lines.append(f"%start_v = vector.broadcast %start : {kind} to {self._vector(kind)}")
        if self.tail is not None:
            lines += self._shared_by_tails(self.tail)
        lines += ["scf.for %c = %none to %whole step %lanes : i64 {", *self._channels(places, "f", "%c", None), "}"]
        if masked:
            lines += [
                "scf.if %some {",
                *self.taps.masks("%mask"),
                *self._channels(places, "m", "%whole", "%mask"),
                "}",
            ]
        return "\n".join([*lines, "return", "}"])

    def _shared_by_tails(self, tail: Tail) -> list[str]:
        lines = [
            *tail.code.shared(self.lanes),
            "%there = llvm.ptrtoint %o : !llvm.ptr to i64",
            "%origin = llvm.ptrtoint %base : !llvm.ptr to i64",
            "%apart = arith.subi %there, %origin : i64",
        ]
        for input in tail.inputs:
            kind = tail.code.type_of(input.name)
            if input.kind in ("none", "around"):
                lines += spread(f"{input.name}_v", f"{input.name}_p", self.lanes, kind)
        return lines

    def _vector(self, scalar: str) -> str:
        return f"vector<{self.lanes}x{scalar}>"

    def _store(self, value: str, place: str, scalar: str, mask: str | None) -> str:
        if mask is None:
            return f"llvm.store {value}, {place} {{alignment = {self.bytes} : i64}} : {self._vector(scalar)}, !llvm.ptr"
        return masked_store(value, place, mask, self.lanes, scalar, self.bytes)

    def _channels(self, places: int, tag: str, channel: str, mask: str | None) -> list[str]:
        """One vector of channels of all places."""
        out = self.body.type_of(self.body.running)
        lines = [
            f"%{tag}cx = arith.muli {channel}, %xb : i64",
            f"%{tag}co = arith.muli {channel}, %ob : i64",
        ]
        weights = "%w"
        if not self.taps.single:
            weights = f"%{tag}w"
            lines += [f"%{tag}cp = arith.divui {channel}, %lanes : i64", *_moved(f"{tag}w", "%w", f"%{tag}cp", "%panel0")]
        xs, starts = [], []
        for place in range(places):
            number, back = f"%{tag}n{place}", self.spread > 0 and place == places - 1
            lines += [
                f"{number} = arith.constant {place} : i64",
                *self._place("x", tag, f"{tag}x{place}", number, back=back),
                *self._place("o", tag, f"{tag}o{place}", number, back=back),
            ]
            if not self.start:
                lines += load(f"%s{tag}{place}", f"%{tag}o{place}", self.lanes, out, self.bytes, mask)
            if mask is None:
                lines += self._asked_of_next(tag, place)
            xs.append(f"%{tag}x{place}")
            starts.append("%start_v" if self.start else f"%s{tag}{place}")
        inner, ends = self.taps.text(tag, mask, weights, starts, xs)
        return [*lines, *inner, *self._finish(places, tag, channel, mask, ends)]

    @staticmethod
    def _place(array: str, tag: str, name: str, number: str, *, back: bool = False) -> list[str]:
        """Where a vector of a place is in the input ("x") or the result ("o"); for a last one that moves ``back``."""
        lines = [f"%{name}_a = arith.muli {number}, %t{array} : i64", f"%{name}_b = arith.addi %{name}_a, %{tag}c{array} : i64"]
        if back:
            lines.append(f"%{name}_c = arith.subi %{name}_b, %back_{array} : i64")
        far = f"%{name}_c" if back else f"%{name}_b"
        return [*lines, f"%{name} = llvm.getelementptr %{array}[{far}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"]

    @staticmethod
    def _asked_of_next(tag: str, place: int) -> list[str]:
        """What the tile of the next places meets first: elements of its last row of taps, and results. All that lies between
        two of these would be too many streams for a processor to foresee."""
        element, result = f"%{tag}next_x{place}", f"%{tag}next_o{place}"
        return [
            *(bytes_behind(element, f"%{tag}x{place}", "%to_next_x"), asked(element, level=2)),
            *(bytes_behind(result, f"%{tag}o{place}", "%to_next_o"), asked(result, writing=True)),
        ]

    def _finish(self, places: int, tag: str, channel: str, mask: str | None, ends: Sequence[str]) -> list[str]:
        """What follows the values of the window, and what stores it."""
        out, tail = self.body.type_of(self.body.running), self.tail
        if tail is None:
            return [self._store(value, f"%{tag}o{place}", out, mask) for place, value in enumerate(ends)]
        lines, result = [], tail.code.type_of(tail.code.yielded)
        for input in tail.inputs:
            if input.kind == "column":
                name = f"%{tag}{input.name[1:]}"
                lines += [
                    f"{name}_size = arith.constant {input.bytes} : i64",
                    *_moved(f"{name[1:]}_at", f"{input.name}_p", channel, f"{name}_size"),
                    *load(f"{name}_c", f"{name}_at", self.lanes, tail.code.type_of(input.name), input.bytes, mask),
                ]
        if places == 1 or len(tail.code.operations) <= _LONG_TAIL or result != out:
            for place, value in enumerate(ends):
                lines += self._after(tail, f"{tag}{place}", tag, f"%{tag}o{place}", value, mask)
            return lines
        lines += [self._store(value, f"%{tag}o{place}", out, mask) for place, value in enumerate(ends)]
        return [
            *lines,
            f"%{tag}all = arith.constant {places} : i64",
            f"scf.for %{tag}p = %none to %{tag}all step %one : i64 {{",
            *self._place("o", tag, f"{tag}po", f"%{tag}p"),
            *load(f"%{tag}ps", f"%{tag}po", self.lanes, out, self.bytes, mask),
            *self._after(tail, f"{tag}l", tag, f"%{tag}po", f"%{tag}ps", mask),
            "}",
        ]

    def _after(self, tail: Tail, name: str, tag: str, place: str, value: str, mask: str | None) -> list[str]:
        """The tail of one vector, which belongs at ``place`` of the result."""
        lines, given = [], dict.fromkeys(tail.sums, value)
        for input in tail.inputs:
            kind = tail.code.type_of(input.name)
            if input.kind in ("none", "around"):
                given[input.name] = f"{input.name}_v"
            elif input.kind == "column":
                given[input.name] = f"%{tag}{input.name[1:]}_c"
            else:
                here = f"%{name}{input.name[1:]}"
                lines += [
                    f"{here}_f = arith.addi %apart, {place}_b : i64",
                    f"{here}_e = arith.divui {here}_f, %ob : i64",
                    f"{here}_size = arith.constant {input.bytes} : i64",
                    *_moved(f"{here[1:]}_at", f"{input.name}_p", f"{here}_e", f"{here}_size"),
                    *load(here, f"{here}_at", self.lanes, kind, input.bytes, mask),
                ]
                given[input.name] = here
        found, result = tail.code.on_vectors(self.lanes, given, f"{name}_")
        return [*lines, *found, self._store(result, place, tail.code.type_of(tail.code.yielded), mask)]


def _moved(name: str, base: str, count: str, step: str) -> list[str]:
    return [
        f"%{name}_far = arith.muli {count}, {step} : i64",
        f"%{name} = llvm.getelementptr {base}[%{name}_far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
    ]
