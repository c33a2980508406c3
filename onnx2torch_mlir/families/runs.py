"""Elements picked along an axis by known positions: a few runs of neighbours, or each so many times, are copied as such.

A loop that picks one element after the other by a table takes several times as long as one that copies rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx2torch_mlir.core.builder import ProgramBuilder
from onnx2torch_mlir.core.dims import to_dim
from onnx2torch_mlir.core.values import Value

_MOST_RUNS = 3
"""An image with more at each side, and it in the middle."""

Run = tuple[int, int, int]
"""The first position, the step to the next, and how many there are."""


def picked(g: ProgramBuilder, x: Value, axis: int, index: Value) -> Value:
    """``x`` [..., size, ...] at the positions ``index`` [places] (from 0 to its size) along ``axis``."""
    size, known = x.shape[axis], index.tensor
    if known is not None and isinstance(size, int) and not x.is_known and (times := _times(known.tolist(), size)) > 1:
        return _repeated(g, x, axis, times)
    runs = None if known is None or x.is_known else runs_of(known.tolist(), _MOST_RUNS)
    if not runs or not isinstance(size, int) or not all(_is_inside(run, size) for run in runs):
        result: Value = g.call("aten.index_select.default", x, axis, index)
        return result
    return g.cat([_run(g, x, axis, run) for run in runs], axis)


def runs_of(positions: Sequence[int], most: int) -> list[Run] | None:
    """The positions as runs of steps of 0, 1 or -1, each as long as can be; None if there are more than ``most``."""
    runs: list[Run] = []
    for position in positions:
        first, step, count = runs[-1] if runs else (0, 0, 0)
        moved = position - (first + (count - 1) * step)
        if runs and (moved == step or (count == 1 and moved in (0, 1, -1))):
            runs[-1] = (first, moved, count + 1)
        elif len(runs) == most:
            return None
        else:
            runs.append((position, 0, 1))
    return runs


def _times(positions: Sequence[int], size: int) -> int:
    """How often each position of an axis is picked, if all are, in their order and alike; else 1."""
    times = len(positions) // max(size, 1)
    return times if times > 1 and positions == [place // times for place in range(times * size)] else 1


def _repeated(g: ProgramBuilder, x: Value, axis: int, times: int) -> Value:
    before, (size, *behind) = x.shape[:axis], x.shape[axis:]
    wide = g.expand(g.unsqueeze(x, axis + 1), [*before, size, times, *behind])
    return g.reshape(wide, [*before, to_dim(size * times), *behind])


def _is_inside(run: Run, size: int) -> bool:
    first, step, count = run
    return 0 <= first < size and 0 <= first + step * (count - 1) < size


def _run(g: ProgramBuilder, x: Value, axis: int, run: Run) -> Value:
    first, step, count = run
    if step == 0 and count > 1:
        size = [count if position == axis else dim for position, dim in enumerate(x.shape)]
        return g.expand(g.slice(x, axis, first, first + 1), size)
    if step >= 0:
        return g.slice(x, axis, first, first + count)
    taken = g.slice(x, axis, first - count + 1, first + 1)
    flipped: Value = g.call("aten.flip.default", taken, [axis])
    return flipped
