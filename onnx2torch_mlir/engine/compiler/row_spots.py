"""Where the elements of a row are, and what passes over it ask for (streams.py)."""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import affine, arith

from onnx2torch_mlir.engine.compiler.extents import index
from onnx2torch_mlir.engine.compiler.row_lanes import Lanes
from onnx2torch_mlir.engine.compiler.streams import AHEAD, Stream, times
from onnx2torch_mlir.engine.compiler.walks import root_of


@dataclass(frozen=True)
class Spot:
    """Where an element is: the buffer, the first of its indices, and the rest of them over the loops of the pass; whether each
    row has its own, which may be ``far``."""

    array: ir.Value
    first: list[ir.Value]
    rest: tuple[ir.AffineExpr, ...]
    far: bool = False

    def indices(self, here: list[ir.Value]) -> list[ir.Value]:
        """The indices at one place of the loops."""
        return [*self.first, *(_applied(expression, here) for expression in self.rest)]


class Asking:
    """Lets the first pass that goes along a row ask for what it will meet there, or in the next one."""

    def __init__(self) -> None:
        self._asked: set[ir.Value] = set()
        """Buffers of which what is ahead has been asked for."""

    def at(self, spot: Spot, here: list[ir.Value], lanes: Lanes, *, writes: bool) -> None:
        """What a turn asks for that is for ``lanes`` from ``spot`` on, at the insertion point."""
        root = root_of(spot.array)
        if not spot.far or not lanes.whole or root in self._asked or not _has_no_gaps(spot.array):
            return
        self._asked.add(root)
        *before, last = spot.indices(here)
        stream = Stream(spot.array, tuple(before), writes)
        later = arith.AddIOp(last, index(AHEAD * lanes.whole)).result
        stream.line().ask(times(later, stream.width), lanes.whole)


def _has_no_gaps(array: ir.Value) -> bool:
    """Whether a row begins where the one before ends."""
    return not isinstance(ir.MemRefType(array.type).layout, ir.StridedLayoutAttr)


def _applied(expression: ir.AffineExpr, here: list[ir.Value]) -> ir.Value:
    if isinstance(expression, ir.AffineDimExpr):
        return here[expression.position]
    if isinstance(expression, ir.AffineConstantExpr):
        return index(expression.value)
    value: ir.Value = affine.AffineApplyOp(ir.AffineMap.get(len(here), 0, [expression]), here).result
    return value
