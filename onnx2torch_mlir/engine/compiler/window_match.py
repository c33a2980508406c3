"""Which reductions are windows whose channels lie side by side, or whose lines do: see windows.py.

A ``linalg.generic`` on memrefs is taken if a loop that is not reduced moves the input and the result densely, and its body only
computes (arith). A second operand, if the body uses it, is a weight that moves with the channels and the taps; or, along lines,
with the taps and the filters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from onnx2torch_mlir.engine.compiler.loop_order import (
    Access,
    accesses,
    coefficient,
    continuing,
    extents,
    iterators,
    length_of,
    origin,
)
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.walks import is_memref
from onnx2torch_mlir.engine.compiler.window_channels import Channels, channels_of, line_of
from onnx2torch_mlir.engine.compiler.window_code import code_of
from onnx2torch_mlir.engine.compiler.window_sums import most_pairs
from onnx2torch_mlir.engine.compiler.window_taps import Body, Line

ELEMENTS = ("f16", "f32", "f64", "i8", "i16", "i32", "i64")
_MOST_TAPS = 4
_FEW_CHANNELS = 4
_MANY_CHANNELS = 512
"""As many numbers are better summed up row by row in memory than some at a time in registers."""


@dataclass(frozen=True)
class Found:
    """A nest over windows: the numbers of its operands, and its loops by what they do."""

    generic: ir.Operation
    operands: list[Access]
    lengths: list[int | None]
    weight: int | None
    outer: list[int]
    places: int | None
    channels: Channels
    taps: list[int]
    """But for the loop over a group's elements."""
    body: Body
    scalars: list[ir.Value]
    along_lines: bool
    """Whether places of a line stand for channels: a tap has one weight for all."""
    alike: int | None = None
    """The outer loop over filters that read the same, if there is one."""

    def length(self, dim: int) -> tuple[int, int]:
        """An operand and its axis whose size is the number of turns of loop ``dim``."""
        found = length_of(self.operands, dim)
        assert found is not None
        return found

    def fixed_length(self, dim: int) -> int | None:
        """The number of turns of loop ``dim``, where the types tell."""
        return self.lengths[dim]

    def filters(self) -> list[int]:
        """The outer loops that move the weight."""
        return [dim for dim in self.outer if self.weight is not None and self.operands[self.weight].moves(dim)]

    def line(self) -> Line | None:
        """How the innermost taps lie to the places, if they are of one axis and it is known how many there are."""
        taps = self.lengths[self.taps[-1]]
        if self.places is None or taps is None:
            return None
        for expression in self.operands[0].map.results:
            stride, dilation = coefficient(expression, self.places), coefficient(expression, self.taps[-1])
            if stride and dilation:
                return Line(taps, stride, dilation) if stride > 0 and dilation > 0 else None
        return None


def match(generic: ir.Operation) -> Found | None:
    """What a nest is as a reduction over windows, if it is one."""
    reduced = iterators(generic)
    count = len(generic.operands)
    if not any(reduced) or count not in (2, 3) or not all(is_memref(value.type) for value in generic.operands):
        return None
    operands = accesses(generic)
    if any(coefficient(e, dim) is None for access in operands for e in access.map.results for dim in range(len(reduced))):
        return None
    if any(origin(expression) for access in operands for expression in access.map.results):
        return None
    lengths = extents(operands, len(reduced))
    if any(length_of(operands, dim) is None for dim in range(len(reduced))):
        return None
    loops = [dim for dim in range(len(reduced)) if lengths[dim] != 1]
    read = _body(generic)
    if read is None:
        return None
    body, scalars = read
    x, out = operands[0], operands[-1]
    weight = 1 if body.w is not None else None
    channels = channels_of(operands, lengths, reduced, grouped=weight is not None)
    if channels is None and weight is not None:
        channels = line_of(operands, lengths, reduced)
    if channels is None or (lengths[channels.loop] or _FEW_CHANNELS) < _FEW_CHANNELS / channels.group:
        return None
    taps = [dim for dim in loops if reduced[dim] and dim != channels.member]
    if not taps or len(taps) > _MOST_TAPS:
        return None
    others = [dim for dim in loops if not reduced[dim] and dim not in channels.loops]
    along_lines = weight is not None and not operands[1].moves(channels.loop)
    if weight is not None and not along_lines and any(operands[1].moves(dim) for dim in others):
        return None
    if x.step(channels.loop) != channels.group and not along_lines:
        return None
    if any(not out.moves(dim) for dim in others) or any(out.moves(dim) for dim in taps):
        return None
    steps = {dim: out.step(dim) for dim in others if x.moves(dim)}
    known = [dim for dim, step in steps.items() if step is not None]
    places = min(known, key=lambda dim: abs(steps[dim] or 0)) if known else next(reversed(steps), None)
    of_taps = weight is not None and any(operands[1].moves(dim) for dim in taps)
    if not of_taps and not any(len(_moving(e, loops)) > 1 for e in x.map.results):
        # Whole rows are summed up, which share nothing: side by side lie vectors of channels, as many as there are few of, or
        # the rows of several results, if one vector is all.
        if _side_by_side(channels.loop, others, operands, lengths) >= _MANY_CHANNELS:
            return None
        if weight is None and (lengths[channels.loop] or 0) > of_host().lanes:
            places = None
    outer = [dim for dim in others if dim != places]
    found = Found(generic, operands, lengths, weight, outer, places, channels, taps, body, scalars, along_lines)
    return _along_lines(found) if along_lines else found


def _side_by_side(loop: int, others: Sequence[int], operands: Sequence[Access], lengths: Sequence[int | None]) -> int:
    """How many neighbours there are along a loop and ``others`` that continue it, in the input and the result; many, if that is
    not known."""
    counts = [lengths[dim] for dim in (loop, *continuing(loop, others, [operands[0], operands[-1]], lengths))]
    known = [count for count in counts if count is not None]
    return math.prod(known) if len(known) == len(counts) else _MANY_CHANNELS


def _along_lines(found: Found) -> Found | None:
    """A window along lines, taps of neighbouring lines last, for these are what places share; None where that does not pay:
    there have to be few channels and filters, of float32."""
    x, weight, _ = found.operands
    if found.places is None or found.channels.group > 1 or weight.moves(found.places):
        return None
    together = [e for e in x.map.results if coefficient(e, found.places)]
    shared = [dim for dim in found.taps if any(coefficient(e, dim) for e in together)]
    every = range(x.map.n_dims)
    alone = [dim for dim in found.taps if not any(coefficient(e, dim) and _moving(e, every) != [dim] for e in x.map.results)]
    filters = [dim for dim in found.filters() if not x.moves(dim)]
    most = most_pairs(x.step(found.channels.loop))
    pairs = math.prod(found.lengths[dim] or most + 1 for dim in (*alone, *filters))
    if len(shared) != 1 or pairs > most or found.body.type_of(found.body.running) != "f32":
        return None
    taps = [*(dim for dim in found.taps if dim != shared[0]), shared[0]]
    alike = max(filters, key=lambda dim: found.lengths[dim] or 0, default=None)
    return dataclasses.replace(found, taps=taps, alike=alike)


def _body(generic: ir.Operation) -> tuple[Body, list[ir.Value]] | None:
    """The body of a nest, and the values from outside that it uses; None if it is not of the kind described."""
    read = code_of(generic, "b", contract=True)
    if read is None:
        return None
    code, scalars = read
    if any(code.type_of(argument) not in ELEMENTS for argument in code.arguments):
        return None
    weight = code.arguments[1] if len(code.arguments) == 3 and code.used(code.arguments[1]) else None
    return Body(code, code.arguments[0], weight, code.arguments[-1]), scalars


def _moving(expression: ir.AffineExpr, loops: Sequence[int]) -> list[int]:
    """Which of the loops move an index."""
    return [dim for dim in loops if coefficient(expression, dim)]
