"""Filters that read the same windows along lines: those that a call does together, and where the first of them begins."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from onnx2torch_mlir.engine.compiler.nest_sizes import Sizes
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import bytes_on
from onnx2torch_mlir.engine.compiler.window_match import Found
from onnx2torch_mlir.engine.compiler.window_tails import Tail


@dataclass(frozen=True)
class Filters:
    """Of the filters that read the same: ``together`` from ``first`` on, ``count`` times (None: all of the loop)."""

    together: int = 1
    first: int = 0
    count: int | None = None

    def outer(self, found: Found) -> list[int]:
        """The loops around a tile: that over filters is inside if a tile is of several."""
        return [dim for dim in found.outer if self.together == 1 or dim != found.alike]

    def behind(
        self, starts: list[ir.Value], found: Found, width: int, around: list[dict[int, int]], tail: Tail | None
    ) -> list[ir.Value]:
        """Where the first begins in each array, that begins at its one of ``starts``: in the weight and the result, of elements
        of ``width`` bytes, and in what the tail reads; ``around`` says how many bytes the outer loops move those that do not
        move as the result does."""
        assert found.alike is not None
        sizes, out = Sizes(found), len(found.operands) - 1
        x, w, o, *inputs = starts
        of_weight, *of_inputs = (sizes.number(steps[found.alike]) for steps in around)
        steps = [of_weight, sizes.step(out, found.alike, width)]
        for each in () if tail is None else tail.inputs:
            steps.append(
                of_inputs.pop(0) if each.kind == "around"
                else sizes.step(out, found.alike, each.bytes) if each.kind == "all"
                else sizes.number(0)
            )
        first = sizes.number(self.first)
        pairs = zip([w, o, *inputs], steps, strict=True)
        return [x, *(bytes_on(start, arith.MulIOp(step, first).result) for start, step in pairs)]


def filters_of(found: Found, places: int, *, sums: bool) -> list[Filters]:
    """Those of each call, of tiles of up to so many ``places``; of one each where they are added to ``sums`` that are there."""
    length = found.lengths[found.alike] if found.alike is not None and not sums else None
    if length is None:
        return [Filters()]
    most = of_host().registers // places
    together, rest = divmod(length, most)
    parts = [Filters(most, 0, together), Filters(rest, length - rest, 1)]
    return [part for part in parts if part.together and part.count]
