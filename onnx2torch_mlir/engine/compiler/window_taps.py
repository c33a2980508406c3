"""What a tile of windows does along its taps: loops over them, and inside what a tap does to the running value of each place.

Neighbouring places mostly reach the same elements: with three taps a row, each element is in three windows. Where it is known
how many taps the innermost loop has, and how places and taps lie to each other, that loop is written out: every element is
read once and given to all windows of the tile that it is in.

Channels may come in small groups, of which each result takes all elements: an element's vector then is spread within the groups
once for each of these, and meets the weights of that one.

Several filters may read the same: then an element is given to the windows of each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, masked_load
from onnx2torch_mlir.engine.compiler.window_code import Code

_MOST_STEPS = 32
"""Weights of a line that is written out, one vector each."""


@dataclass(frozen=True)
class Body:
    """What a tap does: ``x``, ``w`` (None if there is no weight) and ``running`` name the elements in ``code``."""

    code: Code
    x: str
    w: str | None
    running: str

    def type_of(self, name: str) -> str:
        """The scalar type of a value of the body."""
        return self.code.type_of(name)


@dataclass(frozen=True)
class Line:
    """The innermost taps: ``count`` of them, ``dilation`` elements apart, in windows that are ``stride`` elements apart."""

    count: int
    stride: int
    dilation: int


@dataclass(frozen=True)
class Taps:
    """Loops over taps: ``loops`` of them, the innermost along ``line`` if it is known; results of ``lanes`` channels.

    ``bytes`` of an element of the input and of the weight. Of ``group`` channels each result takes all. With ``single``, a tap
    has one weight for all lanes, whose elements are ``apart`` (1 or 2). Of ``filters`` that read the same, the weights of each
    are ``%filterN_w`` bytes behind those of the first (of which nothing is known here but that).
    """

    body: Body
    lanes: int
    loops: int
    bytes: tuple[int, int]
    line: Line | None = None
    group: int = 1
    single: bool = False
    apart: int = 1
    filters: int = 1

    @property
    def _weight_bytes(self) -> int:
        """Of the weights of a tap and one element of a group."""
        return self.bytes[1] if self.single else self.lanes * self.bytes[1]

    @property
    def _written(self) -> Line | None:
        """The line, if it is written out."""
        fits = self.line is not None and self.line.count * self.group <= _MOST_STEPS
        return self.line if fits else None

    def shared(self) -> list[str]:
        """What all tiles of a function need: ``%panelI``, bytes of the weights of all taps from loop I on; ``%element``, those
        between elements of a line."""
        loops, line = self.loops, self._written
        lines = [f"%panel{loops} = arith.constant {self._weight_bytes * self.group} : i64"]
        lines += [f"%panel{i} = arith.muli %panel{i + 1}, %kn{i} : i64" for i in reversed(range(loops))]
        if line is not None:
            lines += [
                f"%dilation = arith.constant {line.dilation} : i64",
                f"%element = arith.divui %kx{loops - 1}, %dilation : i64",
            ]
        return lines

    def text(
        self, tag: str, mask: str | None, w: str, running: Sequence[str], xs: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """The taps of all places, whose first elements are at ``xs``, with the weights at ``w``, and the values after them:
        those of the first filter at all places, and so on."""
        lines, ends, _ = self._loop(0, tag, mask, "%none", w, running, xs)
        return lines, ends

    def _loop(
        self, depth: int, tag: str, mask: str | None, far: str, w: str, running: Sequence[str], xs: Sequence[str]
    ) -> tuple[list[str], list[str], str]:
        """The loops from ``depth`` on: their text, the running values and the place in the weight after them."""
        line = self._written
        if line is not None and depth == self.loops - 1:
            return self._along(line, tag, mask, far, w, running, xs)
        if depth == self.loops:
            return self._tap(tag, mask, far, w, running, xs)
        kind = self._vector(self.body.type_of(self.body.running))
        types = ", ".join([*[kind] * len(running), "!llvm.ptr"])
        held = [f"%{tag}h{depth}_{i}" for i in range(len(running))]
        place = f"%{tag}q{depth}"
        given = ", ".join(f"{h} = {v}" for h, v in zip([*held, place], [*running, w], strict=True))
        index, result = f"%{tag}k{depth}", f"%{tag}r{depth}"
        inner, ends, after = self._loop(depth + 1, tag, mask, f"{index}_a", place, held, xs)
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
        """One tap of each place."""
        lines, weights = self._weights(tag, w, 1)
        ends = list(running)
        for place, x in enumerate(xs):
            element = f"%{tag}in{place}"
            lines += [f"{element}p = llvm.getelementptr {x}[{far}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"]
            lines += self._met(f"{tag}in{place}", f"{element}p", mask, [(place, 0)], weights, ends)
        return [*lines, *self._behind(tag, w, f"%panel{self.loops}")], ends, self._after(tag, w)

    def _along(
        self, line: Line, tag: str, mask: str | None, far: str, w: str, running: Sequence[str], xs: Sequence[str]
    ) -> tuple[list[str], list[str], str]:
        """All taps of a line, of each place: each element is read once."""
        lines, weights = self._weights(tag, w, line.count)
        ends = list(running)
        uses: dict[int, list[tuple[int, int]]] = {}
        for place in range(len(xs)):
            for tap in range(line.count):
                uses.setdefault(place * line.stride + tap * line.dilation, []).append((place, tap))
        lines.append(f"%{tag}line = llvm.getelementptr {xs[0]}[{far}] : (!llvm.ptr, i64) -> !llvm.ptr, i8")
        for position, windows in sorted(uses.items()):
            element = f"%{tag}e{position}"
            lines += [
                f"{element}n = arith.constant {position} : i64",
                f"{element}f = arith.muli {element}n, %element : i64",
                f"{element}p = llvm.getelementptr %{tag}line[{element}f] : (!llvm.ptr, i64) -> !llvm.ptr, i8",
                *self._met(f"{tag}e{position}", f"{element}p", mask, windows, weights, ends),
            ]
        return [*lines, *self._behind(tag, w, f"%panel{self.loops - 1}")], ends, self._after(tag, w)

    def _met(
        self,
        name: str,
        place: str,
        mask: str | None,
        windows: Sequence[tuple[int, int]],
        weights: list[list[list[str]]],
        ends: list[str],
    ) -> list[str]:
        """What the element at ``place`` does to the running values, ``ends``, of ``windows``: places and their taps there."""
        body, places = self.body, len(ends) // self.filters
        lines = self._elements(f"%{name}", place, mask)
        for member in range(self.group):
            element = f"%{name}"
            if self.group > 1:
                kind = self._vector(body.type_of(body.x))
                order = [lane - lane % self.group + member for lane in range(self.lanes)]
                element = f"%{name}g{member}"
                lines.append(f"{element} = vector.shuffle %{name}, %{name} {order} : {kind}, {kind}")
            for (place_, tap), number in itertools.product(windows, range(self.filters)):
                window = number * places + place_
                given = {body.x: element, body.running: ends[window]}
                if body.w is not None:
                    given[body.w] = weights[number][tap][member]
                found, ends[window] = body.code.on_vectors(self.lanes, given, f"{name}g{member}w{window}_")
                lines += found
        return lines

    def _elements(self, name: str, place: str, mask: str | None) -> list[str]:
        """``name`` = those of all lanes, of which the first is at ``place``. Nothing behind the last one is read."""
        scalar, size = self.body.type_of(self.body.x), self.bytes[0]
        if self.apart == 1:
            return load(name, place, self.lanes, scalar, size, mask)
        # The second vector begins with the last number of the first one.
        half, vector = self.lanes // 2, self._vector(scalar)
        order = [*range(0, self.lanes, 2), *(self.lanes + 2 * lane + 1 for lane in range(half))]
        return [
            f"{name}_b = llvm.getelementptr {place}[{(self.lanes - 1) * size}] : (!llvm.ptr) -> !llvm.ptr, i8",
            *load(f"{name}_0", place, self.lanes, scalar, size, None if mask is None else f"{mask}_0"),
            *load(f"{name}_1", f"{name}_b", self.lanes, scalar, size, None if mask is None else f"{mask}_1"),
            f"{name} = vector.shuffle {name}_0, {name}_1 {order} : {vector}, {vector}",
        ]

    def masks(self, mask: str) -> list[str]:
        """``mask``, for ``%rest`` lanes, and those of what `_elements` reads for it; ``%lane`` numbers the lanes."""
        numbers = f"vector<{self.lanes}xi64>"
        lines = [
            f"%limit = vector.broadcast %rest : i64 to {numbers}",
            f"{mask} = arith.cmpi slt, %lane, %limit : {numbers}",
        ]
        if self.apart == 1:
            return lines
        return [
            *lines,
            "%read = arith.addi %rest, %rest : i64",
            *(f"%before_{part} = arith.constant {1 + part * (self.lanes - 1)} : i64" for part in range(2)),
            *(f"%read_{part} = arith.subi %read, %before_{part} : i64" for part in range(2)),
            *(f"%limit_{part} = vector.broadcast %read_{part} : i64 to {numbers}" for part in range(2)),
            *(f"{mask}_{part} = arith.cmpi slt, %lane, %limit_{part} : {numbers}" for part in range(2)),
        ]

    def _weights(self, tag: str, w: str, taps: int) -> tuple[list[str], list[list[list[str]]]]:
        """The weights of each filter, of so many taps, and of each those of a group's elements."""
        body = self.body
        if body.w is None:
            return [], [[[""] * self.group] * taps] * self.filters
        lines, names = list[str](), list[list[list[str]]]()
        kind = body.type_of(body.w)
        for number in range(self.filters):
            first = w
            if number:
                first = f"%{tag}weights{number}"
                lines.append(bytes_behind(first, w, f"%filter{number}_w"))
            names.append([[f"%{tag}w{number}_{tap}_{member}" for member in range(self.group)] for tap in range(taps)])
            for position, name in enumerate(itertools.chain.from_iterable(names[-1])):
                place = position * self._weight_bytes
                lines.append(f"{name}_p = llvm.getelementptr {first}[{place}] : (!llvm.ptr) -> !llvm.ptr, i8")
                if self.single:
                    lines += spread(name, f"{name}_p", self.lanes, kind)
                else:
                    lines += load(name, f"{name}_p", self.lanes, kind, self.bytes[1], None)
        return lines, names

    def _behind(self, tag: str, w: str, size: str) -> list[str]:
        if self.body.w is None:
            return []
        return [f"%{tag}wn = llvm.getelementptr {w}[{size}] : (!llvm.ptr, i64) -> !llvm.ptr, i8"]

    def _after(self, tag: str, w: str) -> str:
        return w if self.body.w is None else f"%{tag}wn"

    def _vector(self, scalar: str) -> str:
        return f"vector<{self.lanes}x{scalar}>"


def load(name: str, place: str, lanes: int, scalar: str, size: int, mask: str | None) -> list[str]:
    """``name`` = the vector at ``place``, of elements of ``size`` bytes; 0 where the mask is not set."""
    vector = f"vector<{lanes}x{scalar}>"
    if mask is None:
        return [f"{name} = llvm.load {place} {{alignment = {size} : i64}} : !llvm.ptr -> {vector}"]
    zero = "0.0" if scalar.startswith("f") else "0"
    return [
        f"{name}_z = arith.constant dense<{zero}> : {vector}",
        masked_load(name, place, mask, lanes, scalar, size, off=f"{name}_z"),
    ]


def spread(name: str, place: str, lanes: int, scalar: str) -> list[str]:
    """``name`` = a vector of the number at ``place``."""
    return [
        f"{name}_l = llvm.load {place} : !llvm.ptr -> {scalar}",
        f"{name} = vector.broadcast {name}_l : {scalar} to vector<{lanes}x{scalar}>",
    ]
