"""Copies between a few lines and one line of as many numbers for each place: the colours of an image, what a convolution's
result of twice the size is made of. Vectors of the lines are woven, or one line is taken apart, by shuffles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, func

from onnx2torch_mlir.engine.compiler.code_text import bytes_behind, masked_store, stored_if
from onnx2torch_mlir.engine.compiler.dense_copies import Copy, moved
from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes, address
from onnx2torch_mlir.engine.compiler.parallel_loops import TURN, parallel
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import index_of, word_of
from onnx2torch_mlir.engine.compiler.window_taps import load

_MOST_LINES = 7
"""Of 8 and more squares are made."""
_VECTORS_AT_ONCE = 16
"""Of each line, which a thread takes at a time."""


@dataclass(frozen=True)
class Weave:
    """So many ``lines``: of what is copied, which become one, or of the result, where one ``is_taken_apart``."""

    copy: Copy
    lines: int
    is_taken_apart: bool

    @property
    def function(self) -> str:
        """What does it for a part of the lines."""
        return f"{TURN}{self.copy.width}_{self.lines}_{'lines' if self.is_taken_apart else 'woven'}"

    @property
    def _lanes(self) -> int:
        return _lanes(self.copy.width)

    def write(self) -> ir.Operation:
        """The loops over outer dims and parts of the lines, in the place of the nest."""
        copy = self.copy
        generic = copy.generic
        few, long = (copy.across, copy.along) if self.is_taken_apart else (copy.along, copy.across)
        with ir.InsertionPoint(generic), generic.location:
            sizes = Sizes(copy)
            places = [address(value) for value in generic.operands]
            steps = [[sizes.step(operand, dim) for dim in (*copy.outer, long)] for operand in (0, 1)]
            far = sizes.step(int(self.is_taken_apart), few)
            count, part = sizes.count(long), sizes.number(self._lanes * _VECTORS_AT_ONCE)
            turns = [index_of(sizes.count(dim)) for dim in copy.outer]
            loop = parallel([*turns, index_of(arith.CeilDivSIOp(count, part).result)])
            body = loop.regions[0].blocks[0]
            with ir.InsertionPoint.at_block_terminator(body):
                *outer, number = (word_of(turn) for turn in body.arguments)
                first = arith.MulIOp(number, part).result
                source, target = (moved(place, [*outer, first], step) for place, step in zip(places, steps, strict=True))
                here = arith.MinSIOp(arith.SubIOp(count, first).result, part).result
                func.CallOp([], ir.FlatSymbolRefAttr.get(self.function), [target, source, here, far])
        generic.erase()
        return loop

    def text(self) -> str:
        """The function: (to, from, places, bytes from one of the lines to the next).

        Where a vector is not full, the last one of the part is made again from its neighbours; it is masked if there are none.
        """
        lanes = self._lanes
        return "\n".join(
            [
                f"func.func private @{self.function}(%to: !llvm.ptr, %from: !llvm.ptr, %count: i64, %far: i64) {{",
                "%none = arith.constant 0 : i64",
                f"%lanes = arith.constant {lanes} : i64",
                *(f"%number{i} = arith.constant {i} : i64" for i in range(self.lines)),
                *(f"%far{i} = arith.muli %number{i}, %far : i64" for i in range(self.lines)),
                "%last = arith.subi %count, %lanes : i64",
                "%is_full = arith.cmpi sge, %last, %none : i64",
                "scf.if %is_full {",
                "scf.for %turn = %none to %count step %lanes : i64 {",
                "%k = arith.minsi %turn, %last : i64",
                *self._turn("%k", masked=False),
                "}",
                "} else {",
                *self._turn("%none", masked=True),
                "}",
                "return",
                "}",
            ]
        )

    def _turn(self, first: str, *, masked: bool) -> list[str]:
        """The vectors of all lines from place ``first`` on."""
        lanes, width, numbers = self._lanes, self.copy.width, range(self.lines)
        scalar = f"i{8 * width}"
        vector = f"vector<{lanes}x{scalar}>"
        found = [
            f"%width = arith.constant {width} : i64",
            f"%woven_width = arith.constant {width * self.lines} : i64",
            f"%k_far = arith.muli {first}, %width : i64",
            f"%k_woven = arith.muli {first}, %woven_width : i64",
            *(f"%vector{i} = arith.constant {i * lanes * width} : i64" for i in numbers),
            *(f"%apart{i} = arith.addi %far{i}, %k_far : i64" for i in numbers),
            *(f"%woven{i} = arith.addi %k_woven, %vector{i} : i64" for i in numbers),
            *(self._masks() if masked else []),
        ]
        source, target = ("woven", "apart") if self.is_taken_apart else ("apart", "woven")
        for i in numbers:
            mask = f"%mask_{source}{i}" if masked else None
            found += [bytes_behind(f"%f{i}", "%from", f"%{source}{i}"), *load(f"%v{i}", f"%f{i}", lanes, scalar, width, mask)]
        for i in numbers:
            made, name = mixed(f"m{i}", [f"%v{j}" for j in numbers], self.order(i), vector)
            found += [*made, bytes_behind(f"%t{i}", "%to", f"%{target}{i}")]
            if not masked:
                found.append(f"llvm.store {name}, %t{i} {{alignment = {width} : i64}} : {vector}, !llvm.ptr")
                continue
            found += [
                f"%is{i} = arith.cmpi sgt, %left_{target}{i}, %none : i64",
                *stored_if(f"%is{i}", masked_store(name, f"%t{i}", f"%mask_{target}{i}", lanes, scalar, width)),
            ]
        return found

    def _masks(self) -> list[str]:
        """``%left_apart0``, ``%mask_apart0`` …, and of the line that is woven ``%left_woven0`` …: how many numbers there are
        from the begin of each vector on, and which of its lanes these are."""
        lanes, wide = self._lanes, f"vector<{self._lanes}xi64>"
        lines = [
            f"%lane = arith.constant dense<[{', '.join(map(str, range(lanes)))}]> : {wide}",
            f"%all = arith.constant {self.lines} : i64",
            "%woven_count = arith.muli %count, %all : i64",
        ]
        for i in range(self.lines):
            for side, count, before in (("apart", "%count", 0), ("woven", "%woven_count", i * lanes)):
                lines += [
                    f"%before_{side}{i} = arith.constant {before} : i64",
                    f"%left_{side}{i} = arith.subi {count}, %before_{side}{i} : i64",
                    f"%limit_{side}{i} = vector.broadcast %left_{side}{i} : i64 to {wide}",
                    f"%mask_{side}{i} = arith.cmpi slt, %lane, %limit_{side}{i} : {wide}",
                ]
        return lines

    def order(self, number: int) -> list[tuple[int, int]]:
        """Of which of the vectors that are read each number of vector ``number`` of the result is, and which one there."""
        lanes, lines = self._lanes, self.lines
        if self.is_taken_apart:
            return [divmod(lane * lines + number, lanes) for lane in range(lanes)]
        return [divmod(number * lanes + lane, lines)[::-1] for lane in range(lanes)]


def mixed(tag: str, vectors: Sequence[str], order: Sequence[tuple[int, int]], type_: str) -> tuple[list[str], str]:
    """The lines that put numbers of several ``vectors`` into an ``order`` (of which vector, and which there); the name."""
    lanes = len(order)
    places = [place if vector == 0 else lanes + place if vector == 1 else 0 for vector, place in order]
    lines, name = [f"%{tag}_1 = vector.shuffle {vectors[0]}, {vectors[1]} {places} : {type_}, {type_}"], f"%{tag}_1"
    for number in range(2, len(vectors)):
        places = [lanes + place if vector == number else lane for lane, (vector, place) in enumerate(order)]
        lines.append(f"%{tag}_{number} = vector.shuffle {name}, {vectors[number]} {places} : {type_}, {type_}")
        name = f"%{tag}_{number}"
    return lines, name


def of(copy: Copy) -> Weave | None:
    """How ``copy`` weaves lines, if it does: one side has few places, which lie side by side with those before and after."""
    source, result = copy.operands
    for few, long, dense, is_taken_apart in (
        (copy.along, copy.across, result, False),
        (copy.across, copy.along, source, True),
    ):
        lines, length = copy.fixed_length(few), copy.fixed_length(long)
        if lines is None or not 2 <= lines <= min(_MOST_LINES, _lanes(copy.width) // 2 - 1) or dense.step(long) != lines:
            continue
        if length is None or length >= _lanes(copy.width) // 2:
            return Weave(copy, lines, is_taken_apart)
    return None


def _lanes(width: int) -> int:
    """Elements of so many bytes in a vector."""
    return 4 * of_host().lanes // width
