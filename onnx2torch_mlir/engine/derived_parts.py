"""The steps of derived.py for a part of what they make: as far as that goes, each step makes only what the part needs.

A part is a range along each axis. A step knows the part of its source that it reads for one; where there is none, as where a
reshape mixes axes, the whole source is made, and the part cut out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from onnx2torch_mlir.engine.derived import Step, Weights

Range = tuple[int, int]
"""The first place along an axis, and how many there are."""
Part = tuple[Range, ...]
Shape = tuple[int, ...]


def shapes_of(steps: Sequence[Step], weights: Weights) -> list[Shape]:
    """The sizes of what each step makes."""
    shapes: list[Shape] = []
    for kind, *rest in steps:
        if kind == "weight":
            shape = weights[rest[0]].shape
        elif kind in ("full", "reshape", "slice"):
            shape = tuple(rest[1 if kind == "reshape" else 2])
        elif kind == "flip":
            shape = shapes[rest[0]]
        elif kind == "pad":
            source, _, low, high = rest
            shape = tuple(map(sum, zip(low, shapes[source], high, strict=True)))
        else:
            sizes, order = rest[2], rest[5]
            shape = tuple(sizes[loop] for loop in order)
        shapes.append(shape)
    return shapes


def work(steps: Sequence[Step], shapes: Sequence[Shape]) -> int:
    """How many numbers the steps compute or write."""
    return sum(math.prod(shape) for step, shape in zip(steps, shapes, strict=True) if step[0] in ("nest", "pad"))


def part_of(steps: Sequence[Step], shapes: Sequence[Shape], part: Part) -> tuple[list[Step], list[tuple[int, Part]]]:
    """Steps that make ``part`` of what the last of ``steps`` makes, and the parts of weights that are their weights."""
    narrowed = _Narrowed(steps, shapes)
    narrowed.of(len(steps) - 1, part)
    return narrowed.steps, narrowed.reads


class _Narrowed:
    """The steps that make parts of others."""

    def __init__(self, whole: Sequence[Step], shapes: Sequence[Shape]) -> None:
        self.steps: list[Step] = []
        self.reads: list[tuple[int, Part]] = []
        self.shapes = shapes
        self._whole = whole
        self._known: dict[tuple[int, Part], int] = {}

    def of(self, number: int, part: Part) -> int:
        """The number of the new step that makes ``part`` of what step ``number`` makes."""
        key = number, part
        if key not in self._known:
            kind, *rest = self._whole[number]
            self._known[key] = _KINDS[kind](self, self.shapes[number], part, *rest)
        return self._known[key]

    def add(self, *step: object) -> int:
        """The number of a new step."""
        self.steps.append(list(step))
        return len(self.steps) - 1

    def cut(self, step: int, shape: Shape, part: Part) -> int:
        """The new step that takes ``part`` of what a new one makes, which has ``shape``."""
        if part == _all(shape):
            return step
        starts, counts = _turned(part)
        return self.add("slice", step, starts, counts, [1] * len(part))


def _weight(parts: _Narrowed, whole: Shape, part: Part, weight: int) -> int:
    parts.reads.append((weight, part))
    return parts.add("weight", len(parts.reads) - 1)


def _full(parts: _Narrowed, whole: Shape, part: Part, value: float, type_: str, shape: list[int]) -> int:
    return parts.add("full", value, type_, _turned(part)[1])


def _reshape(parts: _Narrowed, whole: Shape, part: Part, source: int, shape: list[int]) -> int:
    given = parts.shapes[source]
    read: list[Range] = []
    left: list[Range] = []
    """What is still to be cut out of the result."""
    made: list[int] = []
    for before, after in _groups(given, tuple(shape)):
        asked = part[after]
        found = _same(given[before], tuple(shape[after]), asked)
        read += _all(given[before]) if found is None else found
        made += shape[after] if found is None else (count for _, count in asked)
        left += asked if found is None else ((0, count) for _, count in asked)
    reshaped = parts.add("reshape", parts.of(source, tuple(read)), made)
    return parts.cut(reshaped, tuple(made), tuple(left))


def _slice(
    parts: _Narrowed, whole: Shape, part: Part, source: int, offsets: list[int], sizes: list[int], strides: list[int]
) -> int:
    read = tuple(
        (offset + start * stride, (count - 1) * stride + 1 if count else 0)
        for (start, count), offset, stride in zip(part, offsets, strides, strict=True)
    )
    found = parts.of(source, read)
    if all(stride == 1 for stride in strides):
        return found
    return parts.add("slice", found, [0] * len(part), _turned(part)[1], strides)


def _flip(parts: _Narrowed, whole: Shape, part: Part, source: int, axes: list[int]) -> int:
    read = (
        (whole[axis] - start - count, count) if axis in axes else (start, count) for axis, (start, count) in enumerate(part)
    )
    return parts.add("flip", parts.of(source, tuple(read)), axes)


def _pad(parts: _Narrowed, whole: Shape, part: Part, source: int, value: float, low: list[int], high: list[int]) -> int:
    read: list[Range] = []
    around: list[tuple[int, int]] = []
    for (start, count), before, size in zip(part, low, parts.shapes[source], strict=True):
        first, end = (min(max(place - before, 0), size) for place in (start, start + count))
        padded = min(max(before - start, 0), count)
        read.append((first, end - first))
        around.append((padded, count - padded - (end - first)))
    return parts.add("pad", parts.of(source, tuple(read)), value, *_turned(around))


def _nest(
    parts: _Narrowed,
    whole: Shape,
    part: Part,
    sources: list[int],
    maps: list[list[int]],
    shape: list[int],
    body: list[object],
    result: int,
    order: list[int],
) -> int:
    loops = dict(zip(order, part, strict=True))
    found = [
        parts.of(source, tuple(loops[loop] if loop >= 0 else (0, 1) for loop in map_))
        for source, map_ in zip(sources, maps, strict=True)
    ]
    return parts.add("nest", found, maps, [loops[loop][1] for loop in range(len(shape))], body, result, order)


_KINDS: dict[str, Callable[..., int]] = {
    "weight": _weight,
    "full": _full,
    "reshape": _reshape,
    "slice": _slice,
    "flip": _flip,
    "pad": _pad,
    "nest": _nest,
}


def _all(shape: Shape) -> Part:
    return tuple((0, size) for size in shape)


def _turned(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


@functools.lru_cache(64)
def _groups(given: Shape, made: Shape) -> list[tuple[slice, slice]]:
    """The axes of either shape of which each makes as many numbers as the other's, the fewest that do, from the first on."""
    found: list[tuple[slice, slice]] = []
    ends = [0, 0]
    if not math.prod(given):
        return [(slice(0, len(given)), slice(0, len(made)))]
    while ends[0] < len(given) or ends[1] < len(made):
        starts, counts = tuple(ends), [1, 1]
        while counts[0] != counts[1] or tuple(ends) == starts:
            side = int(counts[1] < counts[0] or ends[0] == len(given))
            counts[side] *= (given, made)[side][ends[side]]
            ends[side] += 1
        found.append((slice(starts[0], ends[0]), slice(starts[1], ends[1])))
    return found


def _same(given: Shape, made: Shape, part: Part) -> Part | None:
    """The part of ``given`` with the numbers of ``part`` of ``made``, as which it is laid out anew; None if there is none."""
    first, last, count = 0, 0, 1
    for size, (start, many) in zip(made, part, strict=True):
        first, last, count = first * size + start, last * size + start + many - 1, count * many
    if not count or last - first + 1 != count:
        return None
    found: list[Range] = []
    inner = math.prod(given)
    for axis, size in enumerate(given):
        inner //= size
        start, end = first // inner, last // inner
        found.append((start, end - start + 1))
        first, last = first - start * inner, last - start * inner
        if start != end:
            found += _all(given[axis + 1 :])
            break
    return tuple(found) if math.prod(many for _, many in found) == count else None
