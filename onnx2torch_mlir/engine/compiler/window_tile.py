"""Windows over channels that lie side by side, or over lines: depthwise convolutions and pools, as functions of run-time sizes.

A tile is a few neighbouring places of the result times one vector of channels; its running values stay in registers while it
walks along the taps of the window. The elements of a tap lie as far apart as the places do. What a tap does to a running
value is the body of the nest, on vectors; what follows a window's value is the tail, on the same vectors. A weight, if there
is one, is packed: for each vector of channels the taps in their order, of each the numbers of the channels. Along lines, places
of a line stand for channels: their taps have one number each, and each filter, of the loops around a tile, its own. A tile may
be of several such filters: what they read is loaded once for all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as pairs

from onnx2torch_mlir.engine.compiler import threads
from onnx2torch_mlir.engine.compiler.code_text import asked, bytes_behind, declared, masked_store, moved, product, words
from onnx2torch_mlir.engine.compiler.window_tails import Tail, of_filter
from onnx2torch_mlir.engine.compiler.window_taps import Body, Taps, load


@dataclass(frozen=True)
class Window:
    """A function: what is done along taps, how many loops there are around a tile, and ``bytes`` of an element of the result.

    With ``start``, every running value begins as one number, else as what the result holds. A tile is of at most so many places
    (``most``). With ``spread``, these are vectors of the same channels, and the last one begins so far before its place that it
    ends with them: what it shares with the one before is computed twice, and the same. If a tile is of several filters (see
    `Taps`), the function is given how many times so many there are, and how a filter moves each pointer: for each vector of a
    line all filters come before the next one.
    """

    taps: Taps
    outer: int
    bytes: int
    start: bool
    most: int
    tail: Tail | None = None
    spread: bool = False

    @property
    def body(self) -> Body:
        """What a tap does."""
        return self.taps.body

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return self.taps.lanes

    @property
    def filters(self) -> int:
        """How many filters a tile is of."""
        return self.taps.filters

    @property
    def moved(self) -> list[str]:
        """The pointers that each loop around a tile moves: of the input and the result, of weights and of a tail's inputs."""
        return ["%x", *self._of_filters]

    @property
    def _of_filters(self) -> list[str]:
        """Those of them that a filter has for itself."""
        return ["%o", *(["%w"] if self.taps.single else []), *([] if self.tail is None else self.tail.around())]

    def sizes(self) -> list[str]:
        """The names of the i64 arguments, which come last; of a loop around a tile its count and how it moves each pointer."""
        steps = ["n", *(name[1:] for name in self.moved)]
        outer = [f"o{step}{i}" for i in range(self.outer) for step in steps]
        return [*outer, "tn", "tx", "to", *self._filter_sizes(), *(["all"] if self.spread else []), "cn", *self._tap_sizes()]

    def _tile_sizes(self) -> list[str]:
        return ["tx", "to", *self._filter_sizes(), *(["left"] if self.spread else []), "cn", *self._tap_sizes()]

    def _filter_sizes(self) -> list[str]:
        return ["fn", *(of_filter(pointer, 1)[1:] for pointer in self._of_filters)] if self.filters > 1 else []

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
        """What programs call, with the context first: the outer loops and that over tiles as one, shared among threads."""
        inside = ["even", "cn", *(["fn"] if self.filters > 1 else []), *(f"kn{i}" for i in range(self.taps.loops))]
        values = ", ".join(["%ctx, %count, %work", *(value for value, _ in given)])
        types = ", ".join(["!llvm.ptr, i64, i64", *(kind for _, kind in given)])
        newline = "\n"
        return f"""
          func.func private @{name}(%ctx: !llvm.ptr, {", ".join(f"{value}: {kind}" for value, kind in given)}) {{
            %one = arith.constant 1 : i64
            {newline.join(self._tiles())}
            {product("count", ["%tiles", *(f"%on{i}" for i in range(self.outer))])}
            {product("work", [f"%{size}" for size in inside])}
            func.call @{threads.spread_name(part)}({values}) : ({types}) -> ()
            return
          }}"""

    def _tiles(self) -> list[str]:
        """``%tiles``: how many there are side by side (``%some``: or 1), each of ``%even`` places but for the last one."""
        return [
            f"%most = arith.constant {self.most} : i64",
            "%tiles = arith.ceildivsi %tn, %most : i64",
            "%some = arith.maxsi %tiles, %one : i64",
            "%even = arith.ceildivsi %tn, %some : i64",
        ]

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
        """The function of a range of tiles: of all those of the first turn of the outer loops taken as one, and so on."""
        given = self._given(["%x", "%w", "%o"], self.sizes())
        lines = [
            f"func.func private @{part}({declared(given)}, {threads.RANGE}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            *self._tiles(),
            "%first = arith.divui %begin, %some : i64",
            "%last = arith.ceildivui %end, %some : i64",
            "scf.for %turn = %first to %last step %one : i64 {",
        ]
        here, rest = {name: name for name in self.moved}, "%turn"
        for i in reversed(range(self.outer)):
            lines += [f"%i{i} = arith.remui {rest}, %on{i} : i64", f"%turn{i} = arith.divui {rest}, %on{i} : i64"]
            rest = f"%turn{i}"
            for pointer, place in here.items():
                here[pointer] = f"{pointer}_{i}"
                lines += moved(here[pointer][1:], place, f"%i{i}", f"%o{pointer[1:]}{i}")
        lines += [
            "%before_turn = arith.muli %turn, %some : i64",
            "%from_begin = arith.subi %begin, %before_turn : i64",
            "%to_end = arith.subi %end, %before_turn : i64",
            "%from = arith.maxsi %from_begin, %none : i64",
            "%to_tile = arith.minsi %to_end, %some : i64",
            "scf.for %tile = %from to %to_tile step %one : i64 {",
            "%t = arith.muli %tile, %even : i64",
            *moved("xt", here["%x"], "%t", "%tx"),
            *moved("ot", here["%o"], "%t", "%to"),
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
        for number, pointer in pairs(range(2, self.filters + 1), self._of_filters):
            # The last of these is how far the next filters are.
            one = of_filter(pointer, 1)
            lines.append(f"{of_filter(pointer, number)} = arith.addi {of_filter(pointer, number - 1)}, {one} : i64")
        if self.tail is not None and self.filters == 1:
            lines += self.tail.shared(self.lanes, 1, {})
        lines += ["scf.for %c = %none to %whole step %lanes : i64 {", *self._all_filters(places, "f", "%c", None), "}"]
        if masked:
            lines += [
                "scf.if %some {",
                *self.taps.masks("%mask"),
                *self._all_filters(places, "m", "%whole", "%mask"),
                "}",
            ]
        return "\n".join([*lines, "return", "}"])

    def _vector(self, scalar: str) -> str:
        return f"vector<{self.lanes}x{scalar}>"

    def _store(self, value: str, place: str, scalar: str, mask: str | None) -> str:
        if mask is None:
            return f"llvm.store {value}, {place} {{alignment = {self.bytes} : i64}} : {self._vector(scalar)}, !llvm.ptr"
        return masked_store(value, place, mask, self.lanes, scalar, self.bytes)

    def _all_filters(self, places: int, tag: str, channel: str, mask: str | None) -> list[str]:
        """One vector of channels of all places, of all filters if there are several in a tile."""
        if self.filters == 1:
            return self._channels(places, tag, channel, mask, {})
        here = {pointer: f"%{tag}g_{pointer[1:]}" for pointer in self._of_filters}
        lines = [f"scf.for %{tag}g = %none to %fn step %one : i64 {{"]
        for pointer, place in here.items():
            lines += moved(place[1:], pointer, f"%{tag}g", of_filter(pointer, self.filters))
        lines += self.tail.shared(self.lanes, self.filters, here) if self.tail is not None else []
        return [*lines, *self._channels(places, tag, channel, mask, here), "}"]

    def _channels(self, places: int, tag: str, channel: str, mask: str | None, here: Mapping[str, str]) -> list[str]:
        """One vector of channels of all places; pointers are where ``here`` tells, if it does."""
        out = self.body.type_of(self.body.running)
        lines = [
            f"%{tag}cx = arith.muli {channel}, %xb : i64",
            f"%{tag}co = arith.muli {channel}, %ob : i64",
        ]
        weights, result = (here.get(pointer, pointer) for pointer in ("%w", "%o"))
        if not self.taps.single:
            weights = f"%{tag}w"
            lines += [f"%{tag}cp = arith.divui {channel}, %lanes : i64", *moved(f"{tag}w", "%w", f"%{tag}cp", "%panel0")]
        xs, starts = [], []
        for vector in range(self.filters * places):
            number, place = divmod(vector, places)
            count, back = f"%{tag}n{vector}", self.spread and place == places - 1
            lines.append(f"{count} = arith.constant {place} : i64")
            if not number:
                lines += self._place("%x", "x", tag, f"{tag}x{place}", count, back=back)
                xs.append(f"%{tag}x{place}")
            lines += self._place(result, "o", tag, f"{tag}o{vector}", count, number, back=back)
            if not self.start:
                lines += load(f"%s{tag}{vector}", f"%{tag}o{vector}", self.lanes, out, self.bytes, mask)
            starts.append("%start_v" if self.start else f"%s{tag}{vector}")
            if mask is None:
                lines += self._asked_of_next(tag, place, vector)
        inner, ends = self.taps.text(tag, mask, weights, starts, xs)
        return [*lines, *inner, *self._finish(places, tag, channel, mask, result, ends)]

    @staticmethod
    def _place(base: str, array: str, tag: str, name: str, place: str, number: int = 0, *, back: bool = False) -> list[str]:
        """Where a vector of a place, of that filter of the tile, is in the input ("x") or the result ("o"), which begin at
        ``base``; for a last one that moves ``back``."""
        lines = [f"%{name}_a = arith.muli {place}, %t{array} : i64"]
        far = f"%{name}_a"
        if number:
            lines.append(f"%{name}_d = arith.addi {far}, {of_filter(f'%{array}', number)} : i64")
            far = f"%{name}_d"
        lines.append(f"%{name}_b = arith.addi {far}, %{tag}c{array} : i64")
        far = f"%{name}_b"
        if back:
            lines.append(f"%{name}_c = arith.subi {far}, %back_{array} : i64")
            far = f"%{name}_c"
        return [*lines, f"%{name} = llvm.getelementptr {base}[{far}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"]

    @staticmethod
    def _asked_of_next(tag: str, place: int, vector: int) -> list[str]:
        """What the tile of the next places meets first: elements of its last row of taps, and results. All that lies between
        two of these would be too many streams for a processor to foresee."""
        element, result, lines = f"%{tag}next_x{place}", f"%{tag}next_o{vector}", list[str]()
        if vector == place:
            lines += [bytes_behind(element, f"%{tag}x{place}", "%to_next_x"), asked(element, level=2)]
        return [*lines, bytes_behind(result, f"%{tag}o{vector}", "%to_next_o"), asked(result, writing=True)]

    def _finish(
        self, places: int, tag: str, channel: str, mask: str | None, base: str, ends: Sequence[str]
    ) -> list[str]:
        """What follows the values of the window, and what stores it into the result at ``base``."""
        out, tail = self.body.type_of(self.body.running), self.tail
        stored = [self._store(value, f"%{tag}o{vector}", out, mask) for vector, value in enumerate(ends)]
        if tail is None:
            return stored
        lines = tail.columns(tag, channel, self.lanes, mask)
        if places == 1 or not tail.is_long or tail.result != out:
            for vector, value in enumerate(ends):
                found, result = tail.after(f"{tag}{vector}", tag, f"%{tag}o{vector}", value, self.lanes, mask, vector // places)
                lines += [*found, self._store(result, f"%{tag}o{vector}", tail.result, mask)]
            return lines
        lines += [*stored, f"%{tag}all = arith.constant {places} : i64"]
        for number in range(self.filters):
            name = f"{tag}{number}_p"
            found, result = tail.after(f"{name}l", tag, f"%{name}o", f"%{name}s", self.lanes, mask, number)
            lines += [
                f"scf.for %{name} = %none to %{tag}all step %one : i64 {{",
                *self._place(base, "o", tag, f"{name}o", f"%{name}", number),
                *load(f"%{name}s", f"%{name}o", self.lanes, out, self.bytes, mask),
                *found,
                self._store(result, f"%{name}o", tail.result, mask),
                "}",
            ]
        return lines

