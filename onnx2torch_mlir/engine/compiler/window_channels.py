"""Which loops of a nest over windows run along its channels: one that moves all alike, or those of small groups of channels.

Each result of a group takes all elements of that group, as in a grouped convolution. With as many results as elements, channels
of the result lie as those of the input do, and vectors of both hold the same groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx2torch_mlir.engine.compiler.loop_order import Access
from onnx2torch_mlir.engine.compiler.vector_unit import of_host
from onnx2torch_mlir.engine.compiler.window_sums import MOST_APART


@dataclass(frozen=True)
class Channels:
    """``loop`` is the loop over channels, or over ``group`` of them at a time: then ``filters`` is the loop over the results
    of a group, and ``member`` the reduced one over its elements. ``count``: how many channels there are, if that is known."""

    loop: int
    count: int | None
    group: int = 1
    filters: int | None = None
    member: int | None = None

    @property
    def loops(self) -> list[int]:
        """Those along which the result lies densely, the outer one first."""
        return [self.loop, *([self.filters] if self.filters is not None else [])]


def channels_of(
    operands: Sequence[Access], lengths: Sequence[int | None], reduced: Sequence[bool], *, grouped: bool
) -> Channels | None:
    """The channels of a nest whose ``operands`` are its input, its weight (if there is one) and its result.

    ``grouped`` if they may be groups, of which the second operand is the weight.
    """
    x, out = operands[0], operands[-1]
    loops = [dim for dim, length in enumerate(lengths) if length != 1]
    alike = [dim for dim in loops if not reduced[dim] and x.step(dim) == 1 and out.step(dim) == 1]
    if alike:
        return Channels(alike[0], lengths[alike[0]]) if len(alike) == 1 else None
    if not grouped:
        return None
    filters = [dim for dim in loops if not reduced[dim] and out.step(dim) == 1 and not x.moves(dim)]
    members = [dim for dim in loops if reduced[dim] and x.step(dim) == 1 and not out.moves(dim)]
    if len(filters) != 1 or len(members) != 1 or lengths[filters[0]] != lengths[members[0]]:
        return None
    group = lengths[members[0]]
    if group is None or group & (group - 1) or 2 * group > of_host().lanes:
        return None
    groups = [dim for dim in loops if not reduced[dim] and x.step(dim) == group and out.step(dim) == group]
    if len(groups) != 1:
        return None
    count, step = lengths[groups[0]], operands[1].step(filters[0])
    if count is None or step is None or operands[1].step(groups[0]) != group * step:
        return None
    return Channels(groups[0], count * group, group, filters[0], members[0])


def line_of(operands: Sequence[Access], lengths: Sequence[int | None], reduced: Sequence[bool]) -> Channels | None:
    """Places of a line that stand for channels: the result's lie side by side, the input's apart, by at most `MOST_APART`."""
    x, out = operands[0], operands[-1]
    found = [
        dim
        for dim, length in enumerate(lengths)
        if length != 1 and not reduced[dim] and out.step(dim) == 1 and x.step(dim) in range(2, MOST_APART + 1)
    ]
    return Channels(found[0], lengths[found[0]]) if len(found) == 1 else None
