"""Windows over channels that lie side by side: depthwise convolutions and pools, as functions of run-time sizes.

A tile is a few neighbouring places of the result times one vector of channels; its running values stay in registers while it
walks along the taps of the window. The elements of a tap lie as far apart as the places do. What a tap does to a running
value is the body of the nest, on vectors. A weight, if there is one, is packed: for each vector of channels the taps in their
order, of each the numbers of the channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_PLACES = 8


@dataclass(frozen=True)
class Body:
    """What a tap does: operations on scalars as (result, name, operands, attributes, result type), and which value it gives.

    ``x``, ``w`` (None if there is no weight) and ``running`` name the elements; ``scalars`` are values from outside.
    """

    operations: tuple[tuple[str, str, tuple[str, ...], str, str], ...]
    yielded: str
    x: str
    w: str | None
    running: str
    types: tuple[tuple[str, str], ...]
    scalars: tuple[str, ...]

    def type_of(self, name: str) -> str:
        """The scalar type of a value of the body."""
        return dict(self.types)[name]


@dataclass(frozen=True)
class Window:
    """A function: how many loops there are around a tile, and of taps; ``bytes`` of an element of x, w and the result."""

    body: Body
    lanes: int
    outer: int
    taps: int
    bytes: tuple[int, int, int]

    def sizes(self) -> list[str]:
        """The names of the i64 arguments, after the three pointers and the scalars."""
        outer = [f"{letter}{i}" for i in range(self.outer) for letter in ("on", "ox", "oo")]
        return [*outer, "tn", "tx", "to", "cn", *self._tap_sizes()]

    def _tap_sizes(self) -> list[str]:
        return [f"{letter}{i}" for i in range(self.taps) for letter in ("kn", "kx")]

    def text(self, name: str) -> str:
        """The function ``name`` and its tiles."""
        return "\n".join([*(self._tile(name, places) for places in range(1, _MOST_PLACES + 1)), self._around(name)])

    def _scalars(self) -> list[str]:
        return [f"{scalar}: {self.body.type_of(scalar)}" for scalar in self.body.scalars]

    def _around(self, name: str) -> str:
        given = ["%x: !llvm.ptr", "%w: !llvm.ptr", "%o: !llvm.ptr", *self._scalars(), *(f"%{n}: i64" for n in self.sizes())]
        lines = [
            f"func.func private @{name}({', '.join(given)}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            f"%most = arith.constant {_MOST_PLACES} : i64",
            "%some = arith.maxsi %tn, %one : i64",
            "%tiles = arith.ceildivsi %some, %most : i64",
            "%even = arith.ceildivsi %some, %tiles : i64",
        ]
        x, o = "%x", "%o"
        for i in range(self.outer):
            lines.append(f"scf.for %i{i} = %none to %on{i} step %one : i64 {{")
            lines += _moved(f"x{i}", x, f"%i{i}", f"%ox{i}") + _moved(f"o{i}", o, f"%i{i}", f"%oo{i}")
            x, o = f"%x{i}", f"%o{i}"
        lines += [
            "scf.for %t = %none to %tn step %even : i64 {",
            *_moved("xt", x, "%t", "%tx"),
            *_moved("ot", o, "%t", "%to"),
            "%rest = arith.subi %tn, %t : i64",
            "%places = arith.minsi %rest, %even : i64",
            "%which = arith.index_cast %places : i64 to index",
            "scf.index_switch %which",
        ]
        types = ", ".join(["!llvm.ptr"] * 3 + [self.body.type_of(s) for s in self.body.scalars] + ["i64"] * (3 + 2 * self.taps))
        values = ["%xt", "%w", "%ot", *self.body.scalars, "%tx", "%to", "%cn", *(f"%{n}" for n in self._tap_sizes())]
        for places in range(1, _MOST_PLACES + 1):
            head = f"case {places}" if places < _MOST_PLACES else "default"
            lines += [f"{head} {{", f"func.call @{name}_{places}({', '.join(values)}) : ({types}) -> ()", "scf.yield", "}"]
        return "\n".join([*lines, "}", *["}"] * self.outer, "return", "}"])

    def _tile(self, name: str, places: int) -> str:
        sizes = ["tx", "to", "cn", *self._tap_sizes()]
        given = ["%x: !llvm.ptr", "%w: !llvm.ptr", "%o: !llvm.ptr", *self._scalars(), *(f"%{n}: i64" for n in sizes)]
        lanes, kinds = self.lanes, self.bytes
        lines = [
            f"func.func private @{name}_{places}({', '.join(given)}) {{",
            "%none = arith.constant 0 : i64",
            "%one = arith.constant 1 : i64",
            f"%lanes = arith.constant {lanes} : i64",
            *(f"%{letter}b = arith.constant {size} : i64" for letter, size in zip("xwo", kinds, strict=True)),
            f"%lane = arith.constant dense<[{', '.join(map(str, range(lanes)))}]> : vector<{lanes}xi64>",
            f"%panel0 = arith.constant {lanes * kinds[1]} : i64",
            *(f"%panel{i + 1} = arith.muli %panel{i}, %kn{i} : i64" for i in range(self.taps)),
            "%rest = arith.remui %cn, %lanes : i64",
            "%whole = arith.subi %cn, %rest : i64",
            "%some = arith.cmpi ne, %rest, %none : i64",
        ]
        for scalar in self.body.scalars:
            kind = self.body.type_of(scalar)
            lines.append(f"{scalar}_v = vector.broadcast {scalar} : {kind} to {self._vector(kind)}")
        lines += ["scf.for %c = %none to %whole step %lanes : i64 {", *self._channels(places, "f", "%c", None), "}"]
        lines += [
            "scf.if %some {",
            f"%limit = vector.broadcast %rest : i64 to vector<{lanes}xi64>",
            f"%mask = arith.cmpi slt, %lane, %limit : vector<{lanes}xi64>",
            *self._channels(places, "m", "%whole", "%mask"),
            "}",
        ]
        return "\n".join([*lines, "return", "}"])

    def _vector(self, scalar: str) -> str:
        return f"vector<{self.lanes}x{scalar}>"

    def _load(self, name: str, place: str, scalar: str, mask: str | None) -> list[str]:
        vector = self._vector(scalar)
        size = self.bytes[2] if name.startswith("%s") else self.bytes[0]
        if mask is None:
            return [f"{name} = llvm.load {place} {{alignment = {size} : i64}} : !llvm.ptr -> {vector}"]
        zero = "0.0" if scalar.startswith("f") else "0"
        return [
            f"{name}_z = arith.constant dense<{zero}> : {vector}",
            f"{name} = llvm.intr.masked.load {place}, {mask}, {name}_z {{alignment = {size} : i32}}"
            f" : (!llvm.ptr, vector<{self.lanes}xi1>, {vector}) -> {vector}",
        ]

    def _channels(self, places: int, tag: str, channel: str, mask: str | None) -> list[str]:
        """One vector of channels of all places."""
        body = self.body
        out, kind = body.type_of(body.running), self._vector(body.type_of(body.running))
        lines = [
            f"%{tag}cx = arith.muli {channel}, %xb : i64",
            f"%{tag}co = arith.muli {channel}, %ob : i64",
            f"%{tag}cp = arith.divui {channel}, %lanes : i64",
            *_moved(f"{tag}w", "%w", f"%{tag}cp", f"%panel{self.taps}"),
        ]
        xs, starts = [], []
        for place in range(places):
            number = f"%{tag}n{place}"
            lines += [
                f"{number} = arith.constant {place} : i64",
                f"%{tag}ax{place} = arith.muli {number}, %tx : i64",
                f"%{tag}bx{place} = arith.addi %{tag}ax{place}, %{tag}cx : i64",
                f"%{tag}x{place} = llvm.getelementptr %x[%{tag}bx{place}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                f"%{tag}ao{place} = arith.muli {number}, %to : i64",
                f"%{tag}bo{place} = arith.addi %{tag}ao{place}, %{tag}co : i64",
                f"%{tag}o{place} = llvm.getelementptr %o[%{tag}bo{place}] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                *self._load(f"%s{tag}{place}", f"%{tag}o{place}", out, mask),
            ]
            xs.append(f"%{tag}x{place}")
            starts.append(f"%s{tag}{place}")
        inner, ends, _ = self._taps(0, tag, mask, "%none", f"%{tag}w", starts, xs)
        lines += inner
        for place, value in enumerate(ends):
            target = f"%{tag}o{place}"
            if mask is None:
                lines.append(f"llvm.store {value}, {target} {{alignment = {self.bytes[2]} : i64}} : {kind}, !llvm.ptr")
            else:
                lines.append(
                    f"llvm.intr.masked.store {value}, {target}, {mask} {{alignment = {self.bytes[2]} : i32}}"
                    f" : {kind}, vector<{self.lanes}xi1> into !llvm.ptr"
                )
        return lines

    def _taps(
        self, depth: int, tag: str, mask: str | None, far: str, w: str, running: Sequence[str], xs: Sequence[str]
    ) -> tuple[list[str], list[str], str]:
        """The loops of taps from ``depth`` on: their text, the running values and the place in the weight after them."""
        if depth == self.taps:
            return self._tap(tag, mask, far, w, running, xs)
        kind = self._vector(self.body.type_of(self.body.running))
        types = ", ".join([*[kind] * len(running), "!llvm.ptr"])
        held = [f"%{tag}h{depth}_{i}" for i in range(len(running))]
        place = f"%{tag}q{depth}"
        given = ", ".join(f"{h} = {v}" for h, v in zip([*held, place], [*running, w], strict=True))
        index, result = f"%{tag}k{depth}", f"%{tag}r{depth}"
        inner, ends, after = self._taps(depth + 1, tag, mask, f"{index}_a", place, held, xs)
        lines = [
            f"{result}:{len(held) + 1} = scf.for {index} = %none to %kn{depth} step %one iter_args({given})"
            f" -> ({types}) : i64 {{",
            f"{index}_f = arith.muli {index}, %kx{depth} : i64",
            f"{index}_a = arith.addi {far}, {index}_f : i64",
            *inner,
            f"scf.yield {', '.join([*ends, after])} : {types}",
            "}",
        ]
        return lines, [f"{result}#{i}" for i in range(len(held))], f"{result}#{len(held)}"

    def _tap(
        self, tag: str, mask: str | None, far: str, w: str, running: Sequence[str], xs: Sequence[str]
    ) -> tuple[list[str], list[str], str]:
        body = self.body
        lines: list[str] = []
        weight, after = "", w
        if body.w is not None:
            weight, after = f"%{tag}wv", f"%{tag}wn"
            kind = self._vector(body.type_of(body.w))
            lines += [
                f"{weight} = llvm.load {w} {{alignment = {self.bytes[1]} : i64}} : !llvm.ptr -> {kind}",
                f"{after} = llvm.getelementptr {w}[%panel0] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
            ]
        ends = []
        for place, (value, x) in enumerate(zip(running, xs, strict=True)):
            element = f"%{tag}e{place}"
            lines.append(f"{element}p = llvm.getelementptr {x}[{far}] : (!llvm.ptr, i64) -> !llvm.ptr, i8")
            lines += self._load(element, f"{element}p", body.type_of(body.x), mask)
            names = {body.x: element, body.running: value, **{s: f"{s}_v" for s in body.scalars}}
            if body.w is not None:
                names[body.w] = weight
            for result, operation, operands, attributes, kind in body.operations:
                names[result] = f"%{tag}{result[1:]}_{place}"
                vector = "i64" if kind == "" else self._vector(kind)
                types = ", ".join(self._vector(body.type_of(operand)) for operand in operands)
                values = ", ".join(names[operand] for operand in operands)
                lines.append(f'{names[result]} = "{operation}"({values}) {attributes} : ({types}) -> {vector}')
            ends.append(names[body.yielded])
        return lines, ends, after


def _moved(name: str, base: str, count: str, step: str) -> list[str]:
    return [
        f"%{name}_far = arith.muli {count}, {step} : i64",
        f"%{name} = llvm.getelementptr {base}[%{name}_far] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
    ]
